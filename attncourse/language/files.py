"""Open a GGUF file of the Llama architecture, and unpack its tensors into our model's.

gguf, the library of the format, is loaded when the first file is opened.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attncourse.language.model import LlamaSize

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

LENGTH = struct.Struct("<Q")
BLOCK = 32  # numbers that share one scale, in all three packed formats
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


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model, and how a text is cut into them.

    Args:
        kind: the file's name for the way, such as gpt2.
        cut: how a text is cut into words first, such as smollm.
        tokens: all of them, in the order of their ids.
        merges: which two tokens become one, the first first.
        special: ids of the tokens that are no piece of text, such as the end.
        end: the id of the token that ends a text, or None.
    """

    kind: str
    cut: str
    tokens: list[str]
    merges: list[str]
    special: list[int]
    end: int | None


class LlamaFile:
    """A GGUF file whose model our classes compute: its sizes, its vocabulary, its tensors.

    Args:
        path: the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not a GGUF file, it is damaged or cut short, or its model is not of the
            Llama architecture as our classes compute it. The message says what it is.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path).expanduser()
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no file {self.path}")
        reader = _opened(self.path)
        self.fields = reader.fields
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self._require_llama()
        self.size = self._size()
        self._require_tensors()

    def weight(self, name: str) -> Tensor:
        """Return a weight of our model, by our name, in float32."""
        *start, _, _ = name.split(".")
        if start[:1] != ["blocks"]:
            return unpacked(self.tensors[OUTSIDE[name]])
        layer, ours = start[1], name.split(".", 2)[2]
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
        types = self._field("tokenizer.ggml.token_type", list, [])
        end = self._field("tokenizer.ggml.eos_token_id", int, -1)
        return Vocabulary(
            kind=self._field("tokenizer.ggml.model", str, "none"),
            cut=self._field("tokenizer.ggml.pre", str, "default"),
            tokens=tokens,
            merges=self._field("tokenizer.ggml.merges", list, []),
            special=[i for i, kind in enumerate(types) if kind == 3],  # "control" in the format
            end=None if end < 0 else end,
        )

    def _field(self, name: str, kind: type, default: Any = None) -> Any:
        """Return what the file says under a name, or the default; None means it must say it."""
        if name not in self.fields:
            if default is None:
                raise ValueError(f"{self.path} does not say {name}: the file is incomplete")
            return default
        found = self.fields[name].contents()
        if not isinstance(found, kind):
            raise ValueError(f"{name} of {self.path} is {found!r}, not of type {kind.__name__}")
        return found

    def _require_llama(self) -> None:
        architecture = self._field("general.architecture", str)
        if architecture != "llama":
            raise ValueError(
                f"{self.path} is a model of the architecture {architecture!r}, and ours computes "
                "'llama' only"
            )
        if self._field("llama.expert_count", int, 0):
            raise ValueError(f"{self.path} is a mixture of experts, which ours does not compute")
        scaling = self._field("llama.rope.scaling.type", str, "none")
        if scaling != "none" or "rope_freqs.weight" in self.tensors:
            raise ValueError(
                f"{self.path} stretches its rotary positions, for longer texts than it was first "
                "trained on, which ours does not compute"
            )
        for tensor in self.tensors.values():
            if tensor.tensor_type.name not in FORMATS:
                raise ValueError(
                    f"{tensor.name} of {self.path} is packed as {tensor.tensor_type.name}, and "
                    f"ours unpacks {', '.join(FORMATS)}; take the file of the same model in one "
                    "of these"
                )

    def _size(self) -> LlamaSize:
        embedding = self.tensors.get("token_embd.weight")
        if embedding is None:
            raise ValueError(f"{self.path} has no token_embd.weight: the file is incomplete")
        num_heads = self._field("llama.attention.head_count", int)
        size = LlamaSize(
            num_layers=self._field("llama.block_count", int),
            num_heads=num_heads,
            num_kv_heads=self._field("llama.attention.head_count_kv", int, num_heads),
            width=self._field("llama.embedding_length", int),
            hidden=self._field("llama.feed_forward_length", int),
            vocabulary=int(embedding.shape[-1]),
            context_length=self._field("llama.context_length", int),
            rotary_base=self._field("llama.rope.freq_base", float, 10000.0),
            epsilon=self._field("llama.attention.layer_norm_rms_epsilon", float),
            is_tied="output.weight" not in self.tensors,
        )
        counts = size.num_layers, size.num_kv_heads, size.width, size.hidden, size.context_length
        if min(num_heads, *counts) < 1 or size.width % num_heads or num_heads % size.num_kv_heads:
            raise ValueError(f"{self.path} has sizes that no model has: {size}")
        turned = self._field("llama.rope.dimension_count", int, size.head_dim)
        widths = [self._field(f"llama.attention.{key}_length", int, turned) for key in _WIDTHS]
        if {turned, *widths} != {size.head_dim}:
            raise ValueError(
                f"{self.path} has heads of width {widths[0]}, of which rotary positions turn "
                f"{turned}, and ours computes width / num_heads = {size.head_dim} for both"
            )
        return size

    def _require_tensors(self) -> None:
        """Raise unless the tensors are exactly those of such a model, each of its shape."""
        expected = _shapes(self.size)
        for name, shape in expected.items():
            if name not in self.tensors:
                raise ValueError(f"{self.path} has no {name}: the file is incomplete")
            found = tuple(int(n) for n in reversed(self.tensors[name].shape))
            if found != shape:
                raise ValueError(f"{name} of {self.path} is {found}, not {shape}")
        if others := sorted(self.tensors.keys() - expected):
            raise ValueError(
                f"{self.path} has {others[0]}, which a Llama as ours computes it does not have"
            )


_WIDTHS = "key", "value"


def unpacked(tensor: ReaderTensor) -> Tensor:
    """Return the numbers of a tensor of a GGUF file in float32, (rows, columns) or (columns)."""
    shape = tuple(int(n) for n in reversed(tensor.shape))
    raw = torch.from_numpy(tensor.data)
    return FORMATS[tensor.tensor_type.name](raw).view(shape)


def _floats(raw: Tensor) -> Tensor:
    return raw.clone() if raw.dtype == torch.float32 else raw.float()


def _bfloat16(raw: Tensor) -> Tensor:
    return raw.view(torch.bfloat16).float()


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
    q = _nibbles(blocks[:, 4:])
    return q.mul_(_half(blocks[:, :2])).add_(_half(blocks[:, 2:4]))


def _half(pairs: Tensor) -> Tensor:
    """Read two bytes as a float16, (blocks, 1)."""
    return pairs.contiguous().view(torch.float16).float()


def _nibbles(packed: Tensor) -> Tensor:
    """Return the low four bits of all bytes, then the high ones, (blocks, 32)."""
    return torch.cat((packed & 15, packed >> 4), dim=1).float()


FORMATS = {
    "F32": _floats,
    "F16": _floats,
    "BF16": _bfloat16,
    "Q8_0": _q8_0,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
}


def _opened(path: Path) -> GGUFReader:
    from gguf import GGUFReader

    with path.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise ValueError(f"{path} is not a GGUF file: it does not begin with GGUF")
    try:
        return _quick(GGUFReader)(path, mode="c")  # private: torch warns of memory it may not write
    except MemoryError:
        raise
    except Exception as error:  # the library checks little: what fails depends on where
        raise ValueError(f"{path} is a GGUF file that is damaged or cut short: {error}") from error


def _quick(library: type[GGUFReader]) -> type[GGUFReader]:
    """Return the library's reader with a quick way through lists of texts.

    Its own takes four seconds for the words of a model, a hundred times longer.
    """

    class Quick(library):  # type: ignore[misc, valid-type]
        def _get_field_parts(self, begin: int, kind: int) -> tuple[int, list[Any], list[int], Any]:
            head = struct.Struct("<IQ")
            is_list = kind == 9 and self.byte_order == "I" and sys.byteorder == "little"
            if not is_list or head.unpack_from(self.data, begin)[0] != 8:  # 9: list, 8: text
                found: tuple[int, list[Any], list[int], Any] = super()._get_field_parts(begin, kind)
                return found
            raw, place = memoryview(self.data), begin + head.size
            texts = []
            for _ in range(head.unpack_from(raw, begin)[1]):
                stop = place + 8 + LENGTH.unpack_from(raw, place)[0]
                texts.append(raw[place + 8 : stop])
                place = stop
            if place > len(raw):
                raise ValueError("it ends inside a list of texts")
            from gguf import GGUFValueType

            kinds = [GGUFValueType.ARRAY, GGUFValueType.STRING]
            return place - begin, texts, list(range(len(texts))), kinds

    return Quick


def _shapes(size: LlamaSize) -> dict[str, tuple[int, ...]]:
    """Return the file's names and shapes of all tensors of a model."""
    width, kv_width = size.width, size.num_kv_heads * size.head_dim
    inside = {
        "attn_norm": (width,),
        "attn_q": (width, width),
        "attn_k": (kv_width, width),
        "attn_v": (kv_width, width),
        "attn_output": (width, width),
        "ffn_norm": (width,),
        "ffn_gate": (size.hidden, width),
        "ffn_up": (size.hidden, width),
        "ffn_down": (width, size.hidden),
    }
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (size.vocabulary, width)}
    for layer in range(size.num_layers):
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in inside.items()}
    shapes["output_norm.weight"] = (width,)
    if not size.is_tied:
        shapes["output.weight"] = (size.vocabulary, width)
    return shapes
