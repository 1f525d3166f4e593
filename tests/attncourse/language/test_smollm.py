"""The installed model: Hugging Face's numbers, Hugging Face's tokens, and what the pages say."""

import importlib.util
import os
import random
from dataclasses import replace
from itertools import chain

import pytest
import torch
from tokenizers import Regex, pre_tokenizers

import record_language
from attncourse.language import Cut, LanguageModel, Put, Run, installed_model, load
from attncourse.language.copies import found_by, half_another, twice
from attncourse.language.interventions import Intervention
from attncourse.language.parallel import alone
from attncourse.language.recorded import DATA, call, key_of, recorded_model
from attncourse.learning.patterns import induction
from record_language import (
    CAPITAL,
    COUNTRIES,
    OTHER_BEFORE,
    READERS,
    SAME_BEFORE,
    TIMED,
    WORDS,
    WRITER,
    circuit_runs,
    recorded_runs,
)
from support.model_tools import hugging_face
from support.small_llama import SIZE, small_model
from support.transformers_llama import theirs

is_missing = importlib.util.find_spec(load.PACKAGE) is None
real = pytest.mark.skipif(
    is_missing and not os.environ.get("CI"), reason="the language model is not installed"
)
FRANCE = CAPITAL.format("France")
TEXTS = ("a", "The capital of France is", "def f(x):\n    return x ** 2  # 4.0", "Ünï¢ødé 日本 🙂")
LENGTHS = (2, 3, 5, 7, 11, 13, 17, 23, 29, 31, 37, 61, 101, 131, 257, 1000)
EVERY_DAY = 131  # longer texts take half a minute: set ATTNLIB_LONG_TEXTS=1 to read them too


@pytest.mark.parametrize("num_kv_heads", [SIZE.num_kv_heads, 6, 1])
@pytest.mark.parametrize("is_tied", [False, True])
def test_small_models_equal_hugging_faces(num_kv_heads, is_tied):
    size = replace(SIZE, num_kv_heads=num_kv_heads, is_tied=is_tied)
    ours = small_model(size)
    token_ids = torch.randint(101, (37,), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        expected = theirs(size, ours.llama.state_dict())(token_ids[None]).logits[0]
    torch.testing.assert_close(ours.read(token_ids).logits, expected, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return installed_model()


@real
def test_logits_equal_hugging_faces(model):
    other = theirs(model.size, model.llama.state_dict())
    generator = torch.Generator().manual_seed(7)
    long = (DATA.parents[3] / "README.md").read_text(encoding="utf-8")
    words = model.token_ids(long[:6000])
    texts = [model.token_ids(text) for text in TEXTS] + [words[:n] for n in LENGTHS if n < 32]
    texts += [torch.randint(49152, (n,), generator=generator) for n in LENGTHS if n > 32]
    assert (len(texts), len(texts[-1])) == (20, 1000)
    longest = 1000 if os.environ.get("ATTNLIB_LONG_TEXTS") == "1" else EVERY_DAY
    for token_ids in (ids for ids in texts if len(ids) <= longest):
        with torch.no_grad():
            expected = other(token_ids[None]).logits[0]
        found = model.read(token_ids).logits
        off = (found - expected).abs()
        assert off.max() < (1e-4 if len(token_ids) < 32 else 1e-3)
        first, second = expected.topk(2).values.unbind(-1)
        is_clear = first - second > 2 * off.amax(-1)
        same = found.argmax(-1) == expected.argmax(-1)
        assert same[is_clear].all()
        assert is_clear.float().mean() > 0.9


def many_texts() -> list[str]:
    """Return 300 texts: emptiness, code, digits, Unicode, and random mixtures of them."""
    draw = random.Random(5)
    given = ["", " ", "\n", "  x", "1234 5  6", "naïve café"]
    given += ["日本語 한국어", "👩‍👩‍👧", "<|im_start|>user"]
    given += ["def f(x):\n\treturn x**2\r\n", "½ ² ٣٤٥ १२३", "I'm they'VE", "\x00\u200b", "e\u0301"]
    letters = "abc XYZ 0123456789 .,;:'\"-_()[]{}<>|/\\\n\t éüßøñ 日本 Привет مرحبا 🙂½²٣"
    mixed = ["".join(draw.choices(letters, k=draw.randint(1, 60))) for _ in range(300 - len(given))]
    return given + mixed


@real
def test_tokens_equal_hugging_faces(model):
    """Transformers does not cut the digits first, as the file says; llama.cpp's patterns do."""
    path = load.model_file()  # AutoTokenizer would parse it once more, for what it says of sizes
    other = hugging_face().PreTrainedTokenizerFast.from_pretrained(path.parent, gguf_file=path.name)
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    other.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{N}"), "isolated"),
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    assert len(many_texts()) == 300
    for text in many_texts():
        ids = model.tokenizer.encode(text).ids
        assert ids == other(text)["input_ids"]
        assert model.tokenizer.decode(ids, skip_special_tokens=False) == text


@real
def test_the_path_of_induction_runs_through_the_keys(model):
    run = model.read(twice())
    after = induction(run.token_ids[None])[0]

    def look(*parts: str) -> float:
        cuts = [Cut(WRITER, reader, part) for part in parts for reader in READERS]
        return float(run.again(*cuts).shares(after)[READERS[0]])

    assert look() > 0.8
    assert look("keys") < 0.05
    assert look("queries") > 0.6

    other = model.read(half_another())
    for keys, is_found in ((SAME_BEFORE, True), (OTHER_BEFORE, False)):
        numbers, marked = [other.head(*WRITER, at) for at in keys], found_by(keys)
        given = run.again(Put(*WRITER, torch.stack(numbers), [*keys]))
        assert run.shares(marked)[READERS[0]] > 0.8
        assert (given.shares(marked)[READERS[0]] > 0.7) == is_found
        assert is_found or given.shares(marked)[READERS[0]] < 0.2


@real
def test_the_rest_of_the_recording_is_what_the_model_says(model):
    """But for a text that it drew; what two processes print, test_without_the_model compares."""
    stored = recorded_model()
    assert model.token_ids(TIMED).tolist() == stored.token_ids(TIMED).tolist()
    for process in range(2):
        assert alone(model, FRANCE, process, 2) == alone(stored, FRANCE, process, 2)
    for text in record_language.COMPARED:
        tokens, logits = zip(*model.read(text).largest_logits(10), strict=True)
        recorded = zip(*stored.read(text).largest_logits(10), strict=True)
        assert next(recorded) == tokens
        assert next(recorded) == pytest.approx(logits, abs=1e-3)


@real
def test_the_recording_is_what_the_model_says(model, monkeypatch):
    """Of four countries, and without heads muted in turn: test_sentence asks for some of these."""
    monkeypatch.setattr(record_language, "COUNTRIES", dict([*COUNTRIES.items()][:4]))
    again = Run.again

    def again_without_last_bits(run: Run, *changes: Intervention) -> Run | None:
        has_put = any(isinstance(change, Put) for change in changes)
        return None if has_put else again(run, *changes)

    monkeypatch.setattr(Run, "again", again_without_last_bits)
    stored, seen = recorded_model().runs, set()
    for text, run, calls in chain(recorded_runs(model), circuit_runs(model)):
        if run is None:
            continue
        key = key_of(text, run.changes)
        before = stored[key]
        assert {call(*asked) for asked in calls} <= before.keys()
        assert before.get("tokens") == (None if run.changes else list(run.tokens))
        shares = dict(before["next_words"]), dict(run.next_words(WORDS))
        assert shares[0] == pytest.approx(shares[1], abs=2e-3)
        seen.add(key)
    assert len(seen) > 60
