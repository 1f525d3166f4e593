"""The GGUF file: what is read of it, and what is kept."""

import errno
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from attncourse.__main__ import main
from attncourse.language import forget, kept, load
from attncourse.language.files import LlamaFile
from attncourse.language.load import open_model
from support.small_llama import (
    SIZE,
    TOKENIZER,
    TOKENS,
    fields_of,
    random_state,
    small_file,
    small_model,
    tensors_of,
    write_gguf,
)

EVEN = replace(SIZE, num_heads=2, num_kv_heads=1, width=64, hidden=96, num_layers=2, is_tied=True)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setattr(kept.sys, "platform", "linux")
    return tmp_path / "cache" / "attnlib"


# What is read


@pytest.mark.parametrize("kind", ["F32", "Q4_1"])
def test_weights_are_unpacked(tmp_path, kind):
    state, fields = random_state(EVEN), fields_of(EVEN) | TOKENIZER
    path = write_gguf(tmp_path / "m.gguf", tensors_of(EVEN, state), fields, kind)
    model = open_model(path, "m")
    for name, weight in model.llama.state_dict().items():
        largest = state[name].abs().max() * {"Q4_1": 0.2}.get(kind, 0.01)
        torch.testing.assert_close(weight, state[name], rtol=0, atol=float(largest))
    logits = model.read([3, 1, 4]).logits
    if kind == "F32":
        assert torch.equal(logits, small_model(EVEN).read([3, 1, 4]).logits)


def test_a_file_is_the_model_and_its_words(tmp_path):
    path = small_file(tmp_path / "small.gguf")
    model = open_model(path, "small")
    assert repr(model) == "<small: 3 layers of 6 heads>"
    assert model.size == replace(SIZE, epsilon=pytest.approx(1e-3))
    assert model.end == TOKENS.index("<end>")
    run = model.read("ab ab cab12<mark>")
    assert run.tokens == ("ab", " ab", " c", "ab", "1", "2", "<mark>")
    assert torch.equal(run.logits, small_model().read(run.token_ids).logits)
    assert model.token_of("c") == model.token_of(" c") == TOKENS.index("Ġc")


def test_a_model_gives_back_each_tensor_of_its_file():
    model, theirs = small_model(), tensors_of(SIZE, random_state())
    assert model.shapes == {name: tuple(tensor.shape) for name, tensor in theirs.items()}
    for name, tensor in theirs.items():
        assert torch.equal(model.tensor(name), tensor), name
    with pytest.raises(ValueError, match=r"has no tensor 'blk\.3\.attn_q\.weight'; model\.shapes"):
        model.tensor("blk.3.attn_q.weight")


def test_a_model_without_words_reads_ids():
    model = small_model()
    assert model.read([3, 1]).tokens == ("3", "1")
    with pytest.raises(ValueError, match="no tokenizer of ours cuts texts as this model's"):
        model.read("ab")


# What is kept


def test_what_was_unpacked_is_kept_and_used(tmp_path, cache, monkeypatch):
    path = small_file(tmp_path / "m.gguf")
    first = open_model(path, "m")
    (file,) = cache.iterdir()
    monkeypatch.setattr(load, "LlamaFile", lambda path: pytest.fail("it is kept"))
    again = open_model(shutil.copy(path, tmp_path / "other.gguf"), "m")
    assert again.size == first.size
    assert again.end == first.end
    assert isinstance(again.tokenizer, Tokenizer)
    assert torch.equal(again.read("ab c").logits, first.read("ab c").logits)
    assert file.suffix == ".safetensors"


@pytest.mark.parametrize("damage", ["cut", "byte", "header", "empty", "layout"])
def test_a_damaged_copy_is_made_anew(tmp_path, cache, monkeypatch, damage):
    path = small_file(tmp_path / "m.gguf")
    expected = open_model(path, "m").read([3, 1, 4]).logits
    (file,) = cache.iterdir()
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    if damage == "layout":
        monkeypatch.setattr(kept, "LAYOUT", 2)
    elif damage in ("byte", "header"):
        data[middle if damage == "byte" else 40] ^= 1
    file.write_bytes({"cut": data[:middle], "empty": b""}.get(damage, data))
    made = []
    monkeypatch.setattr(load, "LlamaFile", lambda path: made.append(path) or LlamaFile(path))
    for _ in range(2):
        assert torch.equal(open_model(path, "m").read([3, 1, 4]).logits, expected)
        assert made == [path]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_without_room_to_keep_it_works_and_leaves_nothing(tmp_path, cache, monkeypatch, number):
    def fail(*_args) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(kept.zlib, "crc32", fail)
    model = open_model(small_file(tmp_path / "m.gguf"), "m")
    assert torch.equal(model.read([3, 1]).logits, small_model().read([3, 1]).logits)
    assert list(cache.iterdir()) == []


def test_one_command_forgets(tmp_path, cache, monkeypatch, capsys):
    open_model(small_file(tmp_path / "m.gguf"), "m")
    monkeypatch.setattr("sys.argv", ["attnlib", "forget"])
    assert main() == 0
    assert not cache.exists()
    assert re.search(r"removed .*attnlib, \d+ MB; the next load", capsys.readouterr().out)
    assert forget() == f"nothing is kept in {cache}"


@pytest.mark.parametrize(
    ("platform", "folder"),
    [("linux", "home/.cache"), ("darwin", "home/Library/Caches"), ("win32", "home/AppData/Local")],
)
def test_it_is_kept_where_the_system_says(tmp_path, monkeypatch, platform, folder):
    monkeypatch.setattr(kept.sys, "platform", platform)
    assert (kept.cache_folder() == tmp_path / "cache" / "attnlib") == (platform != "darwin")
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name)
    assert kept.cache_folder() == tmp_path / folder / "attnlib"
