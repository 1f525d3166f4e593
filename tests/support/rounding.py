"""Would a printed number survive another machine's last bit?

Outputs are compared as text. A value on a rounding boundary prints differently elsewhere. So each
notebook runs once more with every number printed to DIGITS decimals: tensors, format specs such as
`f"{x:.4f}"`, and `round`, in its cells and in attnlib. Then each stored number is held against its
unrounded value.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from importlib.machinery import SourceFileLoader
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from support.notebook_tools import code_cells, source, tags, text_of

DIGITS = 10
MARGIN = Decimal("0.02")  # of a unit in the last printed place
MOST_DECIMALS = 6  # float32 knows about seven digits
GOLDEN = Path(__file__).parents[1] / "golden" / "printed_tensors.json"

NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
PRECISION = re.compile(r"\.\d+(?=[eEfFgG%]$)")
UNCOMPARED = ("nbval-ignore-output", "NBVAL_IGNORE_OUTPUT")
SHARPEN_KERNEL = f"""\
import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from support import rounding; rounding.sharpen_kernel(); del rounding; sys.path.pop(0)
"""


# Part one: print more decimals.


class Sharpen(ast.NodeTransformer):
    """Keep DIGITS decimals wherever code rounds to fewer.

    >>> print(ast.unparse(Sharpen().visit(ast.parse("f'{x:>8.4f}', round(x, 2), x.round(2)"))))
    (f'{x:>8.10f}', round(x, 10), x.round(10))
    """

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.format_spec, ast.JoinedStr):
            parts = [getattr(part, "value", "") for part in node.format_spec.values]
            spec = "".join(part if isinstance(part, str) else "0" for part in parts)
            if PRECISION.search(spec):
                spec = PRECISION.sub(f".{DIGITS}", spec)
                node.format_spec = ast.JoinedStr([ast.Constant(spec)])
        return ast.fix_missing_locations(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
        if name == "round":
            match node.args:
                case [_, _] | [ast.Constant()]:  # round(x, 4), x.round(4)
                    node.args[-1] = ast.Constant(DIGITS)
        if name in ("round", "set_printoptions"):
            for keyword in node.keywords:
                if keyword.arg in ("decimals", "ndigits", "precision"):
                    keyword.value = ast.Constant(DIGITS)
        return ast.fix_missing_locations(node)


def sharpen_kernel() -> None:
    """Print with more decimals from now on: in the cells, in attnlib, and in torch's own repr."""
    import torch
    from IPython import get_ipython

    plain = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, module: str) -> object:
        if module.split(".")[0] != "attnlib":
            return plain(loader, module)
        path = loader.get_filename(module)
        return compile(Sharpen().visit(ast.parse(loader.get_data(path))), path, "exec")

    SourceFileLoader.get_code = get_code
    get_ipython().ast_transformers.append(Sharpen())
    torch.set_printoptions(precision=DIGITS)


def run_sharpened(notebook: dict, folder: Path) -> dict:
    """Return the notebook as it comes out when numbers are printed to DIGITS decimals.

    Cells that print no number to compare, and that no such cell builds on, are not run.
    """
    from support.exercise_tools import (
        needed_cells,  # here: it loads attnlib, which a kernel sharpens first
    )

    compared = {
        i: source(cell)
        for i, cell in code_cells(notebook)
        if not is_uncompared(cell) and any(numbers(cell))
    }
    needed = needed_cells(notebook, compared)
    sharp = nbformat.reads(json.dumps(notebook), as_version=4)
    for i, cell in enumerate(sharp.cells, 1):
        if cell.cell_type == "code" and i not in needed:
            cell.source = ""
    sharp.cells.insert(0, nbformat.v4.new_code_cell(SHARPEN_KERNEL))
    NotebookClient(
        sharp,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        store_widget_state=False,
    ).execute()
    del sharp.cells[0]
    return json.loads(nbformat.writes(sharp))


# Part two: compare.


def fragile_numbers(notebook: dict, sharp: dict, golden: set[str]) -> list[str]:
    """Return a problem for every stored number that another machine may print differently."""
    problems = []
    for (i, cell), (_, sharp_cell) in zip(code_cells(notebook), code_cells(sharp), strict=True):
        if is_uncompared(cell):
            continue
        stored, values = list(numbers(cell)), list(numbers(sharp_cell))
        if len(stored) != len(values):
            problems.append(
                f"cell {i} prints {len(stored)} numbers, but {len(values)} when they are printed "
                f"to {DIGITS} decimals, so they cannot be matched"
            )
            continue
        for text, value in zip(stored, values, strict=True):
            why = why_unsafe(text, Decimal(value))
            if why and text.lstrip("-") not in golden:
                problems.append(f"cell {i}: {text} {why}")
    return problems


def is_uncompared(cell: dict) -> bool:
    """Return whether nbval ignores what a cell shows."""
    return any(mark in tags(cell) or f"# {mark}" in source(cell) for mark in UNCOMPARED)


def numbers(cell: dict) -> Iterator[str]:
    """Yield the numbers that a cell's outputs show, as text."""
    for output in cell["outputs"]:
        yield from NUMBER.findall(text_of({**output, "traceback": []}))


def why_unsafe(text: str, value: Decimal) -> str | None:
    """Return why it is unsafe to print this value as this text, or None.

    >>> why_unsafe("0.1235", Decimal("0.12345001"))
    'stands for 0.12345001, on a rounding boundary'
    >>> why_unsafe("0.1235", Decimal("0.12347"))
    """
    printed = Decimal(text)
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
