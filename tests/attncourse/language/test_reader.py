"""Texts in and texts out: what is refused, what is written, and where it stops."""

from types import SimpleNamespace

import pytest
import torch

from attncourse.checks.big_model import _block
from attncourse.language import Ablate, LanguageModel, weight_cache
from attncourse.language.load import open_model
from attncourse.language.tokenizer import TextTokenizer
from support.small_llama import TOKENS, SplitAttention, small_file

START = [17, 3, 89]
ABLATED = (Ablate(1, 4),)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> LanguageModel:
    folder = tmp_path_factory.mktemp("small")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weight_cache, "cache_folder", lambda: folder)
        return open_model(small_file(folder / "m.gguf"), "m")


def slowly(model: LanguageModel, num_tokens: int) -> list[int]:
    """Return the likeliest next tokens, the whole text read anew for each."""
    text = list(START)
    for _ in range(num_tokens):
        text.append(int(model.read(text).logits[-1].argmax()))
    return text[len(START) :]


def test_the_cache_changes_nothing(model):
    assert list(model.generate_ids(START, 13)) == slowly(model, 13)
    fed = []
    for block in model.llama.blocks[:1]:
        hook = block.norm_1.register_forward_pre_hook(lambda _, x: fed.append(x[0].shape[1]))
    assert len(list(model.generate_ids(START, 5))) == 5
    hook.remove()
    assert fed == [3, 1, 1, 1, 1]


def test_a_class_without_a_cache_reads_the_whole_text_again(model):
    there = model.with_attention(SplitAttention)
    assert there.llama.new_caches(7) == []
    assert list(there.generate_ids(START, 5)) == slowly(model, 5)


def test_a_class_that_takes_a_cache_and_makes_none_is_given_a_dictionary_for_each_layer(model):
    seen = []

    class Keeping(SplitAttention):
        def forward(self, x, cache):
            seen.append((len(cache), id(cache)))
            cache["x"] = torch.cat((cache["x"], x), dim=1) if cache else x
            return super().forward(cache["x"])[:, -x.shape[1] :]

    layers = len(model.llama.blocks)
    there = model.with_attention(Keeping)
    assert list(there.generate_ids(START, 3)) == slowly(model, 3)
    assert [size for size, _ in seen] == [0] * layers + [1] * 2 * layers
    assert len({place for _, place in seen}) == layers


def test_a_block_of_ones_own_is_used_in_every_layer(model):
    there = model.with_attention(SplitAttention, _block)
    for changes in ((), ABLATED):
        found, expected = there.read(START, *changes), model.read(START, *changes)
        torch.testing.assert_close(found.logits, expected.logits, rtol=1e-4, atol=1e-4)
    other = model.with_attention(SplitAttention, lambda x, layer: 2 * _block(x, layer))
    twice = 2 * model.read(START).residual[1]
    torch.testing.assert_close(other.read(START).residual[1], twice, rtol=1e-4, atol=1e-4)


def test_what_a_block_of_ones_own_gives_to_attention_is_what_its_heads_read(model):
    def without_norm(x, layer):
        x = x + layer.attention(x)
        return x + layer.down_proj(layer.gate_proj(layer.norm_2(x)))

    there = model.with_attention(SplitAttention, without_norm)
    run = there.read(START)
    x, layer = there.llama.token_embedding(torch.tensor([START])), there.llama.blocks[0]
    written, weights = layer.attention(x, return_weights=True)
    torch.testing.assert_close(run.attention_input(0), x[0])
    torch.testing.assert_close(run.attn_weights(0), weights[0])
    parts = SimpleNamespace(**dict(layer.named_children()) | {"attention": lambda _read: written})
    torch.testing.assert_close(run.residual[1], without_norm(x, parts))
    torch.testing.assert_close(there.llama(x), run.residual[-1])
    ablated = run.rerun(Ablate(1, 2)).probabilities[run.probabilities.argmax()]
    torch.testing.assert_close(run.ablate_layer(1)[2], ablated)
    never = model.with_attention(SplitAttention, lambda x, layer: x)
    with pytest.raises(ValueError, match="the block never calls"):
        never.read(START)


def test_draws_follow_seed_temperature_and_top_k(model):
    def drawn(**options) -> list[int]:
        return list(model.generate_ids(START, 11, **options))

    assert drawn(temperature=1.3, seed=2) == drawn(temperature=1.3, seed=2)
    assert drawn(temperature=1.3, seed=2) != drawn(temperature=1.3, seed=3)
    assert drawn(temperature=1e-4) == drawn(temperature=5.0, top_k=1) == drawn()
    assert drawn(temperature=1.3, top_k=999) == drawn(temperature=1.3)
    assert drawn(temperature=1.3, top_k=0) == drawn(temperature=1.3)


def test_draws_have_the_probabilities_of_the_model(model):
    logits = model.read(START).logits[-1] / 0.7
    three = logits.topk(3)
    expected = torch.zeros(101).scatter(0, three.indices, three.values.softmax(-1))
    counts = torch.zeros(101)
    for seed in range(100):
        counts[next(model.generate_ids(START, 1, temperature=0.7, top_k=3, seed=seed))] += 1
    torch.testing.assert_close(counts / 100, expected, rtol=0, atol=0.15)


def test_it_stops_at_the_end_token_and_at_the_context_length(model):
    written = slowly(model, 34)
    endless = LanguageModel(model.llama, model.tokenizer, None, "endless")
    assert list(endless.generate_ids(START, 99)) == written  # 37 with the start
    whole = LanguageModel(model.llama, model.tokenizer, written[4], "ends early")
    assert list(whole.generate_ids(START, 99)) == written[: written.index(written[4])]
    full = list(range(37))
    assert list(model.generate_ids(full, 5)) == []


def test_it_writes_text(model):
    ids = model.token_ids("ab ab c")
    pieces = model.tokenizer.token_texts(list(model.generate_ids(ids.tolist(), 6)))
    assert model.generate("ab ab c", 6) == "ab ab c" + "".join(pieces)
    assert model.generate(ids, 6) == "ab ab c" + "".join(pieces)


def test_a_character_of_several_tokens_is_written_once_or_not_at_all(model, monkeypatch):
    """As with a leaf, which is four tokens of one byte each."""
    tokens, end = ["\xf0", "\x9f", "\x8d", "\x83"], 7

    class Bytes(TextTokenizer):
        def decode(self, token_ids) -> str:
            spelled = "".join(tokens[i] for i in token_ids)
            return spelled.encode("latin-1").decode("utf-8", "replace")

    there = LanguageModel(model.llama, Bytes(model.tokenizer.tokenizer), end, "bytes")
    monkeypatch.setattr(there, "generate_ids", lambda ids, n, *_: iter([2, 3, 0, 1][:n]))
    assert there.generate([0, 1], 2) == "\N{LEAF FLUTTERING IN WIND}"
    assert there.generate([0, 1], 4) == "\N{LEAF FLUTTERING IN WIND}"
    assert there.generate([0, 1], 1) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "text is empty: write at least one word"),
        ([], "text is empty"),
        (torch.zeros(0, dtype=torch.int64), "text is empty"),
        ([3, 101], "token ids must be whole numbers in one row, 0 to 100"),
        ([-1], "token ids must be whole numbers in one row, 0 to 100"),
        ([1.0], "token ids must be whole numbers in one row"),
        (torch.zeros(1, 3, dtype=torch.int64), "token ids must be whole numbers in one row"),
        ("ab" * 38, "text has 38 tokens, and the model reads 37 at most"),
    ],
)
def test_what_cannot_be_read_is_refused(model, text, words):
    for ask in (model.read, model.generate):
        with pytest.raises(ValueError, match=words):
            ask(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": -1.0}, "temperature=-1.0 must be 0, for the likeliest, or more"),
        ({"temperature": float("nan")}, "temperature=nan must be 0"),
    ],
)
def test_draws_that_cannot_be_are_refused(model, options, words):
    with pytest.raises(ValueError, match=words):
        model.generate("ab", **options)


def test_a_word_is_one_token_after_a_space(model):
    run = model.read("ab ab")
    assert run.probability("ab") == float(run.probabilities[TOKENS.index("Ġab")])
    assert run.probability("c") == run.probability(" c")
    with pytest.raises(ValueError, match=r"'abc' is 2 tokens for this model, \(' ab', 'c'\)"):
        run.probability("abc")
    assert run.ablate_each("c")[1, 4] == pytest.approx(
        run.rerun(*ABLATED).probability("c"), rel=1e-5
    )
    assert repr(run.next_words(1)) == "{} {:.2f}".format(*run.next_words(1)[0])
