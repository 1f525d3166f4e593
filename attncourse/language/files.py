"""Open a GGUF file of the Llama architecture, and unpack its tensors into our model's.

gguf, the library of the format, is loaded when the first file is opened.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from attncourse.language.model import LlamaSize

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

OUTSIDE = {  # ours: the file's
    "token_embedding.weight": "token_embd.weight",
    "final_norm.weight": "output_norm.weight",
    "read_out.weight": "output.weight",
}
INSIDE = {  # for each layer; of several parts the rows stand one below the other
    "norm_1.weight": ("attn_norm",),
    "attention.W_qkv.weight": ("attn_q", "attn_k", "attn_v"),
    "attention.out_proj.weight": ("attn_output",),
    "norm_2.weight": ("ffn_norm",),
    "widen.weight": ("ffn_gate", "ffn_up"),
    "narrow.weight": ("ffn_down",),
}
BLOCK = 32  # numbers that share one scale, in all three packed formats
LIST, TEXT, CONTROL = 9, 8, 3  # the format's numbers for kinds of fields, and of tokens


class Vocabulary(NamedTuple):
    """The tokens of a model, and how a text is cut into them.

    Args:
        kind: the format's name for the way, such as gpt2.
        cut: its name for how a text is cut into words first, such as smollm.
        tokens: all of them, in the order of their ids.
        merges: which two tokens become one, the first first.
        special: ids of the tokens that are not pieces of text, such as the end.
        end: the id of the token that ends a text, or None.
    """

    kind: str
    cut: str
    tokens: list[str]
    merges: list[str]
    special: list[int]
    end: int | None


class LlamaFile:
    """A GGUF file whose model our classes compute: its size, its vocabulary, its weights.

    ValueError if it is another file, is damaged or cut short, or holds a model that our classes
    do not compute; the message says what it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        reader = _opened(path)
        self.fields = reader.fields
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self._require_llama()
        self.size = self._size()
        self._require_tensors()

    def weight(self, name: str) -> Tensor:
        """Return a weight of our model, by our name, in float32."""
        if name in OUTSIDE:
            return unpacked(self.tensors[OUTSIDE[name]])
        _, layer, ours = name.split(".", 2)
        parts = [unpacked(self.tensors[f"blk.{layer}.{part}.weight"]) for part in INSIDE[ours]]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def vocabulary(self) -> Vocabulary | None:
        """Return the tokens that the file holds, or None if it holds none."""
        tokens = self._field("tokenizer.ggml.tokens", list, [])
        if not tokens:
            return None
        if len(tokens) != self.size.vocabulary:
            raise ValueError(
                f"{self.path} names {len(tokens)} tokens, and its embedding has "
                f"{self.size.vocabulary} rows: the file is damaged"
            )
        kinds = self._field("tokenizer.ggml.token_type", list, [])
        end = self._field("tokenizer.ggml.eos_token_id", int, -1)
        return Vocabulary(
            self._field("tokenizer.ggml.model", str, "none"),
            self._field("tokenizer.ggml.pre", str, "default"),
            tokens,
            self._field("tokenizer.ggml.merges", list, []),
            [i for i, kind in enumerate(kinds[: len(tokens)]) if kind == CONTROL],
            None if end < 0 else end,
        )

    def _field(self, name: str, kind: type, default: Any = None) -> Any:
        """Return what the file says under a name, or the default; None means it must say it."""
        if name not in self.fields and default is not None:
            return default
        try:
            found = self.fields[name].contents() if name in self.fields else None
        except Exception as error:
            raise ValueError(f"{self.path} is damaged at {name}: {error}") from error
        if not isinstance(found, kind):
            raise ValueError(f"{self.path} has {found!r} for {name}, not a {kind.__name__}")
        return found

    def _require_llama(self) -> None:
        """Raise if the file says that its model computes something else than ours."""
        architecture = self._field("general.architecture", str)
        formats = {tensor.tensor_type.name: name for name, tensor in self.tensors.items()}
        others = sorted(formats.keys() - FORMATS)
        experts = self._field("llama.expert_count", int, 0)
        scaling = self._field("llama.rope.scaling.type", str, "none")
        if architecture != "llama":
            what = f"is a model of the architecture {architecture!r}, and ours computes 'llama'"
        elif experts:
            what = f"is a mixture of {experts} experts, which ours does not compute"
        elif scaling != "none" or "rope_freqs.weight" in self.tensors:
            what = "stretches its rotary positions for longer texts, which ours does not compute"
        elif others:
            what = (
                f"has {formats[others[0]]} in the format {others[0]}, and ours unpacks "
                f"{', '.join(FORMATS)}; take the same model in one of these"
            )
        else:
            return
        raise ValueError(f"{self.path} {what}")

    def _size(self) -> LlamaSize:
        embedding = self.tensors.get("token_embd.weight")
        num_heads = self._field("llama.attention.head_count", int)
        size = LlamaSize(
            num_layers=self._field("llama.block_count", int),
            num_heads=num_heads,
            num_kv_heads=self._field("llama.attention.head_count_kv", int, num_heads),
            width=self._field("llama.embedding_length", int),
            hidden=self._field("llama.feed_forward_length", int),
            vocabulary=int(embedding.shape[-1]) if embedding else 0,
            context_length=self._field("llama.context_length", int),
            rotary_base=self._field("llama.rope.freq_base", float, 10000.0),
            epsilon=self._field("llama.attention.layer_norm_rms_epsilon", float),
            is_tied="output.weight" not in self.tensors,
        )
        counts = size.num_layers, size.num_kv_heads, size.width, size.hidden, size.vocabulary
        if min(num_heads, size.context_length, *counts) < 1 or size.rotary_base <= 0:
            raise ValueError(f"{self.path} has sizes that no model has: {size}")
        turned = self._field("llama.rope.dimension_count", int, size.head_dim)
        keys, values = (
            self._field(f"llama.attention.{part}_length", int, turned) for part in ("key", "value")
        )
        uneven = size.width % num_heads or num_heads % size.num_kv_heads or size.head_dim % 2
        if uneven or {turned, keys, values} != {size.head_dim}:
            raise ValueError(
                f"{self.path} has heads of width {keys}, {turned} of it turned by rotary "
                f"positions, and ours computes heads of width / num_heads = {size.width} / "
                f"{num_heads}, turned as a whole"
            )
        return size

    def _require_tensors(self) -> None:
        """Raise unless the tensors are exactly those of such a model, each of its shape."""
        expected = file_shapes(self.size)
        for name in sorted(expected.keys() | self.tensors.keys()):
            found = self.tensors.get(name)
            shape = tuple(found.shape.tolist()[::-1]) if found is not None else "missing"
            if shape != expected.get(name):
                raise ValueError(
                    f"{name} of {self.path} is {shape}, and in a Llama as ours computes it, "
                    f"{expected.get(name, 'missing')}: the file is incomplete, or another model"
                )


def file_shapes(size: LlamaSize) -> dict[str, tuple[int, ...]]:
    """Return the file's names and shapes of all tensors of a model."""
    width, kv_width, hidden = size.width, size.widths[1], size.hidden
    inside: dict[str, tuple[int, ...]] = {"attn_norm": (width,), "ffn_norm": (width,)}
    inside |= {"attn_q": (width, width), "attn_output": (width, width)}
    inside |= {"attn_k": (kv_width, width), "attn_v": (kv_width, width)}
    inside |= {"ffn_gate": (hidden, width), "ffn_up": (hidden, width), "ffn_down": (width, hidden)}
    shapes: dict[str, tuple[int, ...]] = {"output_norm.weight": (width,)}
    matrices = ("token_embd",) if size.is_tied else ("token_embd", "output")
    shapes |= {f"{name}.weight": (size.vocabulary, width) for name in matrices}
    for layer in range(size.num_layers):
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in inside.items()}
    return shapes


def where_in_ours(name: str) -> tuple[str, list[str]]:
    """Return our tensor that holds a tensor of the file, and the file's names of all in it.

    >>> where_in_ours("blk.23.attn_k.weight")[0]
    'blocks.23.attention.W_qkv.weight'
    """
    inside = {part: (ours, parts) for ours, parts in INSIDE.items() for part in parts}
    if not name.startswith("blk."):
        return {theirs: ours for ours, theirs in OUTSIDE.items()}[name], [name]
    _, layer, part, _ = name.split(".")
    ours, parts = inside[part]
    return f"blocks.{layer}.{ours}", [f"blk.{layer}.{part}.weight" for part in parts]


def unpacked(tensor: ReaderTensor) -> Tensor:
    """Return the numbers of a tensor of a GGUF file in float32."""
    numbers = FORMATS[tensor.tensor_type.name](torch.from_numpy(tensor.data))
    return numbers.view(tuple(tensor.shape.tolist()[::-1]))


def _q8_0(raw: Tensor) -> Tensor:
    """One scale for 32 whole numbers: scale * q."""
    blocks = raw.view(-1, 2 + BLOCK)
    return _half(blocks[:, :2]) * blocks[:, 2:].view(torch.int8)


def _q4_0(raw: Tensor) -> Tensor:
    """One scale for 32 numbers of four bits: scale * (q - 8)."""
    blocks = raw.view(-1, 2 + BLOCK // 2)
    return _half(blocks[:, :2]) * _nibbles(blocks[:, 2:]).sub_(8)


def _q4_1(raw: Tensor) -> Tensor:
    """A scale and a smallest number for 32 numbers of four bits: scale * q + smallest."""
    blocks = raw.view(-1, 4 + BLOCK // 2)
    return _nibbles(blocks[:, 4:]).mul_(_half(blocks[:, :2])).add_(_half(blocks[:, 2:4]))


def _half(pairs: Tensor) -> Tensor:
    """Read two bytes as a float16, (blocks, 1)."""
    return pairs.contiguous().view(torch.float16).float()


def _nibbles(packed: Tensor) -> Tensor:
    """Return the low four bits of all bytes, then the high ones, (blocks, 32)."""
    return torch.cat((packed & 15, packed >> 4), dim=1).float()


FORMATS: dict[str, Callable[[Tensor], Tensor]] = {
    "F32": torch.clone,
    "F16": Tensor.float,
    "BF16": lambda raw: raw.view(torch.bfloat16).float(),
    "Q8_0": _q8_0,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
}


def _opened(path: Path) -> GGUFReader:
    """Read the header of a file, its long lists of texts in a quick way.

    The library's own way through them takes four seconds, a hundred times longer.
    """
    from gguf import GGUFReader, GGUFValueType

    head, length = struct.Struct("<IQ"), struct.Struct("<Q")

    class Quick(GGUFReader):
        def _get_field_parts(self, begin: int, kind: int) -> tuple[int, list[Any], list[int], Any]:
            raw, place, texts = self.data.data, begin + head.size, []
            is_plain = kind == LIST and self.byte_order == "I" and sys.byteorder == "little"
            if not is_plain or head.unpack_from(raw, begin)[0] != TEXT:
                return super()._get_field_parts(begin, kind)
            for _ in range(head.unpack_from(raw, begin)[1]):
                stop = place + length.size + length.unpack_from(raw, place)[0]
                texts.append(raw[place + length.size : stop])
                place = stop
            kinds = [GGUFValueType.ARRAY, GGUFValueType.STRING]
            return place - begin, texts, list(range(len(texts))), kinds

    with path.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise ValueError(f"{path} is not a GGUF file: it does not begin with GGUF")
    try:
        return Quick(path, mode="c")  # private: torch warns of memory it may not write
    except MemoryError:
        raise
    except Exception as error:  # the library checks little: what fails depends on where
        raise ValueError(f"{path} is a GGUF file that is damaged or cut short: {error}") from error
