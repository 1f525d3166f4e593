"""GGUF files: every packing, what is refused and in which words, damage, and what is kept."""

import errno
import re
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from attncourse.__main__ import main
from attncourse.language import forget, kept, load, open_model
from attncourse.language.files import FORMATS, LlamaFile, unpacked
from attncourse.language.model import shapes
from support.small_llama import (
    MERGES,
    SIZE,
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


@pytest.mark.parametrize("kind", FORMATS)
def test_every_packing_is_unpacked_as_the_library_does(tmp_path, kind):
    state = random_state(EVEN)
    path = write_gguf(tmp_path / "m.gguf", tensors_of(EVEN, state), fields_of(EVEN), kind)
    file = LlamaFile(path)
    assert {tensor.tensor_type.name for tensor in file.tensors.values()} == {"F32", kind}
    for tensor in file.tensors.values():
        whole = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert torch.equal(unpacked(tensor), torch.from_numpy(np.array(whole)))
    model = open_model(path)
    for name, weight in model.llama.state_dict().items():
        largest = state[name].abs().max() * {"Q4_0": 0.2, "Q4_1": 0.2}.get(kind, 0.01)
        torch.testing.assert_close(weight, state[name], rtol=0, atol=float(largest))
    logits = model.read([3, 1, 4]).logits
    if kind == "F32":
        assert torch.equal(logits, small_model(EVEN).read([3, 1, 4]).logits)


def test_a_file_is_the_model_and_its_words(tmp_path):
    path = small_file(tmp_path / "small.gguf")
    model = open_model(path)
    assert repr(model) == "<small.gguf: 3 layers of 6 heads>"
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


def test_a_model_without_words_reads_ids(tmp_path):
    for changed in ({"tokenizer_ggml_tokens": None}, {"tokenizer_ggml_model": "llama"}):
        model = open_model(small_file(tmp_path / f"{len(changed)}.gguf", **changed))
        assert model.read([3, 1]).tokens == ("3", "1")
        with pytest.raises(ValueError, match="no tokenizer of ours cuts texts as this model's"):
            model.read("ab")
        forget()


# What is refused


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"llama_block_count": None}, "has None for llama.block_count, not a int"),
        ({"llama_block_count": "3"}, "has '3' for llama.block_count, not a int"),
        ({"llama_block_count": 4}, "blk.3.attn_k.weight of {} is missing, and in a Llama as ours"),
        ({"llama_block_count": 2}, "blk.2.attn_k.weight of {} is (42, 84), and in a Llama as"),
        ({"llama_block_count": 0}, "has sizes that no model has: LlamaSize(num_layers=0"),
        ({"llama_rope_freq_base": 0.0}, "has sizes that no model has"),
        ({"llama_feed_forward_length": 47}, "blk.0.ffn_down.weight of {} is (84, 53), and in a"),
        ({"llama_attention_head_count": 5}, "computes heads of width / num_heads = 84 / 5"),
        ({"llama_attention_head_count_kv": 4}, "has heads of width 14, 14 of it turned"),
        ({"llama.rope.dimension_count": 6}, "has heads of width 6, 6 of it turned by rotary"),
        ({"llama.attention.key_length": 28}, "has heads of width 28, 14 of it turned"),
        ({"llama.expert_count": 8}, "is a mixture of 8 experts, which ours does not compute"),
        ({"llama.rope.scaling.type": "yarn"}, "stretches its rotary positions for longer texts"),
        ({"tokenizer_ggml_tokens": TOKENS[:-1]}, "names 100 tokens, and its embedding has 101"),
        ({"tokenizer_ggml_merges": [*MERGES, "no such"]}, "the file's merges are damaged"),
    ],
    ids=str,
)
def test_what_is_not_computed_is_refused(tmp_path, changed, words):
    path = small_file(tmp_path / "m.gguf", **changed)
    with pytest.raises(ValueError, match=re.escape(words.format(path))):
        open_model(path)


def test_other_models_are_refused(tmp_path):
    tensors = tensors_of(EVEN, random_state(EVEN))

    def refused(words: str, kind: str = "F32", **changes) -> None:
        name = str(len(list(tmp_path.iterdir())))
        path = write_gguf(tmp_path / name, changes.pop("tensors", tensors), fields_of(EVEN), kind)
        if "architecture" in changes:
            path = write_gguf(tmp_path / f"{name}x", tensors, fields_of(EVEN), kind, **changes)
        with pytest.raises(ValueError, match=re.escape(words)):
            open_model(path)

    refused("is a model of the architecture 'qwen2', and ours", architecture="qwen2")
    refused("in the format Q5_0, and ours unpacks F32, F16, BF16, Q8_0, Q4_0, Q4_1", kind="Q5_0")
    biased = {**tensors, "blk.0.attn_q.bias": torch.ones(64)}
    refused("blk.0.attn_q.bias of", tensors=biased)
    refused("stretches its rotary", tensors={**tensors, "rope_freqs.weight": torch.ones(16)})
    refused("sizes that no model", tensors={n: w for n, w in tensors.items() if "token" not in n})
    turned = {**tensors, "blk.1.ffn_up.weight": tensors["blk.1.ffn_up.weight"].T}
    refused("blk.1.ffn_up.weight of", tensors=turned)


def test_every_cut_and_damaged_header_is_refused_in_words(tmp_path):
    """No prefix of a file is a model, and no changed byte of its header ends in another error."""
    whole = small_file(tmp_path / "whole.gguf").read_bytes()
    header, path = len(whole) - sum(w.numel() for w in random_state().values()) * 4, tmp_path / "x"
    generator = np.random.default_rng(7)
    for stop in [*range(0, 60, 7), *generator.integers(60, len(whole) - 32, 60).tolist()]:
        path.write_bytes(whole[:stop])
        with pytest.raises(ValueError, match=r"is not a GGUF file|is damaged or cut short"):
            LlamaFile(path)
    for place in generator.integers(4, header, 150).tolist():
        broken = bytearray(whole)
        broken[place] ^= int(generator.integers(1, 256))
        path.write_bytes(broken)
        with suppress(ValueError):
            file = LlamaFile(path)
            file.vocabulary()
            found = {name: tuple(file.weight(name).shape) for name in shapes(file.size)}
            assert found == shapes(file.size)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none.gguf"):
        open_model(tmp_path / "none.gguf")


# What is kept


def test_what_was_unpacked_is_kept_and_used(tmp_path, cache, monkeypatch):
    path = small_file(tmp_path / "m.gguf")
    first = open_model(path)
    (file,) = cache.iterdir()
    monkeypatch.setattr(load, "LlamaFile", lambda path: pytest.fail("it is kept"))
    again = open_model(shutil.copy(path, tmp_path / "other.gguf"))
    assert again.size == first.size
    assert again.end == first.end
    assert isinstance(again.tokenizer, Tokenizer)
    assert torch.equal(again.read("ab c").logits, first.read("ab c").logits)
    assert file.suffix == ".safetensors"


@pytest.mark.parametrize("damage", ["cut", "byte", "header", "empty", "layout"])
def test_a_damaged_copy_is_made_anew(tmp_path, cache, monkeypatch, damage):
    path = small_file(tmp_path / "m.gguf")
    expected = open_model(path).read([3, 1, 4]).logits
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
        assert torch.equal(open_model(path).read([3, 1, 4]).logits, expected)
        assert made == [path]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_without_room_to_keep_it_works_and_leaves_nothing(tmp_path, cache, monkeypatch, number):
    def fail(*_args) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(kept.zlib, "crc32", fail)
    model = open_model(small_file(tmp_path / "m.gguf"))
    assert torch.equal(model.read([3, 1]).logits, small_model().read([3, 1]).logits)
    assert list(cache.iterdir()) == []


def test_one_command_forgets(tmp_path, cache, monkeypatch, capsys):
    open_model(small_file(tmp_path / "m.gguf"))
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
