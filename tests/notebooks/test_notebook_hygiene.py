"""Every notebook keeps every rule of notebook_tools."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from execute_notebooks import normalize, to_text
from support.notebook_tools import (
    APPENDICES,
    NOTEBOOKS,
    RULES,
    START,
    code_cells,
    links_resolve,
    read,
    source,
)

ALL = [START, *NOTEBOOKS, *APPENDICES]
each_notebook = pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
each_lesson = pytest.mark.parametrize("path", ALL[1:], ids=lambda path: path.stem)


def test_there_are_notebooks():
    assert NOTEBOOKS, "notebooks/ is empty: nothing below was checked"
    assert sorted((START.parent).glob("*.ipynb")) == ALL


@each_notebook
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(path: Path, rule: Callable[[dict], list[str]]):
    problems = rule(read(path))
    assert not problems, "\n".join([path.name, *problems])


@each_notebook
def test_links_resolve(path: Path):
    problems = links_resolve(read(path), path.parent)
    assert not problems, "\n".join([path.name, *problems])


@each_notebook
def test_is_stored_as_make_notebooks_stores_it(path: Path):
    stored = path.read_text(encoding="utf-8")
    assert stored == to_text(normalize(read(path))), f"{path.name}: run `make notebooks`"


@each_lesson
def test_the_cells_of_sliders_run_on_their_own(path: Path):
    """With the imports that they need: whoever comes for the slider runs one cell."""
    for i, cell in code_cells(read(path)):
        for shown in re.findall(r"\b(PanelWidget|LiveWidget)\(([A-Z]\w*)\)", source(cell)):
            for needed in shown:
                assert re.search(rf"^from .* import .*\b{needed}\b", source(cell), re.M), (
                    f"cell {i}"
                )
