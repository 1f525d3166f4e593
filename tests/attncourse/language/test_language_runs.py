"""Runs and interventions against the plain definition, on a small model with random weights."""

import math
import re
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attncourse.language import Ablate, Patch, PathPatch, Run
from attncourse.language.reader import LanguageModel
from attnlib import FusedMultiHeadAttention
from attnlib.rotary import rotary_cos_sin, rotate_interleaved
from support.small_llama import SIZE, SplitAttention, plain_run, small_model

TOKENS = [17, 3, 89, 3, 41, 7, 100]
PLAIN = small_model().llama
HEADS = [(layer, head) for layer in range(SIZE.num_layers) for head in range(SIZE.num_heads)]


def numbers(*shape: int, seed: int = 11) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


CHANGES = {
    "nothing": (),
    "ablate everywhere": (Ablate(1, 4),),
    "ablate at some": (Ablate(0, 5, at=[2, -1]), Ablate(2, 0, at=0)),
    "put at the last": (Patch(1, 2, numbers(14)),),
    "put at some": (Patch(1, 2, numbers(3, 14), at=[0, 5, -3]),),
    "put everywhere": (Patch(0, 1, numbers(7, 14), at=None), Patch(2, 1, numbers(14), at=None)),
    "the later wins": (Patch(1, 3, numbers(14)), Ablate(1, 3), Patch(1, 3, numbers(14), at=2)),
    "cut at the queries": (PathPatch((0, 1), (1, 4), "queries"),),
    "cut at the keys": (PathPatch((0, 1), (1, 4), "keys"),),
    "cut at the values": (PathPatch((0, 1), (2, 4), "values"),),
    "cut two writers": (PathPatch((0, 1), (2, 4), "keys"), PathPatch((1, 5), (2, 4), "keys")),
    "cut for a group": (PathPatch((0, 1), (2, 4), "keys"), PathPatch((0, 0), (2, 5), "keys")),
    "all at once": (
        Ablate(0, 2),
        PathPatch((0, 2), (1, 0), "keys"),
        PathPatch((0, 3), (1, 0), "queries"),
        Patch(1, 0, numbers(14), at=3),
        PathPatch((1, 0), (2, 3), "values"),
        Ablate(2, 3, at=1),
    ),
}
every_change = pytest.mark.parametrize("how", CHANGES)


@pytest.fixture(scope="module", params=["ours", "the reader's"])
def model(request) -> LanguageModel:
    small = small_model()
    return small if request.param == "ours" else small.with_attention(SplitAttention)


@cache
def defined(how: str) -> dict[str, Any]:
    return plain_run(PLAIN, torch.tensor(TOKENS), CHANGES[how])


def require_plain(run: Run, how: str) -> None:
    plain = defined(how)

    def close(found: Tensor, expected: Tensor) -> None:
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=2e-5)

    close(run.logits, plain["logits"])
    close(run.probabilities, plain["logits"][-1].softmax(-1))
    losses = -plain["logits"].log_softmax(-1)[range(6), TOKENS[1:]]
    close(run.losses, losses)
    heads = torch.stack([run.head_output(*head, at=None) for head in HEADS])
    close(heads, torch.stack([plain["numbers"][head] for head in HEADS]))
    weights = torch.stack([plain["weights"][head] for head in HEADS])
    layers = range(SIZE.num_layers)
    close(torch.cat([run.attn_weights(layer) for layer in layers]), weights)
    is_future = torch.ones(7, 7, dtype=torch.bool).triu(1)
    scores = torch.cat([run.attn_scores(layer) for layer in layers]) / math.sqrt(14)
    close(scores.masked_fill(is_future, -torch.inf).softmax(-1), weights)
    writes = [plain["writes"][head] for head in HEADS]
    close(torch.stack([run.head_write(*head) for head in HEADS]), torch.stack(writes))


@every_change
def test_a_run_is_the_plain_definition(model, how):
    require_plain(model.read(TOKENS, *CHANGES[how]), how)


@every_change
@pytest.mark.parametrize("before", ["nothing", "ablate at some"])
def test_rerun_takes_over_only_what_is_the_same(model, how, before):
    first = model.read(TOKENS, *CHANGES[before])
    require_plain(first.rerun(*CHANGES[how]), how)
    require_plain(first, before)  # it is not touched


def test_rerun_computes_no_layer_below(monkeypatch):
    model = small_model()
    run = model.read(TOKENS)
    calls = []
    for layer, block in enumerate(model.llama.blocks):
        block.register_forward_hook(lambda *_: pytest.fail("blocks are run part by part"))
        block.norm_2.register_forward_hook(lambda *_, layer=layer: calls.append(layer))
    run.rerun(PathPatch((0, 1), (1, 4), "keys"))
    assert calls == [1, 2]
    run.rerun()
    assert calls == [1, 2]


@every_change
def test_queries_keys_and_values_make_the_scores_and_the_numbers(model, how):
    changes = CHANGES[how]
    run = model.read(TOKENS, *changes)
    changed = {(c.layer, c.head) for c in changes if not isinstance(c, PathPatch)}
    cut = {tuple(c.reader) for c in changes if isinstance(c, PathPatch)}
    for head in {*HEADS[::5], *changed, *cut}:
        scores = run.queries(*head) @ run.keys(*head).T
        torch.testing.assert_close(scores, run.attn_scores(*head))
        made = run.attn_weights(*head) @ run.values(*head)
        if head not in changed:
            torch.testing.assert_close(made, run.head_output(*head, at=None))


@pytest.mark.parametrize("at", [0, 3, -1, -7])
def test_numbers_of_one_token(model, at):
    run = model.read(TOKENS)
    assert torch.equal(run.head_output(1, 5, at=at), run.head_output(1, 5, at=None)[at])
    run.head_output(1, 5, at=at).zero_()  # a copy
    assert run.head_output(1, 5, at=at).abs().min() > 0


def test_muting_each_is_muting_one_at_a_time(model):
    run = model.read(TOKENS)
    likeliest = int(run.probabilities.argmax())
    expected = [run.rerun(Ablate(*head)).probabilities[likeliest] for head in model.heads]
    torch.testing.assert_close(run.ablate_each().flatten(), torch.stack(expected))
    with pytest.raises(ValueError, match="heads are ablated in turn in a run without changes"):
        run.rerun(Ablate(0, 0)).ablate_each()


def test_reading_aloud_is_the_norms_scale_and_the_embedding(model):
    run, state = model.read(TOKENS), model.llama.state_dict()
    spoken = run.head_write(2, 3)[-1] * state["final_norm.weight"] @ state["lm_head.weight"].T
    words = [str(i) for i in spoken.argsort(descending=True).tolist()]
    assert run.logit_lens(2, 3, how_many=9) == words[:9]
    assert run.next_words(2)[1][0] == str(run.logits[-1].argsort(descending=True)[1].item())


def test_rows_of_the_files_matrix_are_a_head(model):
    run, layer, head, width = model.read(TOKENS), 1, 4, SIZE.head_dim
    rows = model.tensor(f"blk.{layer}.attn_q.weight")[head * width : (head + 1) * width]
    found = run.queries(layer, head, rotated=False)
    torch.testing.assert_close(run.attention_input(layer) @ rows.T, found)
    rows = model.tensor(f"blk.{layer}.attn_k.weight").split(width)[head // 2]
    cos_sin = rotary_cos_sin(torch.arange(7), width, SIZE.rotary_base)
    turned = [
        rotate_interleaved(part, *cos_sin) for part in (found, run.attention_input(layer) @ rows.T)
    ]
    scores = turned[0] @ turned[1].T
    torch.testing.assert_close(scores, run.attn_scores(layer, head), rtol=1e-4, atol=1e-4)


def test_what_heads_add_to_a_logit_adds_up(model, monkeypatch):
    """With the embedding and the small networks left aside: the norm's scale is one number."""
    run = model.read(TOKENS)
    monkeypatch.setattr(run.tokenizer, "token_id", int)
    state = model.llama.state_dict()
    scale = run.residual[-1][0, -1].square().mean().add(SIZE.epsilon).rsqrt()
    readers = state["lm_head.weight"] * state["final_norm.weight"] * scale
    of_embedding = run.residual[0][0, -1] @ readers[89]
    of_networks = run.residual[-1][0, -1] - run.residual[0][0, -1]
    of_networks = of_networks - sum(run.head_write(*head)[-1] for head in HEADS)
    found = run.logit_attribution("89")
    assert found.shape == (SIZE.num_layers, SIZE.num_heads)
    total = found.sum() + of_embedding + of_networks @ readers[89]
    torch.testing.assert_close(total, run.logits[-1, 89], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Ablate(3, 0), "there is no head (3, 0): a head is (layer, head), layers 0 to 2, heads 0"),
        (Ablate(-1, 0), "there is no head (-1, 0)"),
        (Ablate("L1H4", 0), "there is no head ('L1H4', 0)"),
        (Ablate(1, 4, at=7), "at=7 is not a token: the text has 7"),
        (Ablate(1, 4, at=[0, -8]), "at=-8 is not a token"),
        (Ablate(1, 4, at=[0.5]), "at=0.5 is not a token"),
        (
            Patch(1, 4, numbers(13)),
            "numbers are (13,), not (14,) or, a row for each token of",
        ),
        (Patch(1, 4, numbers(3, 14), at=[1, 2]), "numbers are (3, 14), not (14,) or"),
        (PathPatch((1, 0), (1, 4), "keys"), "L1H4 cannot read what L1H0 writes: a head reads"),
        (PathPatch((0, 0), (1, 6), "keys"), "there is no head (1, 6)"),
        (PathPatch((0, 0), (1, 4), "key"), "part='key' is not one of queries, keys, values"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(change, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        small_model().read(TOKENS, change)


def test_what_is_no_intervention_is_refused():
    words = r"changes are Ablate\(...\), Patch\(...\) or PathPatch\(...\), not \(1, 4\)"
    with pytest.raises(TypeError, match=words):
        small_model().read(TOKENS, (1, 4))


@pytest.mark.parametrize(
    "ask", [Run.head_output, Run.head_write, Run.attn_weights, Run.attn_scores]
)
def test_a_run_refuses_heads_that_are_not_there(ask):
    with pytest.raises(ValueError, match=r"there is no head \(1, 6\)"):
        ask(small_model().read(TOKENS), 1, 6)


# Another class in the place of ours


def test_weights_are_what_the_class_returns():
    class Level(SplitAttention):
        def forward(self, x: Tensor, return_weights: bool = False):
            out = super().forward(x)
            level = torch.full((len(x), 6, x.shape[1], x.shape[1]), 0.25)
            return (out, level) if return_weights else out

    run = small_model().with_attention(Level).read(TOKENS)
    assert torch.equal(run.attn_weights(1, 3), torch.full((7, 7), 0.25))


def test_a_model_goes_from_class_to_class():
    ours = small_model()
    there = ours.with_attention(SplitAttention)
    back = there.with_attention(
        lambda: FusedMultiHeadAttention(
            *(84, 84, 37, 0.0, 6),
            num_kv_heads=3,
            out_bias=False,
            rotary_base=SIZE.rotary_base,
            rotary_layout="interleaved",
        )
    )
    assert torch.equal(back.read(TOKENS).logits, ours.read(TOKENS).logits)
    weight = there.llama.blocks[1].attention.W_key.weight
    assert weight.data_ptr() != ours.llama.blocks[1].attention.W_qkv.weight.data_ptr()
    torch.testing.assert_close(weight, ours.llama.blocks[1].attention.W_qkv.weight[84:126])


@pytest.mark.parametrize(
    ("part", "error", "words"),
    [
        (
            nn.Linear(84, 84),
            ValueError,
            r"W_key.weight of SplitAttention is \(84, 84\); the model's is \(42",
        ),
        (None, AttributeError, "`W_key` is not an nn.Module"),
    ],
)
def test_a_class_of_other_parts_is_refused(part, error, words):
    def make() -> nn.Module:
        attention = SplitAttention()
        attention.W_key = part
        return attention

    with pytest.raises(error, match=words):
        small_model().with_attention(make)
