"""Each rule of notebook_tools can fail: a good notebook passes, one with one fault does not."""

import copy
import json
from collections.abc import Callable

import pytest

from support import notebook_tools as rules


def markdown(text: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": [text]}


def code(text: str, count: int, outputs: list[dict] | None = None) -> dict:
    return {
        "cell_type": "code",
        "execution_count": count,
        "metadata": {},
        "outputs": outputs or [],
        "source": text.splitlines(keepends=True),
    }


def good_notebook() -> dict:
    """Return 40 cells that keep every rule, with things that look like faults and are none."""
    cells = [
        markdown("# 01 · Who looks back?\n\n20 minutes. Jump to [the end](#What-we-proved)."),
        markdown("In code: `a != b`, `[a](b)`. In equations: $n!$ and $[a](b)$."),
        markdown("Answers fold out.\n<details>" + "word " * 200 + "</details>"),
        markdown("| a | b |\n|---|---|\n" + "| one | two |\n" * 100),
        markdown("```python\nx = 1  # not counted!\n```\nA <b>word</b> and/or two."),
        markdown("## What we proved\n![Two heads side by side](two_heads.png)"),
    ]
    printed = {"output_type": "stream", "name": "stdout", "text": ["half/third 1/2/3\n"]}
    picture = {
        "output_type": "display_data",
        "metadata": {},
        "data": {
            "image/png": "+/aa/bb",
            "text/html": ['<img alt="One" ', 'src="data:image/png;base64,+/aa/bb">'],
        },
    }
    raised = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["no"]}
    cells += [code("x = 1\n\ny = 2", n, [printed, picture]) for n in range(1, 34)]
    cells.append(code("raise ValueError('no')", 34, [raised]))
    cells[-1]["metadata"] = {"tags": ["raises-exception"]}
    return {"cells": cells, "metadata": {}}


FIRST_CODE = 6  # its place in the list of cells


def an_output(**output) -> Callable[[dict], None]:
    """Return a change that gives the first code cell this one output."""
    return lambda nb: nb["cells"][FIRST_CODE].update(outputs=[output])


def a_source(text: str, cell: int = FIRST_CODE) -> Callable[[dict], None]:
    """Return a change that gives one cell this source."""
    return lambda nb: nb["cells"][cell].update(source=[text])


def tagged(tag: str) -> Callable[[dict], None]:
    return lambda nb: nb["cells"][FIRST_CODE]["metadata"].update(tags=[tag])


def longer(lines: int, cells: slice) -> Callable[[dict], None]:
    """Return a change that gives some cells so many lines."""
    return lambda nb: [cell.update(source=["x\n"] * lines) for cell in nb["cells"][cells]]


def html(**data) -> Callable[[dict], None]:
    return an_output(output_type="display_data", metadata={}, data=data)


ERROR = {"output_type": "error", "ename": "KeyError", "evalue": "x", "traceback": []}
STREAM = {"output_type": "stream"}
FAULTS = [
    (rules.every_cell_was_executed, lambda nb: nb["cells"][8].update(execution_count=None), "None"),
    (rules.every_cell_was_executed, lambda nb: nb["cells"][8].update(execution_count=7), "not 1"),
    (rules.every_cell_was_executed, lambda nb: nb.update(cells=nb["cells"][:3]), "make notebooks"),
    (rules.no_cell_escapes_nbval, a_source("# NBVAL_SKIP\nx"), "cell 7 is skipped"),
    (rules.no_cell_escapes_nbval, tagged("nbval-skip"), "cell 7 is skipped"),
    (rules.no_stderr, an_output(**STREAM, name="stderr", text=["Warning: old"]), "Warning: old"),
    (rules.errors_are_announced, an_output(**ERROR), "cell 7 raises KeyError"),
    (rules.errors_are_announced, tagged("raises-exception"), "cell 7 is tagged raises-exception"),
    (rules.no_machine_paths, a_source("open('/home/ada/x.txt')"), "/home/ada"),
    (rules.no_machine_paths, a_source("open('C:\\Users\\ada')"), "C:\\Users"),
    (rules.no_machine_paths, an_output(**STREAM, name="stdout", text=["in /tmp/x1"]), "/tmp/x1"),
    (rules.no_machine_paths, an_output(**ERROR | {"evalue": "/opt/py/a.py"}), "/opt/py"),
    (rules.code_cells_are_short, a_source("x\n" * 16, 10), "cell 11 has 16 lines"),
    (rules.code_cells_are_short, a_source("x\n" * 9), "set-up cell has 9"),
    (rules.code_cells_are_short, longer(5, slice(10, None)), "half of the code cells"),
    (rules.code_cells_are_short, longer(11, slice(10, 12)), "cells 11 and 12 both"),
    (rules.code_fits_beside_a_figure, a_source(f"x = {'1' * 77}"), "cell 7: 81 columns"),
    (rules.images_have_alt_text, a_source("![](a.png)", 1), "a.png has no alt text"),
    (rules.images_have_alt_text, a_source('<img src="a.png" alt="">', 1), "no alt text"),
    (rules.figures_have_alt_text, html(**{"image/png": "aa"}), "cell 7 shows a picture without"),
    (rules.figures_have_alt_text, html(**{"image/svg+xml": "<svg/>"}), "cell 7 shows a picture"),
    (rules.figures_have_alt_text, html(**{"text/html": '<img src="a">'}), "cell 7 shows"),
    (rules.figures_have_alt_text, html(**{"text/html": '<img alt=" " src="a">'}), "cell 7 shows"),
]


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_a_good_notebook_passes(rule):
    assert rule(good_notebook()) == []


@pytest.mark.parametrize(("rule", "change", "message"), FAULTS)
def test_one_fault_is_found(rule, change, message):
    notebook = copy.deepcopy(good_notebook())
    change(notebook)
    problems = rule(json.loads(json.dumps(notebook)))
    assert any(message in problem for problem in problems), problems


def test_every_rule_has_a_fault():
    assert {rule for rule, _, _ in FAULTS} == set(rules.RULES)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[next](02_next.ipynb)", "link 02_next.ipynb leads nowhere"),
        ("[up](#No-such)", "link #No-such names no heading"),
        ("[x]()", "neither a relative path nor https"),
        ("[x](http://example.com)", "neither a relative path nor https"),
        ("![A picture](gone.png)", "image gone.png does not exist"),
        ("![A picture](https://example.com/a.png)", "not a file beside the text"),
        ('<img src="gone.png" alt="A picture">', "image gone.png does not exist"),
        ('<a href="gone.md">x</a>', "link gone.md leads nowhere"),
    ],
)
def test_a_broken_link_is_found(tmp_path, text, problem):
    (tmp_path / "two_heads.png").touch()
    assert rules.links_resolve(good_notebook(), tmp_path) == []
    notebook = good_notebook()
    notebook["cells"][1] = markdown(text)
    assert problem in "\n".join(rules.links_resolve(notebook, tmp_path))
