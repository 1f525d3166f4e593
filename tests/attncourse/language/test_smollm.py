"""The installed model has Hugging Face's logits and tokens; what it says, the notebooks print."""

import os
import random
from dataclasses import replace

import pytest
import torch
from tokenizers import Regex, pre_tokenizers

from attncourse.language import LanguageModel, load, reference_logits
from support.model_tools import hugging_face, the_model
from support.small_llama import SIZE, small_model
from support.transformers_llama import theirs

TEXTS = ("a", "The capital of France is", "Ünï¢ødé 日本 🙂")
LONGEST = 1000 if os.environ.get("ATTNLIB_LONG_TEXTS") == "1" else 61  # the others take minutes
LENGTHS = (31, 61, 131, 1000)


@pytest.mark.parametrize("num_kv_heads", [SIZE.num_kv_heads, 6, 1])
def test_small_models_equal_hugging_faces(num_kv_heads):
    size = replace(SIZE, num_kv_heads=num_kv_heads, is_tied=num_kv_heads == 6)
    ours = small_model(size)
    token_ids = torch.randint(101, (37,), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        expected = theirs(size, ours.llama.state_dict())(token_ids[None]).logits[0]
    torch.testing.assert_close(ours.read(token_ids).logits, expected, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return the_model()


def test_logits_equal_hugging_faces(model):
    other = theirs(model.size, model.llama.state_dict())
    generator = torch.Generator().manual_seed(7)
    texts = [model.token_ids(text) for text in TEXTS]
    texts += [torch.randint(49152, (n,), generator=generator) for n in LENGTHS if n <= LONGEST]
    for token_ids in texts:
        with torch.no_grad():
            expected = other(token_ids[None]).logits[0]
        found = model.read(token_ids).logits
        off = (found - expected).abs()
        assert off.max() < (1e-4 if len(token_ids) < 32 else 1e-3)
        first, second = expected.topk(2).values.unbind(-1)
        is_clear = first - second > 2 * off.amax(-1)
        assert (found.argmax(-1) == expected.argmax(-1))[is_clear].all()
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
    for text in many_texts():
        ids = model.tokenizer.encode(text)
        assert ids == other(text)["input_ids"]
        assert model.tokenizer.decode(ids) == text


def test_the_stored_logits_of_hugging_face_are_those_of_the_model(model):
    for each in reference_logits():
        run = model.read(each.text)
        assert run.token_ids.equal(each.token_ids)
        assert each.agrees(run)
        assert not each._replace(logits=each.logits + 2e-3).agrees(run)
        assert not each._replace(likeliest=each.likeliest.flip(0)).agrees(run)
