"""The stored trainings: are they what the tool makes, and what the notebook says of them?"""

import pytest
import torch

from attncourse.learning.model import exchange
from attncourse.learning.patterns import share_by_pair
from attncourse.learning.record import held_out_batch, recorded_model
from attncourse.learning.runs import (
    LATE,
    RUNS,
    SEEDS,
    LookUpRun,
    Setting,
    guess_by_place,
    late_head,
    look_up_model,
    look_up_runs,
    look_up_test,
    orders_named,
    repeat_runs,
    stored_runs,
)
from attncourse.learning.tasks import NO_ANSWER, look_ups, repeats
from attncourse.learning.training import accuracy
from train_runs import LONG, measure_repeats, settings, train_look_ups

RATES = (2e-3, 5e-3, 1e-2, 2e-2)


def test_every_setting_of_the_tool_is_stored_once():
    stored = [run.setting for run in stored_runs()[0]]
    assert stored == settings()
    assert len(set(stored)) == len(stored)
    assert RUNS.stat().st_size + LATE.stat().st_size < 80_000


@pytest.mark.parametrize(("num_heads", "least", "most"), [(1, 0.05, 0.4), (2, 0.99, 1.0)])
def test_a_training_ends_as_it_is_stored(num_heads, least, most, capsys):
    """Rounding differs between machines; whether both are named does not."""
    setting = Setting(num_heads, learning_rate=1e-2, seed=3)
    run, model = train_look_ups(setting)
    stored = next(r for r in look_up_runs(num_heads, learning_rate=1e-2) if r.setting.seed == 3)
    assert capsys.readouterr().out
    assert run.parameters == stored.parameters == 5816
    assert all(least <= share <= most for share in (run.right, stored.right))
    assert run.right == accuracy(model, look_up_test(1, 3))
    assert stored.named == pytest.approx(run.named, abs=0.2)


def test_a_model_starts_as_its_seed_and_its_setting_say():
    first, second, other = (look_up_model(Setting(2, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(first.read_out.weight, second.read_out.weight)
    assert not torch.equal(first.read_out.weight, other.read_out.weight)
    hidden = look_up_model(Setting(1, hidden=14))
    assert hidden(torch.zeros(3, 5, dtype=torch.int64)).shape == (3, 5, 2, 12)
    size = sum(weight.numel() for weight in hidden.parameters())
    assert size == look_up_runs(1, hidden=14)[0].parameters == 5846


def shares(*runs: list[LookUpRun]) -> list[float]:
    return [run.right for three in runs for run in three]


def test_the_runs_say_what_the_notebook_says():
    one, two, four = (
        shares(*(look_up_runs(n, learning_rate=rate) for rate in RATES)) for n in (1, 2, 4)
    )
    assert len(one) == len(two) == len(four) == 12
    assert max(one) < 0.25
    assert min(two + four) > 0.998
    assert {len(look_up_runs(n)) for n in (1, 2, 4)} == {3}
    assert shares(look_up_runs(1, distances=(1,)), look_up_runs(1, distances=(3,))) == [1.0] * 6
    assert max(shares(look_up_runs(1, width=64))) < 0.21
    assert look_up_runs(1, width=64)[0].parameters > 3 * 5816
    long = look_up_runs(1, steps=LONG)
    assert min(shares(long)) > 0.86
    for run in long:
        assert len(run.over_time) == 8
        assert max(run.over_time[:4]) < 0.3
        assert run.over_time[-1] == run.right
    fewer, more = (look_up_runs(1, hidden=units) for units in (14, 64))
    assert sum(run.right > 0.5 for run in fewer) == 1
    assert min(shares(more)) > 0.45


def test_a_setting_that_is_not_stored_is_refused():
    with pytest.raises(ValueError, match=r"num_heads=3, .* is not stored: tools/train_runs.py"):
        look_up_runs(3)
    with pytest.raises(ValueError, match="seed=4 is not stored; stored are 1, 2, 3"):
        late_head(4)


def test_the_weights_stored_are_those_of_the_long_runs():
    for run in look_up_runs(1, steps=LONG):
        model = late_head(run.setting.seed)
        assert accuracy(model, look_up_test(1, 3)) == pytest.approx(run.right, abs=5e-3)


def test_the_lonely_head_has_one_alphabet_backwards_at_some_places():
    tokens = look_ups(1, 3)(2000, torch.Generator().manual_seed(7)).tokens
    for seed in SEEDS:
        with torch.no_grad():
            looks = late_head(seed)(tokens, return_weights=True)[1][:, 0, 0]
        tables = torch.stack([share_by_pair(looks, tokens, 1, 3, p) for p in range(3, 16)])
        orders = torch.corrcoef(tables.mean(dim=2))
        assert orders.abs().min() > 0.9
        assert (orders < 0).any()
        flat, sloping = tables.mean(dim=0), tables[6]
        assert flat.max() - flat.min() < 0.15
        assert sloping.max() - sloping.min() > 0.3
        signs = (orders[6] > 0).tolist()
        assert all(here != there for here, there in zip(signs, signs[2:], strict=False))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_place_writes_the_code_that_the_next_query_reads(seed):
    """The same for the query two further on, where it is the far one: so signs alternate."""
    model, tokens = late_head(seed), look_ups(1, 3)(2000, torch.Generator().manual_seed(7)).tokens
    layer = model.layers[0]
    with torch.no_grad():
        looks = model(tokens, return_weights=True)[1][:, 0, 0]
        values = model.position_embedding.weight @ layer.W_value.weight.T
        written = values @ layer.out_proj.weight.T @ model.read_out.weight.T
    tables = torch.stack([share_by_pair(looks, tokens, 1, 3, n) for n in range(3, 16)])
    order = tables[6].mean(dim=1)
    orders = torch.corrcoef(tables.mean(dim=2))[6]
    for n in range(3, 16):
        near, far = (
            torch.corrcoef(torch.stack((written[n - back, :12], order)))[0, 1] for back in (1, 3)
        )
        assert near * orders[n - 3] > 0.8
        assert far * orders[n - 3] < -0.8


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_is_in_the_weights_of_the_places(seed):
    model, batch = late_head(seed), look_up_test(1, 3)
    with torch.no_grad():
        own = model(batch.tokens, return_weights=True)[1]
        other = exchange(own, near=1, far=3)
        as_it_is = orders_named(model, batch, own, own)
        letters = orders_named(model, batch, other, own)
        places = orders_named(model, batch, own, other)
    assert as_it_is[0] > 0.85
    assert letters[0] >= 0.49
    assert max(as_it_is[1], letters[1]) < 0.03
    assert places[0] < 0.18 < 0.5 < places[1]


def test_orders_are_counted_where_two_different_tokens_are_asked_for():
    model, batch = look_up_model(Setting(1)), look_up_test(1, 3)
    with torch.no_grad():
        logits, own = model(batch.tokens, return_weights=True)
    said, asked = (part.flatten(0, 1).tolist() for part in (logits.argmax(dim=-1), batch.answers))
    pairs = [
        (one, wanted)
        for one, wanted in zip(said, asked, strict=True)
        if NO_ANSWER not in wanted and wanted[0] != wanted[1]
    ]
    expected = [sum(one == wanted[::way] for one, wanted in pairs) for way in (1, -1)]
    found = orders_named(model, batch, own, own)
    assert found == pytest.approx([n / len(pairs) for n in expected])


def test_two_layers_learn_repeats_and_one_layer_does_not():
    one, two = (repeat_runs(num_layers, 1200) for num_layers in (1, 2))
    assert [run.seed for run in one] == [1, 2, 3]
    assert [run.seed for run in two] == list(range(1, 9))
    assert one[0].parameters > two[0].parameters
    assert max(run.right for run in one) < 0.25
    assert min(run.right for run in two) > 0.88
    assert 0.19 < guess_by_place(held_out_batch()) < 0.21
    shared = [run for run in two if max(run.scores["2 back"][:2]) > 0.9]
    assert [run.seed for run in two if run not in shared] == [1]
    heads = [(run.best("1 back")[1], run.best("2 back")[1]) for run in shared]
    assert heads.count(("L0H1", "L0H0")) == 6
    assert heads.count(("L0H0", "L0H1")) == 1
    assert two[3].best("2 back") == (two[3].scores["2 back"][1], "L0H1")
    assert min(run.ambiguous for run in shared) > 0.97 > 0.8 > two[0].ambiguous
    assert min(max(run.scores["1 back"][:2]) for run in two) > 0.98


def test_seed_3_is_the_training_that_is_stored_step_by_step():
    run = repeat_runs(num_layers=2, steps=1200)[2]
    again = measure_repeats(recorded_model(1200))
    assert again["parameters"] == run.parameters
    assert again["ambiguous"] == pytest.approx(run.ambiguous, abs=5e-3)
    for name, by_head in run.scores.items():
        assert again["scores"][name] == pytest.approx(by_head, abs=5e-3)


def test_the_guess_by_place_takes_the_letter_that_most_distances_name():
    batch = repeats(shortest=3, longest=5, num_tokens=13)(17, torch.Generator().manual_seed(2))
    right, count = 0.0, 0
    for row, wanted in zip(batch.tokens.tolist(), batch.answers[..., 0].tolist(), strict=True):
        for q, answer in enumerate(wanted):
            if answer == NO_ANSWER:
                continue
            named = [row[q + 1 - d] for d in (3, 4, 5) if d <= q]
            most = max(named.count(letter) for letter in named)
            best = {letter for letter in named if named.count(letter) == most}
            right, count = right + (answer in best) / len(best), count + 1
    assert guess_by_place(batch, shortest=3, longest=5) == pytest.approx(right / count)
