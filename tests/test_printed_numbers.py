"""No notebook prints a number that lies on a rounding boundary."""

from __future__ import annotations

from decimal import Decimal

import pytest

from support.notebook_tools import NOTEBOOKS, read
from support.rounding import fragile_numbers, golden_numbers, run_sharpened, why_unsafe


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_printed_numbers_are_safe(path):
    stored = read(path)
    problems = fragile_numbers(stored, run_sharpened(stored, path.parent), golden_numbers())
    assert not problems, "\n".join([path.name, *problems])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1235", "0.1234501"),  # just above the boundary
        ("-0.1234", "-0.1234499"),  # just below it, negative
        ("1.2346e-05", "1.23455001e-05"),  # in the notation of very small tensors
        ("0.0000", "0.0000000596"),  # noise around zero: -0.0000 elsewhere
        ("0.30000001192", "0.30000001192"),  # a float32 shown as a float64
        ("0.5", "0.75"),  # another number
    ],
)
def test_an_unsafe_number_is_found(text, value):
    assert why_unsafe(text, Decimal(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1235", "0.12347"),
        ("0.0000", "0.0"),
        ("-0.63", "-0.6300456"),
        ("6", "6"),
        ("1e-06", "1e-06"),
    ],
)
def test_a_safe_number_passes(text, value):
    assert why_unsafe(text, Decimal(value)) is None


CELLS = {
    "import torch": "",
    "x = torch.tensor([0.12345, 0.5])": "",
    "x": "tensor([0.1234, 0.5000])",
    "print(f'{x[0]:.4f}')": "0.1234",
    "print(round(x[0].item(), 4))": "0.1234",
    "print(f'{0.25:.{2}f}', 'in 6 steps')": "0.25 in 6 steps",
    "# NBVAL_IGNORE_OUTPUT\nx": "anything 1 2 3",
    "import attnlib; print(attnlib.show(0.12345001))": "0.1235",
    "print(*range(2))": "0 1 2",
}


def test_a_notebook_is_judged_number_by_number(tmp_path):
    notebook = {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": count,
                "id": f"cell-{count}",
                "metadata": {},
                "outputs": [{"output_type": "stream", "name": "stdout", "text": [text]}],
                "source": [code],
            }
            for count, (code, text) in enumerate(CELLS.items(), 1)
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    package = tmp_path / "attnlib"  # in the kernel's folder, so it is found before ours
    package.mkdir()
    (package / "__init__.py").write_text("def show(x):\n    return f'{x:.4f}'\n")
    sharp = run_sharpened(notebook, tmp_path)
    boundary = "0.1234 stands for 0.1234500036, on a rounding boundary"
    assert fragile_numbers(notebook, sharp, golden=set()) == [
        f"cell 3: {boundary}",
        f"cell 4: {boundary}",
        f"cell 5: {boundary}",
        "cell 8: 0.1235 stands for 0.1234500100, on a rounding boundary",
        "cell 9 prints 3 numbers, but 2 when they are printed to 10 decimals, "
        "so they cannot be matched",
    ]
    assert len(fragile_numbers(notebook, sharp, golden={"0.1234"})) == 2
