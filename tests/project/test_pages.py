"""What README and the pages in docs/ say of the code and of the lessons is so."""

import pkgutil
import re
import subprocess
import sys

import pytest

from exercises import find_exercises, insert_answer
from support.exercise_tools import run_cell
from support.notebook_tools import (
    HEADING,
    NOTEBOOKS,
    ROOT,
    START,
    broken_links,
    markdown_cells,
    minutes,
    read,
    source,
    title,
)

README, CONTRIBUTING, CHANGELOG = (
    ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")
)
PAGES = [README, CONTRIBUTING, *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^(`{3,4})(\w+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


def blocks(name: str) -> dict[str, str]:
    return {kind: text for _, kind, text in BLOCK.findall((ROOT / name).read_text("utf-8"))}


def test_the_code_of_the_readme_prints_what_it_says(tmp_path):
    shown = blocks("README.md")
    line = [sys.executable, "-W", "error", "-c", shown["python"]]
    ran = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.stderr, ran.stdout) == ("", shown["text"])


@pytest.mark.parametrize("path", [README, ROOT / "notebooks" / START.name])
def test_the_table_lists_every_notebook_as_it_is(path):
    folder = "notebooks/" if path == README else ""
    text = path.read_text("utf-8") if path == README else source(read(path)["cells"][0])
    row = r"^\| *\[(\d\d)\]\(([^)]+)\) *\| *([^|]*?) *\|.*?(\d+) *\|$"
    expected = []
    for lesson in NOTEBOOKS:
        notebook, number = read(lesson), lesson.name[:2]
        question = re.sub(r"^\d\d\W+", "", title(notebook))
        expected.append((number, f"{folder}{lesson.name}", question, str(minutes(notebook))))
    assert re.findall(row, text, re.MULTILINE) == expected


@pytest.mark.parametrize("path", [*PAGES, CHANGELOG], ids=lambda path: path.name)
def test_links_resolve(path):
    text = path.read_text(encoding="utf-8")
    anchors = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in HEADING.findall(text)}
    assert list(broken_links(text, path.parent, anchors)) == []


@pytest.mark.parametrize("path", [*NOTEBOOKS, *PAGES], ids=lambda path: path.name)
def test_every_name_of_ours_is_there(path):
    """A page that names a module that has moved sends its reader to an ImportError."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n".join(map(source, read(path)["cells"]))
    for name in set(re.findall(r"\battn(?:lib|course)(?:\.[A-Za-z_]\w*)+", text)):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError) as error:
            pytest.fail(f"{name}: {error}")


def test_the_sections_that_teachers_are_sent_to_are_in_the_lessons():
    link = r"\[(\d\d)\]\(\.\./notebooks/[\w.]+\)(?:,| \|) \*(.+?)\*(?=[ ,:]|$)(?: and \*(.+?)\*)?"
    text = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    for number, *sections in re.findall(link, text):
        (lesson,) = (path for path in NOTEBOOKS if path.name.startswith(number))
        prose = "\n".join(text for _, text in markdown_cells(read(lesson)))
        assert not {*sections} - {"", *HEADING.findall(prose)}, number


def test_the_exercise_on_the_page_for_teachers_is_one():
    shown = blocks("docs/teaching.md")
    output = {"output_type": "stream", "text": run_cell(shown["python"], {}, "page")}
    stub = {"cell_type": "code", "id": "a", "source": shown["python"], "outputs": [output]}
    folded = {"cell_type": "markdown", "id": "b", "source": shown["markdown"]}
    (exercise,) = find_exercises({"cells": [stub, folded]})
    assert run_cell(insert_answer(exercise.solution, exercise.stub), {}, "page") == "Right."


def test_a_release_finds_its_notes():
    """Versions are named once, the newest first: it is unreleased or the version of attnlib."""
    versions = re.findall(r"^## \[(.+?)\]", CHANGELOG.read_text("utf-8"), re.MULTILINE)
    (current,) = re.findall(
        r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.M
    )
    assert len(set(versions)) == len(versions)
    assert versions[0] in ("Unreleased", current)
