"""Keep what was unpacked from a GGUF file, so that the next load takes no time.

One safetensors file for each GGUF file, in the user's cache folder. Its tensors are mapped into
memory, so that several processes share them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import sys
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.language.model import LlamaSize, shapes

LAYOUT = 1  # of what is kept; counted up whenever it changes
ABOUT, SUMS = "about", "sums"  # what the file holds beside the weights


class Kept(NamedTuple):
    """What was unpacked from one GGUF file.

    Args:
        size: of the model.
        words: its tokenizer in JSON.
        end: id of the token that ends a text.
        state: its weights by name, in float32.
    """

    size: LlamaSize
    words: str
    end: int
    state: dict[str, Tensor]


def cache_folder() -> Path:
    """Return where this user's programs keep what they can make again, and our part of it."""
    home = Path.home()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(base) / "attnlib"


def forget() -> str:
    """Remove all that was kept, and say what that was."""
    folder = cache_folder()
    if not folder.exists():
        return f"nothing is kept in {folder}"
    size = sum(file.stat().st_size for file in folder.iterdir())
    shutil.rmtree(folder)
    return f"removed {folder}, {size / 1e6:.0f} MB; the next load makes it again"


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def place_of(sha256: str) -> Path:
    """Return where what was unpacked from the file of this fingerprint is kept."""
    return cache_folder() / f"{sha256[:16]}-{LAYOUT}.safetensors"


def keep(
    path: Path, size: LlamaSize, words: str, end: int, weight: Callable[[str], Tensor]
) -> None:
    """Write a Kept, whose weights are asked for by name, one at a time: memory holds one of them.

    OSError if there is no room or no right to write; nothing is left behind then.

    Source: the safetensors format: eight bytes with the length of a header in JSON, the header,
    the numbers.
    """
    about = {"size": asdict(size), "words": words, "end": end}
    entries = {name: ("F32", 4, shape) for name, shape in shapes(size).items()}
    entries[SUMS] = ("I64", 8, (len(entries),))
    header: dict[str, object] = {"__metadata__": {ABOUT: json.dumps(about)}}
    begin = 0
    for name, (dtype, width, shape) in entries.items():
        stop = begin + math.prod(shape) * width
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, stop]}
        begin = stop
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    sums = []
    try:
        with unfinished.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in shapes(size):
                data = weight(name).numpy().data
                sums.append(zlib.crc32(data))
                file.write(data)
            file.write(torch.tensor(sums).numpy().data)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def kept(path: Path) -> Kept | None:
    """Return what is kept in a file, mapped into memory; None if there is none, or a damaged one.

    The checksum of each tensor is compared with the one that was written.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads(file.metadata()[ABOUT])
            size = LlamaSize(**about["size"])
            state = {name: file.get_tensor(name) for name in shapes(size)}
            sums = file.get_tensor(SUMS).tolist()
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None
    if sums != [zlib.crc32(tensor.numpy().data) for tensor in state.values()]:
        return None
    return Kept(size, about["words"], about["end"], state)
