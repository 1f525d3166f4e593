"""GPT-2's sizes, files and weights; what Hugging Face computes with them is compared elsewhere."""

# ruff: noqa: E501  # tables: one case on a line

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from attncourse.gpt2.files import read_gpt2
from attncourse.gpt2.model import (
    GPT2,
    SIZES,
    Gpt2Size,
    cache_bytes,
    load_gpt2,
    parameter_parts,
)
from attncourse.gpt2.weights import from_gpt2
from attncourse.speed.count import count_parameters
from attnlib import MultiHeadAttention
from support.cases import CONTEXT_LENGTH, HEAD_DIM, H, T, tokens
from support.gpt2_tools import attention_state, gpt2_state, random_gpt2

WIDTH = H * HEAD_DIM
SIZE = Gpt2Size(num_layers=2, num_heads=H, width=WIDTH, vocabulary=23, context_length=T)


def attention(**changes) -> MultiHeadAttention:
    torch.manual_seed(1)
    sizes = {"d_in": WIDTH, "d_out": WIDTH, "context_length": CONTEXT_LENGTH, "dropout": 0.0}
    return MultiHeadAttention(**{**sizes, "num_heads": H, "qkv_bias": True, **changes})


def state_of(num_layers: int = 2) -> dict[str, Tensor]:
    state = {}
    for layer in range(num_layers):
        state |= attention_state(attention(), layer)
    return state


def written(state: dict[str, Tensor], folder: Path) -> Path:
    path = folder / "weights.safetensors"
    save_file(state, path)
    return path


# Sizes


@pytest.mark.parametrize(
    ("name", "attention_parameters", "parameters"),
    [
        ("small", 2_362_368, 124_439_808),
        ("medium", 4_198_400, 354_823_168),
        ("large", 6_558_720, 774_030_080),
        ("XL", 10_246_400, 1_557_611_200),
    ],
)
def test_the_four_published_sizes(name, attention_parameters, parameters):
    size = SIZES[name]
    with torch.device("meta"):
        model = GPT2(size)
    assert count_parameters(model.blocks[0].attention) == attention_parameters
    assert count_parameters(model) == parameters
    assert size.head_dim == 64 == size.width // size.num_heads
    assert (size.vocabulary, size.context_length) == (50257, 1024)
    for dtype in (torch.float32, torch.bfloat16):
        assert cache_bytes(size, dtype) == 2 * size.width * size.num_layers * dtype.itemsize


def test_the_parts_of_a_model_are_its_parameters():
    for size in (*SIZES.values(), SIZE):
        with torch.device("meta"):
            model = GPT2(size)
        parts = parameter_parts(size)
        assert sum(number for _, number in parts) == count_parameters(model)
        in_attention = sum(number for name, number in parts if name == "attention")
        assert in_attention == size.num_layers * count_parameters(model.blocks[0].attention)


# Copies


@pytest.mark.parametrize("qkv_bias", [True, False])
def test_a_copy_is_the_same_function_and_has_its_own_memory(qkv_bias):
    module = attention(qkv_bias=qkv_bias)
    state = attention_state(module, 0)
    assert state["h.0.attn.c_attn.bias"].any() == qkv_bias
    again = from_gpt2({**state, "wpe.weight": torch.ones(CONTEXT_LENGTH, WIDTH)}, 0, H)
    assert (again.d_in, again.d_out, again.num_heads) == (WIDTH, WIDTH, H)
    assert again.context_length == CONTEXT_LENGTH
    assert all(parameter.is_contiguous() for parameter in again.parameters())
    x = tokens(d_in=WIDTH)
    expected = module(x)
    for tensor in (*state.values(), *module.state_dict().values()):
        tensor.zero_()
    torch.testing.assert_close(again(x), expected)
    assert all(parameter.requires_grad for parameter in again.parameters())


def test_heads_are_64_wide_unless_told():
    module = attention(d_in=192, d_out=192, num_heads=3)
    state = attention_state(module, 0)
    assert from_gpt2(state, 0).num_heads == 3
    assert from_gpt2(state, 0, num_heads=4).num_heads == 4
    assert from_gpt2(state, 0).context_length == 1024  # there is no wpe.weight to count


# What is wrong with a state_dict is said


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"layer": 2}, ValueError, r"layer=2 does not exist: the state_dict has layers 0 to 1"),
        ({"layer": -1}, ValueError, r"layer=-1 does not exist"),
        ({"layer": True}, TypeError, r"layer must be an int, not True \("),
        ({"layer": "0"}, TypeError, r"layer must be an int, not '0' \("),
        ({"num_heads": None}, ValueError, r"its width 15 is not a multiple of 64, .* give num_head"),
        ({"num_heads": 4}, ValueError, r"the state_dict: width=15 cannot be split into num_heads=4 .* divide 15: 3 and 5"),
        ({"num_heads": 3.0}, TypeError, r"num_heads must be a positive int, not 3.0"),
        ({"num_heads": 0}, ValueError, r"num_heads must be a positive int, not 0"),
        ({"state": {}}, ValueError, r"the first names are: none at all"),
        ({"state": attention().state_dict()}, ValueError, r"the state_dict holds no layer of GPT-2: .* the first names are: W_query.weight, "),
    ],
)  # fmt: skip
def test_what_cannot_be_converted(changes, error, said):
    how = {"state": state_of(), "layer": 0, "num_heads": H, **changes}
    with pytest.raises(error, match=said):
        from_gpt2(how.pop("state"), how.pop("layer"), **how)


@pytest.mark.parametrize("name", ["c_attn.weight", "c_attn.bias", "c_proj.weight", "c_proj.bias"])
def test_a_missing_weight_is_named(name):
    state = state_of()
    del state[f"h.1.attn.{name}"]
    from_gpt2(state, 0, H)
    with pytest.raises(ValueError, match=rf"the state_dict has no h\.1\.attn\.{name}: it is no"):
        from_gpt2(state, 1, H)


@pytest.mark.parametrize(
    ("name", "wrong", "error", "said"),
    [
        ("c_attn.weight", (14, 45), ValueError, "is (14, 45), not (15, 45)"),
        ("c_attn.weight", (), ValueError, "is (), not (15, 45)"),
        (
            "c_attn.weight",
            (45, 15),
            ValueError,
            "is (45, 15), not (15, 45); it seems to be transposed: GPT-2 stores (in, out)",
        ),
        ("c_attn.bias", (44,), ValueError, "is (44,), not (45,)"),
        ("c_proj.weight", (14, 15), ValueError, "is (14, 15), not (15, 15)"),
        ("c_proj.bias", WIDTH, TypeError, "must be floating, not torch.int64"),
    ],
)
def test_a_weight_of_another_shape_or_kind_is_named(name, wrong, error, said):
    key, kind = f"h.0.attn.{name}", torch.int64 if wrong == WIDTH else torch.float32
    state = state_of() | {key: torch.ones(wrong, dtype=kind)}
    with pytest.raises(error, match=re.escape(f"{key} of the state_dict {said}")):
        from_gpt2(state, 0, H)


# Files


def test_a_file_is_a_state_dict(tmp_path):
    state = state_of()
    path = written(state, tmp_path)
    file = read_gpt2(str(path))
    assert set(file) == set(state)
    assert len(file) == len(state) == 8
    assert all(torch.equal(file[key], state[key]) for key in state)
    assert "h.0.attn.c_attn.weight" in file
    assert "h.9.attn.c_attn.weight" not in file
    assert file.get("h.9.attn.c_attn.weight") is None
    assert repr(file) == "<weights.safetensors: 8 tensors>"
    with pytest.raises(KeyError, match="nothing"):
        file["nothing"]


def test_only_one_layer_is_read(tmp_path, monkeypatch):
    file = read_gpt2(written(state_of(num_layers=3), tmp_path))
    asked = []
    plain = type(file).__getitem__

    def getitem(self, key):
        asked.append(key)
        return plain(self, key)

    monkeypatch.setattr(type(file), "__getitem__", getitem)
    assert from_gpt2(file, 1, H).num_heads == H
    assert {key.split(".attn.")[0] for key in asked} == {"h.1"}


def test_the_module_does_not_need_the_file_any_more(tmp_path):
    path = written(state_of(), tmp_path)
    module, x = from_gpt2(read_gpt2(path), 0, H), tokens(d_in=WIDTH)
    expected = module(x)
    path.write_bytes(bytes(path.stat().st_size))
    path.unlink()
    assert torch.equal(module(x), expected)


def test_errors_name_the_file(tmp_path):
    state = state_of()
    del state["h.0.attn.c_proj.bias"]
    path = written(state, tmp_path)
    for layer, num_heads, said in (
        (0, H, f"{path} has no h.0.attn.c_proj.bias"),
        (5, H, f"layer=5 does not exist: {path} has layers 0"),
        (1, 4, f"{path}: width=15 cannot be split into"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            from_gpt2(read_gpt2(path), layer, num_heads)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nowhere\.safetensors"):
        read_gpt2(tmp_path / "nowhere.safetensors")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*/model\.safetensors"):
        read_gpt2(tmp_path)


class Trap:
    """Unpickling this writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("is_zip", [True, False], ids=["of torch.save", "of old torch.save"])
def test_a_pickle_is_refused_unread(is_zip, tmp_path):
    sprung, path = tmp_path / "sprung", tmp_path / "pytorch_model.bin"
    torch.save({"trap": Trap(sprung)}, path, _use_new_zipfile_serialization=is_zip)
    said = r"pytorch_model\.bin is a pickle, .* take the model\.safetensors of the same model"
    with pytest.raises(ValueError, match=said):
        read_gpt2(path)
    assert not sprung.exists()
    torch.load(path, weights_only=False)
    assert sprung.exists()  # it was a trap


@pytest.mark.parametrize("kept", [0.02, 0.5, 0.999])
def test_a_truncated_file_is_refused(kept, tmp_path):
    path = written(state_of(), tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(ValueError, match=r"weights\.safetensors is damaged or cut short: "):
        read_gpt2(path)


# The model


def test_a_file_with_the_mask_is_the_same_model(tmp_path):
    model = random_gpt2(SIZE)
    path = tmp_path / "model.safetensors"
    save_file(gpt2_state(model, with_mask=True), path)
    file = read_gpt2(path)
    assert len([name for name in file if name.startswith("h.1.")]) == 13
    assert torch.equal(file["h.1.attn.bias"], torch.ones(1, 1, T, T).tril())
    ids = torch.arange(T)[None]
    older = {**file, "h.1.attn.masked_bias": torch.tensor(-1e4)}  # as old files have it
    again = load_gpt2(older, H)
    assert torch.equal(again.logits(ids), model.logits(ids))
    assert (again.size, again.training) == (SIZE, False)


@pytest.mark.parametrize(
    ("token_ids", "error", "said"),
    [
        (torch.ones(1, 3), TypeError, r"must be a tensor of int64, not torch\.float32"),
        ([[1, 2]], TypeError, r"must be a tensor of int64, not list"),
        (torch.arange(3), ValueError, r"be \(b, num_tokens\), not \(3,\); .*token_ids\[No"),
        (torch.arange(3)[None, None], ValueError, r"be \(b, num_tokens\), not \(1, 1, 3\)$"),
        (torch.arange(8)[None], ValueError, r"has 8 tokens, more than context_length=7"),
        (torch.tensor([[0, 23]]), ValueError, r"token id 23 is not in the vocabulary, 0 to 22"),
        (torch.tensor([[0, -1]]), ValueError, r"token id -1 is not in the vocabulary, 0 to 22"),
    ],
)
def test_token_ids_are_checked(token_ids, error, said):
    with pytest.raises(error, match=said):
        random_gpt2(SIZE)(token_ids)


@pytest.mark.parametrize("key", ["wte.weight", "ln_f.bias", "h.1.ln_1.weight"])
def test_a_model_that_lacks_a_weight(key):
    state = gpt2_state(random_gpt2(SIZE))
    del state[key]
    with pytest.raises(ValueError, match=f"has no {re.escape(key)}: it is not a GPT-2"):
        load_gpt2(state, H)


@pytest.mark.parametrize(
    ("key", "wrong", "right"),
    [
        ("wpe.weight", (7, 14), (7, 15)),
        ("wte.weight", (), (1, 1)),
        ("h.0.mlp.c_fc.weight", (60, 15), (15, 60)),
        ("h.1.mlp.c_proj.weight", (59, 15), (60, 15)),
    ],
)
def test_a_model_with_a_weight_of_another_shape(key, wrong, right):
    state = gpt2_state(random_gpt2(SIZE)) | {key: torch.ones(wrong)}
    said = re.escape(f"{key} of the state_dict is {wrong}, not {right}")
    with pytest.raises(ValueError, match=said):
        load_gpt2(state, H)


def test_a_model_whose_attention_is_narrower():
    narrow = attention_state(attention(d_in=10, d_out=10, num_heads=5), 1)
    said = r"h\.1\.attn of the state_dict has width 10, and wte\.weight has 15"
    with pytest.raises(ValueError, match=said):
        load_gpt2(gpt2_state(random_gpt2(SIZE)) | narrow, num_heads=5)
