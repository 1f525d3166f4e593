"""Every notebook keeps every rule of notebook_tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from execute_notebooks import normalise, to_text
from support.notebook_tools import NOTEBOOKS, RULES, links_resolve, read

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_notebooks():
    assert NOTEBOOKS, "notebooks/ is empty: nothing below was checked"


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
    assert stored == to_text(normalise(read(path))), f"{path.name}: run `make notebooks`"
