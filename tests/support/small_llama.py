"""Small Llamas with random weights: their GGUF files, and the plain definition of a run."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse.language import LlamaSize, PathPatch
from attncourse.language.files import file_tensors
from attncourse.language.model import Llama, load_llama, shapes
from attncourse.language.reader import LanguageModel
from attncourse.language.tokenizer import TextTokenizer
from attnlib import attention, causal_mask, merge_heads, split_heads
from attnlib.rotary import rotary_cos_sin, rotate_interleaved

SIZE = LlamaSize(
    num_layers=3,
    num_heads=6,
    num_kv_heads=3,
    width=84,
    mlp_width=53,
    vocabulary=101,
    context_length=37,
    rotary_base=71.0,
    epsilon=1e-3,
    is_tied=False,
)
LETTERS = [chr(i) for i in range(33, 127)]
TOKENS = [*LETTERS, "Ġ", "ab", "Ġab", "Ġc", "<end>", "<mark>", "Ġd"]  # 101 of them
MERGES = ["a b", "Ġ ab", "Ġ c", "Ġ d"]
TOKENIZER = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3 if token[0] == "<" and token[1:] else 1 for token in TOKENS],
    "tokenizer.ggml.merges": MERGES,
    "tokenizer.ggml.eos_token_id": TOKENS.index("<end>"),
}


def random_state(size: LlamaSize = SIZE, seed: int = 5) -> dict[str, Tensor]:
    """Return random weights, drawn so that attention is neither flat nor a choice of one."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator) * (1.5 * shape[-1] ** -0.5) + ("norm" in name)
        for name, shape in shapes(size).items()
    }


class IdTokenizer(TextTokenizer):
    """A tokenizer whose texts are token ids, with spaces between."""

    def __init__(self) -> None:
        pass

    def decode(self, token_ids: Sequence[int]) -> str:
        return " ".join(map(str, token_ids))


def small_model(size: LlamaSize = SIZE, seed: int = 5) -> LanguageModel:
    llama = load_llama(size, random_state(size, seed))
    return LanguageModel(llama, IdTokenizer(), None, "a small one")


class SplitAttention(nn.Module):
    """A reader's class: three projections, rotary positions, shared keys, plain PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.W_query = nn.Linear(84, 84)
        self.W_key = nn.Linear(84, 42, bias=False)
        self.W_value = nn.Linear(84, 42, bias=False)
        self.out_proj = nn.Linear(84, 84)

    def forward(self, x: Tensor, return_weights: bool = False):
        cos_sin = rotary_cos_sin(torch.arange(x.shape[1]), 14, SIZE.rotary_base)
        queries = rotate_interleaved(split_heads(self.W_query(x), 14), *cos_sin)
        keys = rotate_interleaved(split_heads(self.W_key(x), 14), *cos_sin)
        keys = keys.repeat_interleave(2, dim=1)
        values = split_heads(self.W_value(x), 14).repeat_interleave(2, dim=1)
        context_vec, attn_weights = attention(queries, keys, values, causal_mask(x.shape[1]))
        context_vec = self.out_proj(merge_heads(context_vec))
        return (context_vec, attn_weights) if return_weights else context_vec


def fields_of(size: LlamaSize) -> dict[str, Any]:
    """Return what a GGUF file says of a model."""
    return {
        "llama.block_count": size.num_layers,
        "llama.attention.head_count": size.num_heads,
        "llama.attention.head_count_kv": size.num_kv_heads,
        "llama.embedding_length": size.width,
        "llama.feed_forward_length": size.mlp_width,
        "llama.context_length": size.context_length,
        "llama.rope.freq_base": size.rotary_base,
        "llama.attention.layer_norm_rms_epsilon": size.epsilon,
    }


def write_gguf(
    path: Path,
    tensors: dict[str, Tensor],
    fields: dict[str, Any],
    kind: str = "F32",
) -> Path:
    """Write a GGUF file, its matrices in one of the format's kinds."""
    writer = gguf.GGUFWriter(path, "llama")
    add: dict[type, Callable[..., None]] = {
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
        list: writer.add_array,
    }
    for name, value in fields.items():
        add[type(value)](name, value)
    for name, tensor in tensors.items():
        kind_of = gguf.GGMLQuantizationType[kind if tensor.ndim == 2 else "F32"]
        packed = gguf.quants.quantize(np.ascontiguousarray(tensor.numpy()), kind_of)
        writer.add_tensor(name, packed, raw_dtype=kind_of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def small_file(path: Path) -> Path:
    """Write the file of small_model()."""
    return write_gguf(path, file_tensors(SIZE, random_state()), fields_of(SIZE) | TOKENIZER)


def plain_run(llama: Llama, token_ids: Tensor, changes: tuple[Any, ...]) -> dict[str, Tensor]:
    """Return logits, numbers and weights of a run, by the definition, one head at a time."""
    size, state = llama.size, {name: w.double() for name, w in llama.state_dict().items()}
    x = state["token_embedding.weight"][token_ids]
    numbers, weights, writes = {}, {}, {}
    for layer in range(size.num_layers):
        own = {n.split(".", 2)[2]: w for n, w in state.items() if n.startswith(f"blocks.{layer}.")}
        out = own["attention.out_proj.weight"]
        written = torch.zeros_like(x)
        for head in range(size.num_heads):
            group = head // (size.num_heads // size.num_kv_heads)
            made = {}
            starts = (0, size.width, size.width + size.widths[1])
            for part, start in zip(("queries", "keys", "values"), starts, strict=True):
                read = x
                for c in changes:
                    if isinstance(c, PathPatch) and c.reader == (layer, head) and c.part == part:
                        read = read - writes[c.writer]
                begin = start + (head if part == "queries" else group) * size.head_dim
                rows = own["attention.W_qkv.weight"][begin : begin + size.head_dim]
                made[part] = norm(read, own["norm_1.weight"], size) @ rows.T
            scores = turn(made["queries"], size) @ turn(made["keys"], size).T
            scores = scores / size.head_dim**0.5
            scores[torch.ones_like(scores).triu(1).bool()] = -torch.inf
            weights[layer, head] = scores.softmax(-1)
            mixed = weights[layer, head] @ made["values"]
            for c in changes:
                if not isinstance(c, PathPatch) and (c.layer, c.head) == (layer, head):
                    places = range(len(x)) if c.at is None else c.at
                    for i, place in enumerate([places] if isinstance(places, int) else places):
                        given = c.numbers.double()
                        mixed[place] = given[i] if given.ndim == 2 else given
            columns = out[:, head * size.head_dim : (head + 1) * size.head_dim]
            writes[layer, head] = mixed @ columns.T
            numbers[layer, head] = mixed
            written = written + writes[layer, head]
        x = x + written
        read = norm(x, own["norm_2.weight"], size)
        gate, up = (read @ own[f"{name}_proj.weight"].T for name in ("gate", "up"))
        x = x + (F.silu(gate) * up) @ own["down_proj.weight"].T
    lm_head = state["token_embedding.weight" if size.is_tied else "lm_head.weight"]
    logits = norm(x, state["final_norm.weight"], size) @ lm_head.T
    return {"logits": logits, "numbers": numbers, "weights": weights, "writes": writes}


def norm(x: Tensor, scale: Tensor, size: LlamaSize) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + size.epsilon).sqrt() * scale


def turn(x: Tensor, size: LlamaSize) -> Tensor:
    """Turn each pair of neighbours as a complex number."""
    place = torch.arange(len(x), dtype=torch.float64)[:, None]
    pair = torch.arange(size.head_dim // 2, dtype=torch.float64)
    angles = place / size.rotary_base ** (2 * pair / size.head_dim)
    pairs = torch.view_as_complex(x.reshape(len(x), -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(1)
