"""Open GPT-2's file without reading its numbers, and refuse in words what is none.

safetensors is loaded when the first file is opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path

from torch import Tensor

WEIGHTS, CONFIG = "model.safetensors", "config.json"
PICKLES = (b"PK\x03\x04", b"\x80")  # how torch.save and pickle begin
LFS = b"version https://git-lfs"


class Gpt2File(Mapping[str, Tensor]):
    """A safetensors file as a state_dict: a tensor is read when it is looked up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = _config(path)  # what config.json beside it says
        self._names = dict.fromkeys(_names(path))

    def __getitem__(self, key: str) -> Tensor:
        from safetensors import safe_open

        if key not in self._names:
            raise KeyError(key)
        with safe_open(self.path, framework="pt") as file:
            tensor: Tensor = file.get_tensor(key)
        return tensor

    def __contains__(self, key: object) -> bool:
        return key in self._names  # without reading it

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{self.path.name}: {len(self)} tensors>"


def read_gpt2(path: str | PathLike[str]) -> Gpt2File:
    """Open the safetensors file of GPT-2's weights, without reading them.

    Args:
        path: a safetensors file, such as the model.safetensors of a Hugging Face GPT-2, or the
            folder that holds it. "~" is the home folder. A config.json beside it is read, and
            from_gpt2 and load_gpt2 heed it.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not a safetensors file, or it is damaged. A pickle (.bin, .pt) is refused
            unread: loading one can run any code in it.

    >>> read_gpt2("no_such.safetensors")
    Traceback (most recent call last):
    FileNotFoundError: there is no file no_such.safetensors
    """
    path = Path(path).expanduser()
    path = path / WEIGHTS if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return Gpt2File(path)


def _names(path: Path) -> list[str]:
    """Return the names of the tensors in a safetensors file, or raise if it is another file."""
    from safetensors import SafetensorError, safe_open

    with path.open("rb") as opened:
        start = opened.read(200)
    if start[8:9] != b"{":
        raise ValueError(f"{path} is {_what_it_is(start)}")
    try:
        with safe_open(path, framework="pt") as file:
            return list(file.keys())
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or cut short: {error}") from error


def _what_it_is(start: bytes) -> str:
    """Say what a file that is not of safetensors seems to be, and what to do."""
    if start.startswith(LFS):
        return (
            "a pointer of Git LFS, a few lines in the place of the weights; fetch the file itself "
            "with `git lfs pull`, or download it"
        )
    if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a page of HTML, not the weights; download the file itself, not the page about it"
    if start.startswith(PICKLES):
        return (
            "a pickle, and loading a pickle can run any code that it holds; only "
            "safetensors files are read: take the model.safetensors of the same model"
        )
    return "not a safetensors file: its header is missing"


def _config(path: Path) -> dict[str, object]:
    """Return what the config.json beside a file says; nothing if there is none."""
    config = path.with_name(CONFIG)
    if not config.is_file():
        return {}
    try:
        found = json.loads(config.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # brackets in brackets, thousands deep
        raise ValueError(f"{config} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{config} must hold one JSON object, not {type(found).__name__}")
    return found
