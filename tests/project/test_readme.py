"""What the README says is so."""

import ast
import pkgutil
import re
import subprocess
import sys

import pytest

from support.notebook_tools import (
    HEADING,
    NOTEBOOKS,
    ROOT,
    START,
    broken_links,
    code_cells,
    minutes,
    read,
    source,
    title,
)

README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(README)
MOST_LINES = 90  # a page and a half


def block(language: str) -> str:
    (found,) = [text for kind, text in BLOCKS if kind == language]
    return found


def test_it_is_short():
    assert len(README.splitlines()) <= MOST_LINES


def test_its_make_commands_are_targets():
    code = "\n".join(text for _, text in BLOCKS) + "\n".join(re.findall(r"`([^`\n]+)`", README))
    named = set(re.findall(r"\bmake +([a-z]+)\b", code))
    targets = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
    assert {"lab", "book"} <= named <= targets


def test_its_commands_without_make_are_those_of_the_makefile():
    recipe = MAKEFILE.replace("$(VENV)", ".venv").replace(" $(ROOT)", "")
    blocks = BLOCKS + BLOCK.findall(CONTRIBUTING)
    lines = [line for kind, text in blocks if kind == "powershell" for line in text.splitlines()]
    assert lines
    for line in lines:
        command = re.sub(r"^py -3\.\d+ |^\.venv\\Scripts\\(python )?", "", line)
        assert command != line, f"not a call of Python: {line}"
        assert command in recipe, f"the Makefile has no {command}"


def test_its_code_prints_what_it_says(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", block("python")],
        cwd=tmp_path,  # attnlib imports from any folder
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert ran.stdout == block("text")


@pytest.mark.parametrize(
    ("text", "folder"), [(README, "notebooks/"), (source(read(START)["cells"][0]), "")]
)
def test_its_table_lists_every_notebook_as_it_is(text, folder):
    """That of the first page of the course too."""
    row = r"^\| *\[(\d\d)\]\(([^)]+)\) *\| *([^|]*?) *\|.*?(\d+) *\|$"
    rows = re.findall(row, text, re.MULTILINE)
    expected = []
    for path in NOTEBOOKS:
        notebook = read(path)
        number, link = path.name[:2], f"{folder}{path.name}"
        question = re.sub(r"^\d\d\W+", "", title(notebook))
        expected.append((number, link, question, str(minutes(notebook))))
    assert rows == expected


@pytest.mark.parametrize("house", ["attnlib", "attncourse"])
def test_the_two_houses_leave_no_room_out(house):
    (row,) = (line for line in CONTRIBUTING.splitlines() if line.startswith(f"| `{house}/`"))
    rooms = set(re.findall(r"`(\w+)`", row)) - {"attncourse"}  # the command
    inside = (ROOT / house).iterdir()
    have = {path.stem for path in inside if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms == {name for name in have if not name.startswith("__")}


PAGES = [ROOT / name for name in ("CHANGELOG.md", "README.md", "CONTRIBUTING.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_resolve(path):
    text = path.read_text(encoding="utf-8")
    anchors = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in HEADING.findall(text)}
    assert list(broken_links(text, path.parent, anchors)) == []
    assert all(alt for alt in re.findall(r"!\[(.*?)\]", text)), "an image without alt text"


@pytest.mark.parametrize("path", [*NOTEBOOKS, *PAGES[1:]], ids=lambda path: path.name)
def test_every_name_of_ours_is_there(path):
    """A page that names a module that has moved sends its reader to an ImportError.

    The list of changes alone names what was there.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n".join(map(source, read(path)["cells"]))
    for name in set(re.findall(r"\battn(?:lib|course)(?:\.[A-Za-z_]\w*)+", text)):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError) as error:
            pytest.fail(f"{name}: {error}")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_imports_few_names(path):
    cells = [ast.parse(source(cell)) for _, cell in code_cells(read(path))]
    nodes = [node for cell in cells for node in ast.walk(cell) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in nodes if (node.module or "").split(".")[0] == "attncourse"]
    assert len({alias.name for node in ours for alias in node.names}) <= 15
