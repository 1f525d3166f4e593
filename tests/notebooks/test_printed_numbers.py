"""No notebook prints a number that lies on a rounding boundary: nbval's own run finds it."""

import json
import os
import subprocess
import sys

import pytest

from support.class_tools import showing
from support.notebook_tools import ROOT
from support.rounding import Notes, numbers, why_unsafe


@pytest.mark.parametrize(
    ("text", "value", "is_safe"),
    [
        ("0.1235", "0.1234501", False),  # just above the boundary
        ("-0.1234", "-0.1234499", False),  # just below it, negative
        ("1.2346e-05", "1.23455001e-05", False),  # in the notation of very small tensors
        ("0.0000", "0.0000000596", False),  # noise around zero: -0.0000 elsewhere
        ("0.30000001192", "0.30000001192", False),  # a float32 shown as a float64
        ("0.5", "0.75", False),  # another number
        ("0.1235", "0.12347", True),
        ("0.0000", "0.0", True),
        ("-0.63", "-0.6300456", True),
        ("6", "6", True),
        ("1e-06", "1e-06", True),
    ],
)
def test_an_unsafe_number_is_found_and_a_safe_one_passes(text, value, is_safe):
    assert (why_unsafe(text, value) is None) == is_safe


@pytest.mark.parametrize(
    ("text", "pairs", "problems"),
    [
        ("0.5", [("0.50", "0.4951")], ["0.5 stands for 0.4951, on a rounding boundary"]),
        ("-0.50", [("0.50", "0.4951")], ["-0.50 stands for 0.4951, on a rounding boundary"]),
        ("0.50", [("0.50", "0.5"), ("0.50", "0.4951")], ["0.50 stands for 0.4951, on a rounding"]),
        ("0.50", [("0.51", "0.5051")], []),  # which this cell does not print
        ("0.5000001", [], ["0.5000001 has more than 6 decimals"]),
        ("0.50", [("0.50", "0.5")], []),
        ("0", [("0.00", "1e-9")], []),
        ("6", [("6", "5.51")], ["6 stands for 5.51, on a rounding boundary"]),
    ],
)
def test_a_number_is_looked_up_among_those_that_its_cell_rounds(tmp_path, text, pairs, problems):
    notes = Notes(tmp_path / "notes.json")
    found = told(notes, pairs, text)
    assert len(found) == len(problems)
    assert all(problem in one for problem, one in zip(problems, found, strict=True))
    assert told(notes, pairs, text, golden={text.lstrip("-")}) == []


def test_a_text_that_an_earlier_cell_made_is_found(tmp_path):
    notes = Notes(tmp_path / "notes.json")
    assert told(notes, [("0.50", "0.4951"), ("6", "5.51")], "") == []
    assert len(told(notes, [], "0.50")) == 1
    assert told(notes, [], "6") == []  # a count, more likely
    assert told(notes, [("0.50", "0.5")], "0.50") == []


def test_the_words_of_a_picture_count_where_nothing_else_is_rounded_to_them(tmp_path):
    notes = Notes(tmp_path / "notes.json")
    unsafe, safe = ("0.50", "0.4951", True), ("0.50", "0.5", False)
    assert told(notes, [safe, unsafe], "0.50") == []
    assert len(told(notes, [unsafe], "0.50")) == 1
    shown = displayed({"text/plain": "0.5", "image/png": ""})
    notes.file.write_text(json.dumps([unsafe]))
    assert len(notes.fragile_numbers(shown, ())) == 1
    notes.file.write_text(json.dumps([safe, unsafe]))
    assert notes.fragile_numbers(shown, ()) == []  # what the alt text says counts, not the cells


def test_the_bytes_of_a_picture_are_no_numbers():
    image = '<img alt="A weight of 0.50." src="data:image/png;base64,iVBO/7123456789+1e5">'
    assert list(numbers(displayed({"text/html": image}))) == ["0.50"]


def test_a_cell_that_notes_nothing_is_an_error(tmp_path):
    notes = Notes(tmp_path / "notes.json")
    with pytest.raises(FileNotFoundError, match=r"notes\.json"):
        notes.fragile_numbers(showing("x = 1", ""), ())


def told(notes, pairs, text, golden=()):
    notes.file.write_text(json.dumps([[*pair, False][:3] for pair in pairs]))
    return notes.fragile_numbers(showing("x", text), golden)


def displayed(data):
    return showing("x", "") | {"outputs": [{"output_type": "display_data", "data": data}]}


CELLS = {  # and what it prints, exactly
    "import torch": "",
    "x = torch.tensor([0.12345, 0.5])": "",
    "print(x)": "tensor([0.1235, 0.5000])\n",
    "print(f'{x[0]:.4f}')": "0.1235\n",
    "print(round(x[0].item(), 4))": "0.1235\n",
    "print(f'{0.25:.{2}f}', 'in 6 steps')": "0.25 in 6 steps\n",
    "# NBVAL_IGNORE_OUTPUT\nx": "anything 1 2 3\n",
    "import attnlib; print(attnlib.show(0.12345001))": "0.1235\n",
    "print(x[:1].round(decimals=4), f'{0.5!r:>6}|{3:>4}')": "tensor([0.1234])    0.5|   3\n",
    "print(f'{x[0].double():.2e} {0.98765:>8.1%}', *range(2))": "1.23e-01    98.8% 0 1\n",
    "kept = f'{0.765:.2f}'": "",
    "print(kept)": "0.77\n",
    "print(torch.tensor([1.0, -2.0]), torch.tensor([3, 4]))": "tensor([ 1., -2.]) tensor([3, 4])\n",
}
ON_BOUNDARY = {3, 4, 5, 8, 9, 12}  # counted from 1


def test_nbval_fails_the_cells_that_print_such_numbers_and_no_others(tmp_path):
    """In a run as `make test` makes it; what a cell prints is the same as in any other run."""
    cells = [showing(code, text) | {"id": f"c{i}"} for i, (code, text) in enumerate(CELLS.items())]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "some.ipynb").write_text(json.dumps(notebook))
    package = tmp_path / "attnlib"  # in the kernel's folder, so it is found before ours
    package.mkdir()
    (package / "__init__.py").write_text("def show(x):\n    return f'{x:.4f}'\n")
    options = ["--nbval", "--nbval-current-env", "-q", "-rA", "-p", "no:cacheprovider"]
    options += ["-c", str(ROOT / "pyproject.toml"), "-p", "support.nbval_plugin"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path / "some.ipynb")],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    said = {
        int(line.rsplit("Cell ", 1)[1].split()[0]) + 1: line.split()[0]
        for line in ran.stdout.splitlines()
        if line.startswith(("PASSED", "FAILED"))
    }
    wanted = {i: "FAILED" if i in ON_BOUNDARY else "PASSED" for i in range(1, len(CELLS) + 1)}
    assert said == wanted, ran.stdout + ran.stderr
    assert "Cell outputs differ" not in ran.stdout
    assert "0.1235 stands for 0.1234500036, on a rounding boundary" in ran.stdout
