"""The reader's own folder: its words, what it writes, and whether it is the released model."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from attncourse.gpt2.model import GPT2, SIZES, Gpt2Size
from attncourse.gpt2.own import OwnGpt2, own_gpt2, read_tokenizer
from attncourse.gpt2.recorded import RecordedText, recorded
from attncourse.gpt2.released import check_gpt2
from attncourse.gpt2.writing import write_on
from support.gpt2_tools import gpt2_state, random_gpt2

LETTERS = {letter: i for i, letter in enumerate("abcdefgĠ")}  # Ġ is how GPT-2 writes a space
WORDS = LETTERS | {"Ġb": 8, "ab": 9}
MERGES = "#version: 0.2\nĠ b\na b\n"
SIZE = Gpt2Size(num_layers=2, num_heads=3, width=15, vocabulary=11, context_length=13)
TEXT = "ab ba"


def model_of() -> GPT2:
    return random_gpt2(SIZE, std=0.4)


def folder_of(folder: Path, model: GPT2, *, whole: bool = False, dtype: str = "float32") -> Path:
    """Write a folder as people download it: weights, config.json, the files of the tokenizer."""
    state = {n: w.to(getattr(torch, dtype)) for n, w in gpt2_state(model).items()}
    save_file(state, folder / "model.safetensors")
    config = {"model_type": "gpt2", "n_head": model.size.num_heads}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.json").write_text(json.dumps(WORDS))
    (folder / "merges.txt").write_text(MERGES)
    if whole:
        read_tokenizer(folder).save(str(folder / "tokenizer.json"))
        (folder / "vocab.json").unlink()
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of(tmp_path, model_of())


# The words


@pytest.mark.parametrize("whole", [False, True])
def test_a_sentence_becomes_tokens_and_maps(tmp_path, whole):
    own = own_gpt2(folder_of(tmp_path, model_of(), whole=whole))
    read = own.read(TEXT)
    assert read.tokens == ("ab", " b", "a")
    assert read.token_ids.tolist() == [9, 8, 0]
    with torch.no_grad():
        hidden, maps = model_of()(torch.tensor([[9, 8, 0]]), return_weights=True)
    torch.testing.assert_close(read.weights, maps[0])
    logits = hidden[0, -1] @ model_of().token_embedding.weight.T
    torch.testing.assert_close(torch.tensor(read.next_tokens[0][1]), logits.max())
    scores = [score for _, score in read.next_tokens]
    assert len(scores) == 10
    assert scores == sorted(scores, reverse=True)


def test_what_it_writes_begins_with_the_text(folder):
    own = OwnGpt2(folder)
    assert own.write(TEXT, num_new=4, seed=1).startswith(TEXT)
    assert own.write(TEXT, num_new=99)  # as long as the model reads, no longer
    assert repr(own) == "<GPT-2 of model.safetensors: 2 layers of 3 heads>"


def test_the_folder_is_named_by_a_variable(folder, monkeypatch):
    monkeypatch.delenv("ATTNLIB_GPT2", raising=False)
    assert own_gpt2() is None
    monkeypatch.setenv("ATTNLIB_GPT2", str(folder))
    assert own_gpt2().model.size == SIZE
    monkeypatch.setenv("ATTNLIB_GPT2", str(folder / "model.safetensors"))
    assert own_gpt2().read(TEXT).tokens == ("ab", " b", "a")


def test_an_empty_text_and_one_that_is_too_long(folder):
    for text, said in (("", "text is empty: write at"), ("c" * 14, "14 tokens, more than context")):
        with pytest.raises(ValueError, match=said):
            OwnGpt2(folder).read(text)


def test_a_folder_without_the_files_of_a_tokenizer(folder):
    (folder / "merges.txt").unlink()
    own = OwnGpt2(folder)  # its weights can be read
    said = r"holds neither tokenizer\.json nor vocab\.json and merges\.txt, .* beside the weights"
    with pytest.raises(FileNotFoundError, match=said):
        own.read(TEXT)


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.json"])
def test_a_damaged_tokenizer_is_named(folder, name):
    (folder / name).write_text('{"cut sho')
    said = rf"{name}.* is damaged, or not a tokenizer's: .*; download it again"
    with pytest.raises(ValueError, match=said):
        read_tokenizer(folder)


def test_without_the_library_it_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    own = OwnGpt2(folder)
    with pytest.raises(ImportError, match=r"the library tokenizers; try `pip install tokenizers`"):
        own.read(TEXT)


def test_a_tokenizer_of_another_vocabulary(folder):
    (folder / "vocab.json").write_text(json.dumps(WORDS | {"ab": 99}))
    with pytest.raises(ValueError, match=r"token id 99 is not in the vocabulary, 0 to 10"):
        OwnGpt2(folder).read("ab")


# Writing


@pytest.mark.parametrize("seed", [None, 5])
def test_it_writes_what_the_whole_text_expects(seed):
    model, text = model_of(), torch.tensor([[9, 8, 0], [1, 2, 3]])
    written, draws = write_on(model, text, 13, seed), torch.Generator().manual_seed(seed or 0)
    while text.shape[1] < 13:
        logits = model.logits(text)[:, -1]
        drawn = torch.multinomial(logits.softmax(dim=-1), 1, generator=draws)
        text = torch.cat((text, drawn if seed else logits.argmax(-1, keepdim=True)), dim=1)
    assert torch.equal(written, text)


def test_what_cannot_be_written():
    with pytest.raises(ValueError, match=r"token_ids are empty: give at least one token"):
        write_on(model_of(), torch.zeros(1, 0, dtype=torch.int64), 5)
    with pytest.raises(ValueError, match=r"num_tokens=14, more than context_length=13: write a sh"):
        write_on(model_of(), torch.tensor([[1]]), 14)


# The released model


def recordings(model: GPT2) -> list[RecordedText]:
    made = []
    for ids in (torch.tensor([9, 8, 0, 1]), torch.tensor([2, 10, 1])):
        with torch.no_grad():
            _, maps = model(ids[None], return_weights=True)
            top = model.logits(ids[None])[0, -1].topk(5)
        likely = tuple(zip("vwxyz", top.values.tolist(), strict=True))
        words = tuple("word" for _ in ids)
        made.append(RecordedText("text", words, maps[0], maps[0], likely, ids))
    return made


def test_a_file_of_the_model_that_was_recorded(tmp_path):
    save_file(gpt2_state(model_of(), with_mask=True), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"n_head": 3}')
    own = own_gpt2(tmp_path)
    assert check_gpt2(own.model, recordings(model_of())) == (
        "The released model: all 6 heads on 2 texts look where it looked, within 0.0001; its best "
        "next token has the recorded score in 2 of 2 texts."
    )


def test_a_file_in_half_precision_is_nearly_the_model(tmp_path):
    own = own_gpt2(folder_of(tmp_path, model_of(), dtype="bfloat16"))
    assert {p.dtype for p in own.model.parameters()} == {torch.float32}
    said = check_gpt2(own.model, recordings(model_of()))
    assert said.startswith("Nearly the released model: all 6 heads on 2 texts look where it looked")
    assert re.search(r"but for \d\.\de-0\d at head [01]\.[012]\. A copy in half precision\?", said)


def test_the_head_that_differs_is_named():
    model, texts = model_of(), recordings(model_of())
    with torch.no_grad():
        model.blocks[1].attention.W_query.weight[10:15] *= -3  # head 2 of layer 1, the last layer
    said = check_gpt2(model, texts)
    assert said.startswith("Not the released model, though it has its size: an attention weight of")
    assert "of head 1.2 is off by 0." in said


def test_a_model_of_nan_is_not_the_released_one():
    model, texts = model_of(), recordings(model_of())
    torch.nn.init.constant_(model.blocks[0].attention.W_key.weight, torch.nan)
    assert check_gpt2(model, texts).startswith("Not the released model")


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (SIZES["medium"], "it has 24 layers of 16 heads (GPT-2 medium), that has 12 layers of 12"),
        (
            Gpt2Size(12, 12, 24, vocabulary=50, context_length=8),
            "it knows 50 tokens and reads 8 at a time; the texts need token 50,035, and 7 at",
        ),
    ],
)
def test_another_size_is_named(size, said):
    with torch.device("meta"):
        other = GPT2(size)
    assert check_gpt2(other).startswith(f"This is not the released model: {said}")


def test_a_model_of_the_right_size_reads_the_five_texts():
    stranger = random_gpt2(Gpt2Size(12, 12, 24, vocabulary=50257, context_length=8))
    assert check_gpt2(stranger).startswith("Not the released model, though it has its size")
    assert recorded("spaceship").token_ids.tolist() == [1722, 262, 40663, 373, 13885, 262]
