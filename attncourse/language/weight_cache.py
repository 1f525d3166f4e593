"""Keep the unpacked weights of a GGUF file, so that the next load takes less than a second.

There is one safetensors file for each GGUF file, in the user's cache folder. Its tensors are mapped
into memory, so several processes share them.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from platformdirs import user_cache_path
from torch import Tensor

from attncourse.language.model import LlamaSize, shapes

LAYOUT = 2  # of the cached file; counted up whenever its names change
ABOUT = "about"  # the key of what it holds beside the weights


class Weights(NamedTuple):
    """What was unpacked from one GGUF file."""

    size: LlamaSize
    tokenizer: str  # in JSON
    end: int  # id of the token that ends a text
    state: dict[str, Tensor]  # the weights by name, in float32


def cache_folder() -> Path:
    """Return the folder for this course in the user's cache folder."""
    return user_cache_path("attncourse", appauthor=False)


def clear_cache() -> str:
    """Remove all cached weights, and say what that was."""
    folder = cache_folder()
    if not folder.exists():
        return f"nothing is cached in {folder}"
    size = sum(file.stat().st_size for file in folder.iterdir())
    shutil.rmtree(folder)
    return f"removed {folder}, {size / 1e6:.0f} MB; the next load makes it again"


def cached_path(sha256: str) -> Path:
    """Return where the weights of the GGUF file with this SHA-256 are cached."""
    return cache_folder() / f"{sha256[:16]}-{LAYOUT}.safetensors"


def save_weights(path: Path, weights: Weights) -> None:
    """Cache weights; where there is no room or no right to write, leave nothing behind."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    about = {"size": asdict(weights.size), "tokenizer": weights.tokenizer, "end": weights.end}
    unfinished = path.with_suffix(f".{os.getpid()}")  # two processes may unpack at once
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(weights.state, unfinished, metadata={ABOUT: json.dumps(about)})
        unfinished.replace(path)
    except (OSError, SafetensorError):
        unfinished.unlink(missing_ok=True)


def load_weights(path: Path) -> Weights | None:
    """Return the weights in a file, mapped into memory; None if there is none or it is cut."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads(file.metadata()[ABOUT])
            size = LlamaSize(**about["size"])
            state = {name: file.get_tensor(name) for name in shapes(size)}
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None
    return Weights(size, about["tokenizer"], about["end"], state)
