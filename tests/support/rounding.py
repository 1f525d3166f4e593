"""Would a printed number survive another machine's last bit?

Outputs are compared as text. A value on a rounding boundary prints differently elsewhere. So while
nbval runs a notebook (`support/nbval_plugin.py`), its kernel notes each number that it rounds, as
it prints it and with DIGITS decimals: in tensors, format specs such as `f"{x:.4f}"`, and `round`,
in the cells and in attnlib. Then each stored number is held against its unrounded value. What a
cell prints stays as it is.
"""

import ast
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from decimal import Decimal
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

from support.notebook_tools import DATA_URI, source, tags, text_of

DIGITS = 10
MARGIN = Decimal("0.02")  # of a unit in the last printed place
MOST_DECIMALS = 6  # float32 knows about seven digits
GOLDEN = Path(__file__).parents[1] / "golden" / "printed_tensors.json"

NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
HEAD = re.compile(r"\bheads? \d+\.\d+(?:(?:,| and) \d+\.\d+(?= and|:))*")  # names: layer.head
MAY_ROUND = re.compile(r"round|:\{|\.(?:\d+|\{[^}]*\})[eEfFgG%]\}")  # what Note changes
LOOKS = re.compile(r"""\b(?:style|stroke-width|viewBox|d)="[^"]*\"""")  # of HTML and SVG
PRECISION = re.compile(r"\.\d+(?=[eEfFgG%]$)")
UNCOMPARED = ("nbval-ignore-output", "NBVAL_IGNORE_OUTPUT")
NOTE_IN_KERNEL = f"""\
import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from support import rounding; rounding.note_in_kernel(NOTES); del rounding, sys.path[0], sys
"""

# what the cells of a picture say, drawn or touched; its alt text
DRAWS, SAYS = ("attncourse.pictures", "attncourse.panels.touch"), "attncourse.pictures.alt_text"

Pair = tuple[str, str]  # a number as it is printed, and with more decimals


# Part one: note what is rounded, in the kernel.

# since the last cell ended; each pair with whether code that draws has rounded it
noted: dict[tuple[str, str, bool], None] = {}


class Note(ast.NodeTransformer):
    """Have each number noted where code rounds it.

    >>> print(ast.unparse(Note().visit(ast.parse("f'{x:>8.4f}', x.round(2)"))))
    (f"{_noted_text(x, f'>8.4f', False)}", _noted_round(False, x.round, 2))

    Args:
        draws: whether the code draws.
    """

    def __init__(self, draws: bool = False) -> None:
        self.draws = draws

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        self.generic_visit(node)
        if node.format_spec and node.conversion == -1:
            node.value = ast.Call(
                ast.Name("_noted_text", ast.Load()),
                [node.value, node.format_spec, ast.Constant(self.draws)],
                [],
            )
            node.format_spec = None
        return ast.fix_missing_locations(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
        if name == "round":
            node.args[:0] = [ast.Constant(self.draws), node.func]
            node.func = ast.Name("_noted_round", ast.Load())
        return ast.fix_missing_locations(node)


def note(printed: str, sharp: str, draws: bool) -> None:
    """Note the numbers of a text beside those of the same text with more decimals."""
    for pair in zip(NUMBER.findall(printed), NUMBER.findall(sharp), strict=True):
        noted[(*pair, draws)] = None


def noted_text(value: Any, spec: str, draws: bool) -> str:
    """Return what `f"{value:spec}"` is, and note it."""
    text = format(value, spec)
    if PRECISION.search(spec):
        note(text, format(value, PRECISION.sub(f".{DIGITS}", spec)), draws)
    return text


def noted_round(draws: bool, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Return what a function or method named `round` returns, and note it."""
    result = function(*arguments, **named)
    owner = getattr(function, "__self__", None)
    before = owner if hasattr(owner, "__float__") else arguments[0]
    decimals = named.get("decimals", named.get("ndigits"))
    if decimals is None and len(arguments) > (before is not owner):
        decimals = arguments[-1]
    if decimals is not None and decimals > 0:
        for value, rounded in zip(_floats(before), _floats(result), strict=True):
            note(f"{rounded:.{decimals}f}", f"{value:.{DIGITS}f}", draws)
    return result


def _floats(value: Any) -> list[float]:
    """Return a number, or all of a tensor's or array's, as floats."""
    return value.reshape(-1).tolist() if hasattr(value, "reshape") else [float(value)]


def note_in_kernel(notes: str) -> None:
    """From now on note what is rounded: in the cells, in attnlib, and in torch's own repr.

    Args:
        notes: the file that holds, after each cell, what it noted, as JSON.
    """
    import builtins

    from IPython import get_ipython
    from torch._tensor_str import _Formatter

    plain_code, plain_format = SourceFileLoader.get_code, _Formatter.format

    def get_code(loader: SourceFileLoader, module: str) -> object:
        if module.split(".")[0] not in ("attnlib", "attncourse"):
            return plain_code(loader, module)
        path = loader.get_filename(module)
        text = loader.get_data(path).decode("utf-8")
        if not MAY_ROUND.search(text):
            return plain_code(loader, module)
        tree = Note(module.startswith(DRAWS) and module != SAYS).visit(ast.parse(text))
        return compile(tree, path, "exec")

    def format_element(formatter: _Formatter, value: Any) -> str:
        text = plain_format(formatter, value)
        if formatter.floating_dtype:
            kind = "e" if formatter.sci_mode else "f"
            note(text, f"{float(value):.{DIGITS}{kind}}", False)
        return text

    def write(_result: object) -> None:
        Path(notes).write_text(json.dumps(list(noted)), encoding="utf-8")
        noted.clear()

    SourceFileLoader.get_code = get_code
    _Formatter.format = format_element
    builtins._noted_text, builtins._noted_round = noted_text, noted_round
    get_ipython().ast_transformers.append(Note())
    get_ipython().events.register("post_run_cell", write)


# Part two: compare.


class Notes:
    """What a kernel noted, cell by cell."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.set_up = NOTE_IN_KERNEL.replace("NOTES", repr(str(file)))  # what the kernel runs first
        self.earlier: dict[Number, set[Pair]] = {}

    def fragile_numbers(self, cell: dict, golden: Collection[str]) -> list[str]:
        """Return a problem for every stored number that another machine may print differently.

        A number is looked up in what this cell noted, for it prints what it rounds; alt texts
        round with pictures.alt_text.say_number. If only the words of a picture were rounded to it,
        these. What is not there at all may be text that an earlier cell made.

        Args:
            cell: the cell that the kernel ran last.
            golden: the numbers that may stand on a boundary.
        """
        here = json.loads(self.file.read_text(encoding="utf-8"))
        self.file.unlink()  # so that a cell that writes none is an error
        said, drawn = (
            _by_number(tuple(pair) for *pair, draws in here if draws == kind)
            for kind in (False, True)
        )
        problems = []
        for text in [] if is_uncompared(cell) else numbers(cell):
            number = _number(text)
            pairs = (
                said.get(number) or drawn.get(number) or self.earlier.get(number) or {(text, text)}
            )
            whys = [why_unsafe(*pair) for pair in sorted(pairs)]
            whys.append(why_unsafe(text, text))  # as it stands: too many decimals
            why = next(filter(None, whys), None)
            if why and text.lstrip("-") not in golden:
                problems.append(f"{text} {why}")
        for number, pairs in [*said.items(), *drawn.items()]:
            if not number.whole:  # a whole number is a count, more likely
                self.earlier.setdefault(number, set()).update(pairs)
        return problems


class Number(NamedTuple):
    """A printed number, by which it is looked up: 0.5, 0.50 and -0.5 are one, 0 and 0.0 are two."""

    size: Decimal
    whole: bool


def _by_number(pairs: Iterable[Pair]) -> dict[Number, set[Pair]]:
    """Return pairs by the number that is printed."""
    found: dict[Number, set[Pair]] = {}
    for printed, sharp in pairs:
        found.setdefault(_number(printed), set()).add((printed, sharp))
    return found


def _number(text: str) -> Number:
    return Number(abs(Decimal(text)), text.lstrip("-").rstrip(".").isdigit())


def is_uncompared(cell: dict) -> bool:
    """Return whether nbval ignores what a cell shows."""
    return any(mark in tags(cell) or f"# {mark}" in source(cell) for mark in UNCOMPARED)


def numbers(cell: dict) -> Iterator[str]:
    """Yield the numbers that a cell's outputs show; looks, bytes, and names of heads are none.

    >>> shown = {"output_type": "stream", "text": "head 1.1 0.25, heads 0.0 and 0.1: 3"}
    >>> look = {"output_type": "display_data", "data": {"text/html": '<p style="top: 0.1em">5</p>'}}
    >>> list(numbers({"outputs": [shown, look]}))
    ['0.25', '3', '5']
    """
    for output in cell["outputs"]:
        text = DATA_URI.sub("", text_of({**output, "traceback": []}))
        yield from NUMBER.findall(HEAD.sub("", LOOKS.sub("", text)))


def why_unsafe(text: str, sharp: str) -> str | None:
    """Return why it is unsafe to print as this text what has more decimals, or None."""
    printed, value = Decimal(text), Decimal(sharp)
    unit = Decimal(1).scaleb(printed.as_tuple().exponent)
    decimals = len(text.partition(".")[2].lower().partition("e")[0])
    if decimals > MOST_DECIMALS:
        return f"has more than {MOST_DECIMALS} decimals: the last ones differ between machines"
    if abs(printed - value) >= unit:
        return f"stands for {value} when more decimals are printed: not the same number"
    if printed == 0 and 0 < abs(value) < MARGIN * unit:
        return f"stands for {value}, whose sign differs between machines"
    if abs(abs(value) / unit % 1 - Decimal("0.5")) < MARGIN:
        return f"stands for {value}, on a rounding boundary"
    return None


def golden_numbers() -> set[str]:
    """Return what the source documents print. Their numbers are given, wherever they round."""
    found = re.findall(r"\d+\.\d+", GOLDEN.read_text(encoding="utf-8"))
    return {f"{float(text):.4f}" for text in found} - {"0.0000", "1.0000"}
