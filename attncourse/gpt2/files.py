"""Open GPT-2's files without reading their numbers, and refuse in words what is none.

safetensors is loaded when the first file is opened.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path

from torch import Tensor

SINGLE, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
SHARD = re.compile(r"-of-(\d+)\.safetensors$")
PICKLES = (b"PK\x03\x04", b"\x80")  # how torch.save and pickle begin
LFS = b"version https://git-lfs"
LONGEST_HEADER = (
    10**6
)  # bytes: GPT-2 XL has 65,000; one that lists a million tensors takes a minute


class Gpt2File(Mapping[str, Tensor]):
    """Safetensors files as a state_dict: a tensor is read when it is looked up."""

    def __init__(self, path: Path, homes: dict[str, Path]) -> None:
        self.path = path
        self.config = _config(path)  # what config.json beside it says
        self._homes = homes  # for each name, the file that holds its tensor

    def __getitem__(self, key: str) -> Tensor:
        from safetensors import safe_open

        with safe_open(self._homes[key], framework="pt") as file:
            tensor: Tensor = file.get_tensor(key)
        return tensor

    def __contains__(self, key: object) -> bool:
        return key in self._homes  # without reading it

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def __repr__(self) -> str:
        return f"<{self.path.name}: {len(self)} tensors>"


def read_gpt2(path: str | PathLike[str]) -> Gpt2File:
    """Open the safetensors file of GPT-2's weights, or its several files, without reading them.

    Args:
        path: a safetensors file, such as the model.safetensors of a Hugging Face GPT-2; or the
            folder that holds it; or, where the weights are split into several files, their
            index, model.safetensors.index.json, or its folder. "~" is the home folder. A
            config.json beside it is read, and from_gpt2 and load_gpt2 heed it.

    Raises:
        FileNotFoundError: there is no such file.
        TypeError: path is not a path.
        ValueError: it is not a safetensors file, it is damaged, or its header is too long. A
            pickle (.bin, .pt) is refused unread: loading one can run any code in it.

    >>> read_gpt2("no_such.safetensors")
    Traceback (most recent call last):
    FileNotFoundError: there is no file no_such.safetensors

    Source: the safetensors format: eight bytes with the length of a header in JSON, the header,
    the numbers.
    """
    if not isinstance(path, (str, PathLike)):
        raise TypeError(
            f"path must be a str or a Path, not {type(path).__name__}; give the file of the "
            "weights, or the folder that holds it"
        )
    path = _file_of(Path(path).expanduser())
    if path.name.endswith(".index.json"):
        return Gpt2File(path, _homes(path))
    names, shard = _names(path), SHARD.search(path.name)
    if shard and int(shard[1]) > 1:
        raise ValueError(
            f"{path} is one of {int(shard[1])} files with the weights of one model; name the "
            f"folder that holds all of them and their index, {INDEX}"
        )
    return Gpt2File(path, dict.fromkeys(names, path))


def _file_of(path: Path) -> Path:
    """Return the file that a path names; of a folder, the file with the weights in it."""
    if path.is_dir():
        found = next((path / name for name in (SINGLE, INDEX) if (path / name).is_file()), None)
        if found is None:
            raise ValueError(
                f"{path} is a folder without {SINGLE} or {INDEX}; name the file itself"
            )
        return found
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return path


def _names(path: Path) -> list[str]:
    """Return the names of the tensors in one safetensors file, or raise if it is another file."""
    from safetensors import SafetensorError, safe_open

    with path.open("rb") as opened:
        start = opened.read(200)
    if start[8:9] != b"{":
        raise ValueError(f"{path} is {_what_it_is(path, start)}")
    header = int.from_bytes(start[:8], "little")
    if header > LONGEST_HEADER:
        raise ValueError(
            f"{path} has a header of {header:,} bytes, and no GPT-2 has more than "
            f"{LONGEST_HEADER:,}: it is another model, or damaged; download it again"
        )
    try:
        with safe_open(path, framework="pt") as file:
            return list(file.keys())
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or cut short: {error}") from error


def _what_it_is(path: Path, start: bytes) -> str:
    """Say what a file that is not of safetensors seems to be, and what to do."""
    if start.startswith(LFS):
        return (
            "a pointer of Git LFS, a few lines in the place of the weights; fetch the file itself "
            "with `git lfs pull`, or download it"
        )
    if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a page of HTML, not the weights; download the file itself, not the page about it"
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as opened:
            if any(name.endswith(".npy") for name in opened.namelist()):
                return (
                    "an archive of NumPy's (.npz), not a safetensors file; write one with "
                    "safetensors.numpy.save_file(dict(numpy.load(path)), 'model.safetensors')"
                )
    if start.startswith(PICKLES):
        return (
            "a pickle, and loading a pickle can run any code that it holds; only "
            "safetensors files are read: take the model.safetensors of the same model"
        )
    return "not a safetensors file: its header is missing"


def _homes(index: Path) -> dict[str, Path]:
    """Return for each name in an index the file that holds its tensor."""
    places = _json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ValueError(f"{index} is not an index of weights: it has no weight_map")
    for name, file in places.items():
        if not isinstance(file, str) or not Path(file).name:
            raise ValueError(f"{index} names no file for {name}: {file!r}; download it again")
    homes = {name: index.with_name(Path(file).name) for name, file in places.items()}
    for file in sorted(set(homes.values())):
        expected = {name for name, home in homes.items() if home == file}
        if not file.is_file():
            raise FileNotFoundError(
                f"there is no file {file}, which {index.name} names for {len(expected)} of its "
                f"{len(homes)} tensors; download all of them into one folder"
            )
        if missing := expected.difference(_names(file)):
            raise ValueError(f"{file} lacks {min(missing)}, which {index.name} says it holds")
    return homes


def _config(path: Path) -> dict[str, object]:
    """Return what the config.json beside a file says; nothing if there is none."""
    config = path.with_name(CONFIG)
    return _json(config) if config.is_file() else {}


def _json(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # brackets in brackets, thousands deep
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold one JSON object, not {type(found).__name__}")
    return found
