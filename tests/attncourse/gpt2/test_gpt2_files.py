"""GPT-2's files as people have them: read rightly, or refused in one sentence with the remedy."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from attncourse.gpt2 import from_gpt2, load_gpt2, read_gpt2
from support.cases import refused
from support.model_tools import hugging_face

HEADS, WIDTH, LAYERS = 5, 15, 3
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])


def saved(folder: Path, dtype: torch.dtype = torch.float64, **changes):
    sizes = {"n_layer": LAYERS, "n_head": HEADS, "n_embd": WIDTH, "vocab_size": 17}
    config = hugging_face().GPT2Config(
        **{**sizes, "n_positions": 11, "bos_token_id": 0, "eos_token_id": 0}
    )
    config.update(changes)
    model = hugging_face().GPT2Model(config)
    torch.manual_seed(5)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    model = model.to(dtype).eval()
    model.save_pretrained(folder)
    return model


def hidden(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        found = model(TOKENS)
    return getattr(found, "last_hidden_state", found)


@pytest.mark.parametrize(
    "changes",
    [{}, {"layer_norm_epsilon": 0.1}, {"activation_function": "gelu_pytorch_tanh"}],
    ids=str,
)
def test_the_config_beside_the_file_is_obeyed(changes, tmp_path):
    """The number of heads, which is not 64 wide here, and the epsilon."""
    theirs = saved(tmp_path, **changes)
    model = load_gpt2(read_gpt2(tmp_path / "model.safetensors"))
    assert model.size.num_heads == HEADS
    torch.testing.assert_close(hidden(model), hidden(theirs), rtol=0, atol=1e-10)
    assert from_gpt2(read_gpt2(tmp_path), 1).num_heads == HEADS
    with refused(ValueError, "num_heads=3, but the config.json of"):
        load_gpt2(read_gpt2(tmp_path), num_heads=3)
    (tmp_path / "config.json").unlink()
    assert load_gpt2(read_gpt2(tmp_path), num_heads=3).size.num_heads == 3


@pytest.mark.parametrize(
    ("changes", "words", "attention_too"),
    [
        ({"scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx=True, and our", True),
        ({"scale_attn_weights": False}, "scale_attn_weights=False, and our classes comp", True),
        ({"activation_function": "relu"}, "activation_function='relu', and our classes", False),
    ],
)
def test_what_our_classes_do_not_compute_is_refused(changes, words, attention_too, tmp_path):
    saved(tmp_path, **changes)
    file = read_gpt2(tmp_path)
    with refused(ValueError, words):
        load_gpt2(file)
    if attention_too:
        with refused(ValueError, words):
            from_gpt2(file, 0)
    else:
        assert from_gpt2(file, 0).num_heads == HEADS


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ({"n_layer": 4}, ValueError, "says n_layer=4, and its weights have 3: the two are not of"),
        ({"n_embd": 30}, ValueError, "says n_embd=30, and its weights have 15"),
        ({"n_head": 4}, ValueError, "cannot be split into num_heads=4 heads"),
        ({"n_head": "5"}, TypeError, "must be a positive int, not '5' (str)"),
        ({"model_type": "gpt_neo"}, ValueError, "says model_type='gpt_neo', and our classes"),
        ({"layer_norm_epsilon": "1e-5"}, TypeError, "must be a positive number, not '1e-5'"),
        ({"layer_norm_epsilon": math.nan}, ValueError, "must be a positive number, not nan; GP"),
        ({"layer_norm_epsilon": -1}, ValueError, "must be a positive number, not -1; GPT-2 has"),
    ],
)
def test_a_config_of_another_model(said, error, words, tmp_path):
    saved(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **said}))
    with refused(error, words):
        load_gpt2(read_gpt2(tmp_path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[1]", "must hold one JSON object, not"),
        ('{"a":' * 100_000, "is not JSON: maximum recursion depth"),
    ],
    ids=["cut", "list", "objects in objects"],
)
def test_a_damaged_config(text, words, tmp_path):
    saved(tmp_path)
    (tmp_path / "config.json").write_text(text)
    with refused(ValueError, words):
        read_gpt2(tmp_path)


def test_a_folder_a_path_and_the_home_folder(tmp_path, monkeypatch):
    theirs = saved(tmp_path / "gpt2")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for path in (tmp_path / "gpt2", str(tmp_path / "gpt2"), "~/gpt2", "~/gpt2/model.safetensors"):
        file = read_gpt2(path)
        assert file.path == tmp_path / "gpt2" / "model.safetensors"
        torch.testing.assert_close(hidden(load_gpt2(file)), hidden(theirs))


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a pointer of Git LFS"),
        (b"<!DOCTYPE html>\n<html><head>", "is a page of HTML, not the weights; download the f"),
        (b"\n<html lang='en'>\n", "is a page of HTML"),
        (b"<?xml version='1.0'?><Error>", "is a page of HTML"),
        (b"", "model.safetensors is not a safetensors file: its head"),
        (b"a few words of plain text", "model.safetensors is not a safetensors file: its head"),
    ],
)
def test_what_a_download_may_bring_instead(start, words, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(start)
    with refused(ValueError, words):
        read_gpt2(path)


def test_half_precision_stays(tmp_path):
    theirs = saved(tmp_path, dtype=torch.bfloat16)
    model = load_gpt2(read_gpt2(tmp_path))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    torch.testing.assert_close(hidden(model), hidden(theirs), rtol=0.05, atol=0.05)


def test_mixed_precision_becomes_the_widest(tmp_path):
    """As some tools write it: the norms and the biases in single precision, the rest in half."""
    saved(tmp_path, dtype=torch.bfloat16)
    path = tmp_path / "model.safetensors"
    state = {n: e.float() if e.ndim == 1 else e for n, e in load_file(path).items()}
    save_file(state, path)
    model = load_gpt2(read_gpt2(tmp_path))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert torch.equal(model.token_embedding.weight, state["wte.weight"].float())
    attention = from_gpt2(read_gpt2(tmp_path), 1)
    assert {parameter.dtype for parameter in attention.parameters()} == {torch.float32}
    assert hidden(model).isfinite().all()


def test_eight_bits_are_refused(tmp_path):
    saved(tmp_path, dtype=torch.float32)
    path = tmp_path / "model.safetensors"
    state = load_file(path)
    name = "h.1.attn.c_attn.weight"
    save_file({**state, name: state[name].to(torch.float8_e4m3fn)}, path)
    words = f"{name} of {path} is torch.float8_e4m3fn: eight bits, which nothing can multiply"
    for read in (lambda: load_gpt2(read_gpt2(path)), lambda: from_gpt2(read_gpt2(path), 1)):
        with refused(TypeError, words):
            read()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("some/model.safetensors", "not str; try read_gpt2('some/model.safetensors')"),
        (Path("model.safetensors"), "; try read_gpt2('model.safetensors')"),
        (nn.Linear(2, 3), "not Linear; try its state_dict()"),
        (None, "as what read_gpt2 returns does, not NoneType"),
    ],
)
def test_what_is_no_state_dict(given, words):
    for read in (load_gpt2, lambda x: from_gpt2(x, 0)):
        with refused(TypeError, words):
            read(given)
