"""Our modules with GPT-2's weights compute what Hugging Face's GPT-2 computes."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from attncourse.gpt2.files import Gpt2File, read_gpt2
from attncourse.gpt2.model import Gpt2Size, load_gpt2
from attncourse.gpt2.weights import from_gpt2
from attnlib import causal_mask
from support.cases import B, T
from support.gpt2_tools import gpt2_state
from support.model_tools import hugging_face

SIZES = {
    "small": Gpt2Size(num_layers=3, num_heads=3, width=15, vocabulary=37, context_length=13),
    "one head": Gpt2Size(num_layers=2, num_heads=1, width=11, vocabulary=17, context_length=7),
    "wide": Gpt2Size(num_layers=1, num_heads=12, width=768, vocabulary=19, context_length=11),
}
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5}

ways = pytest.mark.parametrize("way", ["eager", "sdpa"])


class Saved(NamedTuple):
    folder: Path
    size: Gpt2Size
    dtype: torch.dtype

    def theirs(self, way: str = "eager") -> nn.Module:
        model = hugging_face().GPT2Model.from_pretrained(self.folder, attn_implementation=way)
        assert model.dtype == self.dtype
        return model.eval()

    def file(self) -> Gpt2File:
        return read_gpt2(self.folder / "model.safetensors")


def config(size: Gpt2Size) -> Any:
    return hugging_face().GPT2Config(
        n_layer=size.num_layers,
        n_head=size.num_heads,
        n_embd=size.width,
        vocab_size=size.vocabulary,
        n_positions=size.context_length,
        bos_token_id=0,
        eos_token_id=0,
    )


def randomise(model: nn.Module, size: Gpt2Size) -> nn.Module:
    torch.manual_seed(5)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=size.width**-0.5)
    return model


@pytest.fixture(
    scope="session",
    params=[(name, dtype) for name in SIZES for dtype in TOLERANCES],
    ids=lambda param: f"{param[0]} {param[1]}",
)
def saved(request, tmp_path_factory) -> Saved:
    name, dtype = request.param
    size, folder = SIZES[name], tmp_path_factory.mktemp("gpt2")
    randomise(hugging_face().GPT2Model(config(size)), size).to(dtype).save_pretrained(folder)
    return Saved(folder, size, dtype)


def vectors(saved: Saved) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(B, T, saved.size.width, dtype=saved.dtype, generator=generator)


def attend(attention: nn.Module, x: Tensor) -> tuple[Tensor, Tensor | None]:
    eager = attention.config._attn_implementation == "eager"
    hidden = torch.zeros(T, T, dtype=x.dtype).masked_fill(causal_mask(T), -torch.inf)
    return attention(x, attention_mask=hidden[None, None] if eager else None)


def gradients(run, module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    x = x.clone().requires_grad_()
    names, learned = zip(*module.named_parameters(), strict=True)
    found = torch.autograd.grad(run(x).square().mean(), [x, *learned])
    return dict(zip(("x", *names), found, strict=True))


def in_their_layout(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    by_kind = {}
    for kind in ("weight", "bias"):
        parts = [ours[name] for name in ours if name.endswith(kind) and name.startswith("W_")]
        by_kind[f"c_attn.{kind}"] = torch.cat(parts).T if kind == "weight" else torch.cat(parts)
    projection = {"c_proj.weight": ours["out_proj.weight"].T, "c_proj.bias": ours["out_proj.bias"]}
    return {"x": ours["x"], **by_kind, **projection}


def close(a: Tensor, b: Tensor, dtype: torch.dtype) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=TOLERANCES[dtype])


@ways
def test_outputs_weights_and_gradients_of_every_layer(saved, way):
    theirs, file, x = saved.theirs(way), saved.file(), vectors(saved)
    for layer in range(saved.size.num_layers):
        attention = theirs.h[layer].attn
        ours = from_gpt2(file, layer, saved.size.num_heads)
        assert ours.context_length == saved.size.context_length
        output, attn_weights = attend(attention, x)
        close(ours(x), output, saved.dtype)
        same_output, same_weights = ours(x, return_weights=True)
        close(same_output, output, saved.dtype)
        assert (attn_weights is None) == (way == "sdpa")
        if attn_weights is not None:
            close(same_weights, attn_weights, saved.dtype)
        expected = gradients(lambda x: attend(attention, x)[0], attention, x)  # noqa: B023
        found = in_their_layout(gradients(ours, ours, x))
        assert found.keys() == expected.keys()
        assert all(gradient.abs().max() > 1e-6 for gradient in expected.values())
        for name, gradient in expected.items():
            close(found[name], gradient, saved.dtype)


@ways
def test_the_whole_model(saved, way):
    model, theirs = load_gpt2(saved.file(), saved.size.num_heads), saved.theirs(way)
    assert model.size == saved.size
    generator = torch.Generator().manual_seed(3)
    token_ids = torch.randint(saved.size.vocabulary, (B, T), generator=generator)
    with torch.no_grad():
        hidden, maps = model(token_ids, return_weights=True)
        expected = theirs(token_ids, output_attentions=way == "eager")
    close(hidden, expected.last_hidden_state, saved.dtype)
    if way == "eager":
        assert len(expected.attentions) == saved.size.num_layers
        close(maps, torch.stack(expected.attentions, dim=1), saved.dtype)


def test_a_file_of_ours_is_read_by_them(saved, tmp_path):
    model = load_gpt2(saved.file(), saved.size.num_heads)
    save_file(gpt2_state(model), tmp_path / "model.safetensors", {"format": "pt"})
    config(saved.size).save_pretrained(tmp_path)
    again = hugging_face().GPT2Model.from_pretrained(tmp_path).state_dict()
    expected = saved.theirs().state_dict()
    assert again.keys() == expected.keys() == gpt2_state(model).keys()
    assert all(torch.equal(again[key], expected[key]) for key in expected)


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_whose_logits_have_a_matrix_of_their_own_is_refused(tied, tmp_path):
    """A GPT2 makes them with the embedding: the hidden states would be right, the logits not."""
    size, sizes = SIZES["small"], config(SIZES["small"])
    sizes.tie_word_embeddings = tied
    theirs = randomise(hugging_face().GPT2LMHeadModel(sizes), size).eval()
    theirs.save_pretrained(tmp_path)
    file, token_ids = read_gpt2(tmp_path), torch.arange(T)[None]
    assert ("lm_head.weight" in file) is not tied
    with torch.no_grad():
        expected = theirs(token_ids).logits
    if tied:
        model, ours = load_gpt2(file), from_gpt2(file, 2)
        close(model.logits(token_ids), expected, torch.float32)
        assert torch.equal(ours.W_key.weight, model.blocks[2].attention.W_key.weight)
        assert "transformer.h.2.attn.c_attn.weight" in file  # the prefix of other files
        return
    with pytest.raises(ValueError, match=r"has an lm_head\.weight of its own, not that of wte\.we"):
        load_gpt2(file)
    assert from_gpt2(file, 1).num_heads == size.num_heads
    state = {**file, "lm_head.weight": file["transformer.wte.weight"]}  # as some tools write it
    logits = load_gpt2(state, size.num_heads).logits(token_ids)
    assert not torch.allclose(logits, expected, atol=0.1)
