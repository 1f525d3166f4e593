"""Record every operation on tensors, and which of the reader's own lines asked for it.

trace sees the variables at the end of a line. Here a line like softmax(q @ k.mT / 8) falls into its
parts, wherever they run: in a helper, a loop, a comprehension or a module inside the module.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attncourse.tracing.tracer import LIBRARIES, statements_of

LARGEST = 1_000_000  # numbers of a tensor that is kept


class SourceLine(NamedTuple):
    """A statement of the reader's."""

    function: str  # the function that holds it
    number: int  # counted from the function's first line, which is 1
    text: str

    def __str__(self) -> str:
        return f"{self.function}, line {self.number}: {self.text}"


class Operation(NamedTuple):
    """One tensor, right after the operation that made or changed it."""

    number: int
    name: str  # of torch's function, or what was given: "x", "W_query.weight"
    line: SourceLine | None  # None for what was given, and where the reader's source is not known
    parents: tuple[int, ...]  # the numbers of the operations that made its inputs
    values: Tensor  # a copy
    arguments: tuple[Any, ...]  # those that are no tensors, then those by keyword
    grad: bool  # whether gradients flow through it

    @property
    def given(self) -> bool:
        """Whether this was there before."""
        return self.line is None and not self.parents


class Recording(TorchFunctionMode):
    """Records while it is entered; it may be entered again, and the list goes on.

    >>> with Recording() as recording:
    ...     made = torch.ones(2) + 1
    >>> [operation.name for operation in recording.operations]
    ['ones', 'add']
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self._known: dict[int, tuple[Tensor, int, int]] = {}  # tensor, its version, its operation
        self._statements: dict[int, tuple[str, dict[int, Any]]] = {}

    def name_tensors(self, named: Mapping[str, Tensor]) -> None:
        """Name tensors that are there before the code runs, unless it has made them itself."""
        for name, tensor in named.items():
            if id(tensor) not in self._known:
                self._keep(name, None, (), tensor, ())

    def number_of(self, tensor: Tensor) -> int | None:
        """Return the number of the operation that made or last changed a tensor."""
        known = self._known.get(id(tensor))
        return known and known[2]

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run the operation, then note it."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self._note(func, (*args, *kwargs.values()), result)
        return result

    def _note(self, func: Any, arguments: tuple[Any, ...], result: Any) -> None:
        inputs = list(tensors_in(arguments))
        for tensor in inputs:
            if id(tensor) not in self._known:
                self._keep("", None, (), tensor, ())
        parents = tuple(self._known[id(tensor)][2] for tensor in inputs)
        made = [tensor for tensor in tensors_in((result,)) if id(tensor) not in self._known]
        in_place = any(self._known[id(tensor)][1] != _version(tensor) for tensor in inputs)
        if not made and not in_place:
            return
        name = func.__name__
        if name == "__get__":  # an attribute such as x.mT
            name = getattr(func.__self__, "__name__", name)
        others = tuple(a for a in arguments if not isinstance(a, Tensor))
        line = self._line()
        if in_place:
            for tensor, version, number in list(self._known.values()):
                if _version(tensor) != version:
                    self._keep(name, line, (number, *parents), tensor, others)
        for tensor in made:
            self._keep(name, line, parents, tensor, others)

    def _keep(
        self,
        name: str,
        line: SourceLine | None,
        parents: tuple[int, ...],
        tensor: Tensor,
        others: tuple[Any, ...],
    ) -> None:
        number = len(self.operations)
        self._known[id(tensor)] = tensor, _version(tensor), number
        small = tensor.numel() <= LARGEST and tensor.layout is torch.strided
        try:
            values = tensor.detach().clone() if small else torch.empty(0)
        except RuntimeError:  # a tensor inside vmap
            values = torch.empty(0)
        self.operations.append(
            Operation(number, name, line, parents, values, others, tensor.requires_grad)
        )

    def _line(self) -> SourceLine | None:
        """Return the reader's innermost line that runs now."""
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith(LIBRARIES) and not code.co_name.startswith("<"):
                if id(code) not in self._statements:
                    self._statements[id(code)] = statements_of(code)
                name, statements = self._statements[id(code)]
                number = frame.f_lineno - code.co_firstlineno + 1
                if number in statements:
                    statement = statements[number]
                    return SourceLine(name, statement.line, statement.text)
                return None
            frame = frame.f_back  # type: ignore[assignment]
        return None


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def tensors_in(values: Any, levels: int = 3) -> Iterator[Tensor]:
    """Yield the tensors in a value, and in the lists, tuples and dicts that it holds."""
    if isinstance(values, Tensor):
        yield values
    elif levels and isinstance(values, (list, tuple)):
        for value in values:
            yield from tensors_in(value, levels - 1)
    elif levels and isinstance(values, dict):
        yield from tensors_in(list(values.values()), levels)
