"""Is the model there, and what happens where it is not; the recording in its place."""

import json
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from attncourse.checks.big_model import CachedAttention, LlamaAttention, _block
from attncourse.language import (
    ModelMissingError,
    Mute,
    NotRecordedError,
    Put,
    RecordedModel,
    installed_model,
    language_model,
    load,
)
from attncourse.language.parallel import alone
from attncourse.language.recorded import DATA, INSTALL, recorded_model
from attncourse.language.reference import reference_logits
from attncourse.variants.llama import Ways
from attnlib import MultiHeadAttention, causal_mask
from support.small_llama import small_file

FRANCE, ITALY = "The capital of France is", "The capital of Italy is"
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    package = tmp_path / "stands_in"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('never imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(load, "PACKAGE", "stands_in")
    small_file(package / load.FILE)
    monkeypatch.setattr(load, "SHA256", load.fingerprint(package / load.FILE))
    return package / load.FILE


def test_the_file_is_found_without_importing_its_package(elsewhere):
    assert load.model_file() == elsewhere
    assert installed_model().size.num_layers == 3
    assert "stands_in" not in sys.modules
    shown = "<SmolLM2-135M-Instruct (Hugging Face, 2024, Apache-2.0): 3 layers of 6 heads>"
    assert repr(language_model()) == shown


@pytest.mark.parametrize(
    "fault", ["no package", "no file", "cut short", "changed", "other version"]
)
def test_without_it_one_sentence_says_what_helps(elsewhere, monkeypatch, capsys, fault):
    data = elsewhere.read_bytes()
    if fault == "no package":
        monkeypatch.setattr(load, "PACKAGE", "no_such_package")
    elif fault == "other version":
        elsewhere.rename(elsewhere.with_name("other.gguf"))
    elif fault == "no file":
        elsewhere.unlink()
    else:
        elsewhere.write_bytes(data[:-9] if fault == "cut short" else data[:-9] + b"x" + data[-8:])
    model = language_model()
    assert isinstance(model, RecordedModel)
    out, err = capsys.readouterr()
    assert out == ""
    said = "is not installed" if fault.startswith(("no", "other")) else "cut short or changed"
    assert said in err
    assert err.count("\n") == 1
    assert f"try: {INSTALL}." in err
    assert model.read(FRANCE).next_words(1)[0][0] == "Paris"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "no room in memory for the language model"),
        (OSError(12, "cannot map"), "no room in memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "no room in memory"),
        (
            ModuleNotFoundError(name="gguf"),
            "needs gguf, which is not installed; try: pip install ",
        ),
    ],
)
def test_what_the_machine_lacks_is_said(monkeypatch, error, words):
    def fail(*_args) -> None:
        raise error

    monkeypatch.setattr(load, "open_model", fail)
    with pytest.raises(ModelMissingError, match=re.escape(words)):
        installed_model()


def test_our_own_errors_are_not_hidden(monkeypatch):
    def fail(*_args) -> None:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(load, "open_model", fail)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        language_model()


def test_the_command_names_the_package_that_is_pinned():
    pinned = (ROOT / "requirements-model.txt").read_text().splitlines()
    (line,) = [line for line in pinned if not line.startswith("#")]
    assert line.startswith(INSTALL.split()[-1] + " --hash=sha256:")
    assert "requirements-model.txt" in (ROOT / "Makefile").read_text()


# The recording


@pytest.fixture(scope="module")
def recording() -> RecordedModel:
    return recorded_model()


def test_it_says_what_it_is_and_is_small(recording):
    assert re.fullmatch(
        r"<a recording of \d+ runs of SmolLM2-135M-Instruct \(Hugging Face, 2024, Apache-2.0\)>",
        repr(recording),
    )
    assert {"source", "license"} < json.loads(DATA.read_text(encoding="utf-8")).keys()
    assert DATA.stat().st_size < 400_000


def test_it_answers_as_the_model_does(recording):
    """The line of the first page: Italy's numbers, put into the run on France, say Rome."""
    france, rome = recording.read(FRANCE), recording.read(ITALY).head(23, 4)
    assert france.tokens == ("The", " capital", " of", " France", " is")
    assert repr(france.next_words(2)) == "Paris 0.77   the 0.06"
    put = recording.read(FRANCE, Put(23, 4, rome))
    assert put.next_words(1) == france.again(Put(23, 4, rome)).next_words(1)
    assert put.next_words(1)[0][0] == "Rome"
    assert france.again(Mute(23, 4)).probability("Paris") == pytest.approx(0.141, abs=0.002)
    assert france.weights(23, 4)[-1, 3] == pytest.approx(0.903, abs=0.002)
    assert torch.equal(france.scores(23)[4], france.scores(23, head=4))
    assert france.read_aloud(23, 4)[:3] == ["France", "Breton", "French"]
    left = france.mute_each("Paris")
    assert recording.heads[int(left.argmin())] == (23, 4)
    assert repr(france.again(Mute(23, 4))).startswith("<recorded 'The capital of France is', Mute(")


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda model: model.read("The capital of Mars is"), "'The capital of Mars is' is not in"),
        (lambda model: model.read(FRANCE, Mute(0, 0)), "Mute(layer=0, head=0, at=None) is not in"),
        (lambda model: model.read(FRANCE, Put(23, 4, torch.ones(64))), "Put(layer=23, head=4, "),
        (lambda model: model.read(FRANCE).logits, f"'{FRANCE}': logits is not in the recording"),
        (lambda model: model.read(FRANCE).head(3, 1), "head(3, 1, -1) is not in the recording"),
        (lambda model: model.read(FRANCE).next_words(11), "word 11 is not in the recording"),
        (lambda model: model.write("Once", 3), "write('Once', 3, 0.0, None, 0) is not in the"),
        (lambda model: model.token_ids("Mars"), "token_ids('Mars') is not in the recording"),
        (lambda model: model.read([1, 2, 3]), "[1, 2, 3] is not in the recording"),
        (lambda model: alone(model, FRANCE, 0, 3), f"alone('{FRANCE}', 0, 3) is not in the rec"),
    ],
)
def test_what_it_does_not_hold_it_says_in_a_sentence(recording, ask, words):
    with pytest.raises(NotRecordedError, match=re.escape(words)) as refused:
        ask(recording)
    assert str(refused.value).endswith(f"to compute it, try: {INSTALL}")


def test_it_holds_the_rows_of_one_head(recording):
    name, run = "blk.23.attn_q.weight", recording.read(FRANCE)
    matrix = recording.tensor(name)
    assert recording.shapes[name] == (576, 576) == tuple(matrix.shape)
    assert matrix.isnan().any(dim=1).nonzero().flatten().tolist() == [*range(256), *range(320, 576)]
    queries = run.reads(23) @ matrix[256:320].T
    torch.testing.assert_close(queries, run.queries_unturned(23, 4), rtol=1e-4, atol=1e-4)
    with pytest.raises(NotRecordedError, match=r"blk\.0\.attn_q\.weight is not in the recording"):
        recording.tensor("blk.0.attn_q.weight")


def test_numbers_that_were_computed_again_are_known(recording):
    """As lesson 01 makes them: from queries, keys and values, with other last bits."""
    italy, france = recording.read(ITALY), recording.read(FRANCE)
    weights = italy.queries(23, 4) @ italy.keys(23, 4).T / 8
    weights = weights.masked_fill(causal_mask(5), -torch.inf).double().softmax(-1).float()
    numbers = (weights @ italy.values(23, 4))[-1]
    own = france.again(Put(23, 4, italy.head(23, 4)))
    assert france.again(Put(23, 4, numbers + 1e-6)).next_words(3) == own.next_words(3)
    with pytest.raises(NotRecordedError, match="is not in the recording"):
        france.again(Put(23, 4, numbers + 0.01))


def test_what_no_model_has_is_an_ordinary_error(recording):
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = recording.read(FRANCE).no_such_thing
    with pytest.raises(AttributeError, match="_repr_html_"):
        _ = recording._repr_html_
    with pytest.raises(ValueError, match=r"there is no head \(30, 4\)"):
        recording.read(FRANCE, Mute(30, 4))
    assert replace(recording.size).num_layers == 30


# Another attention class, where no weights are recorded


def unturned(base: type) -> type:
    """Return the class with queries and keys that know no positions."""

    class Unturned(base):
        def forward(self, x, *cache):
            self.W_query.weight.zero_()
            return super().forward(x, *cache)

    return Unturned


def forgetful() -> CachedAttention:
    made = CachedAttention()
    made.forward = lambda x, cache: CachedAttention.forward(made, x, {})
    return made


def parallel_block(x, layer):
    return _block(x, layer) + 1e-2 * x


@pytest.mark.parametrize(
    ("make", "block", "name"),
    [
        (LlamaAttention, None, "LlamaAttention"),
        (LlamaAttention, _block, "LlamaAttention in _block"),
        (CachedAttention, _block, "CachedAttention in _block"),
    ],
)
def test_a_class_that_computes_what_ours_does_is_answered_for(recording, capsys, make, block, name):
    there = recording.with_attention(make, block)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"{name} was run on random numbers, and gives what the course's class ")
    assert there.read(FRANCE).next_words(3) == recording.read(FRANCE).next_words(3)


@pytest.mark.parametrize(
    ("make", "block", "name"),
    [
        (unturned(LlamaAttention), None, "Unturned"),
        (forgetful, None, "CachedAttention"),
        (LlamaAttention, parallel_block, "LlamaAttention in parallel_block"),
        (LlamaAttention, lambda x, layer: x[:, :1], "LlamaAttention in <lambda>"),
    ],
)
def test_no_answer_is_given_for_a_class_that_computes_something_else(
    recording, capsys, make, block, name
):
    said = f"On random numbers {name} does not give what the course's class gives; "
    with pytest.raises(NotRecordedError, match=re.escape(said)) as refused:
        recording.with_attention(make, block)
    assert str(refused.value).endswith(f"is not in the recording; to compute it, try: {INSTALL}")
    assert capsys.readouterr() == ("", "")


def test_wrong_models_of_lesson_09_are_told_apart_and_have_answers_of_their_own(recording, capsys):
    (france, *_) = reference_logits()
    off, said = [], []
    for option in ({}, *(option for option, _ in recording.data["wrong"])):
        there = recording.with_attention(partial(LlamaAttention, Ways(**option)), _block)
        for key, value in option.items():
            assert f"gives there with {key}={value!r}: with that" in capsys.readouterr().err
        run = there.read(france.token_ids)
        said.append(run.next_words(1)[0][0])
        logits = run.logits_of(france.likeliest)
        off.append(round(float((logits - france.logits).abs().max()), 2))
        assert france.off(run) == pytest.approx(off[-1], abs=0.005)
    assert said == ["Paris", "Paris", "Paris", '."']
    assert off == [0.0, 0.39, 4.0, 18.67]
    again = there.with_attention(LlamaAttention)  # back to ours
    assert all(each.agrees(again.read(each.text)) for each in reference_logits())
    assert not france._replace(logits=france.logits + 2e-3).agrees(again.read(france.text))
    assert not france._replace(likeliest=france.likeliest.flip(0)).agrees(again.read(france.text))
    assert again.read(FRANCE).next_words(2) == recording.read(FRANCE).next_words(2)


def test_a_class_of_other_sizes_is_refused_as_the_model_refuses_it(recording):
    with pytest.raises(
        ValueError, match=r"W_key.weight of MultiHeadAttention is \(576, 576\); the model"
    ):
        recording.with_attention(lambda: MultiHeadAttention(576, 576, 8192, 0.0, 9))


def test_what_is_timed_is_a_model_of_random_numbers_and_it_says_so(recording, monkeypatch, capsys):
    small = replace(recording.size, num_layers=2, vocabulary=50)
    there = recording.with_attention(CachedAttention)
    capsys.readouterr()
    monkeypatch.setattr(there, "size", small)
    written = list(there.tokens_after([3, 1, 4], 5))
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "The weights are not recorded: a model of the same sizes with random numbers is timed in "
        "its place.\n"
    )
    assert isinstance(there.llama.blocks[1].attention, CachedAttention)
    assert len(written) == 5
    with torch.no_grad():
        monkeypatch.setattr(recording, "size", small)
        assert list(recording.tokens_after([3, 1, 4], 5)) == written
    del recording.llama
