"""What the README says is so."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from support.notebook_tools import (
    HEADING,
    NOTEBOOKS,
    ROOT,
    START,
    broken_links,
    minutes,
    read,
    source,
    title,
)

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(README)


def block(language: str) -> str:
    """Return the one code block of this language."""
    (found,) = [text for kind, text in BLOCKS if kind == language]
    return found


def test_its_make_commands_are_targets():
    code = "\n".join(text for _, text in BLOCKS) + "\n".join(re.findall(r"`([^`\n]+)`", README))
    named = set(re.findall(r"\bmake +([a-z]+)\b", code))
    targets = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
    assert {"lab", "test"} <= named <= targets


def test_its_first_commands_are_lab_and_test():
    language, text = BLOCKS[0]
    assert language == "sh"
    assert re.findall(r"^make (\w+)", text, re.MULTILINE) == ["lab", "test"]


def test_its_commands_without_make_are_those_of_the_makefile():
    recipe = MAKEFILE.replace("$(VENV)", ".venv").replace(" $(ROOT)", "")
    lines = [line for kind, text in BLOCKS if kind == "powershell" for line in text.splitlines()]
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


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_resolve(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    anchors = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in HEADING.findall(text)}
    assert list(broken_links(text, ROOT, anchors)) == []
    assert all(alt for alt in re.findall(r"!\[(.*?)\]", text)), "an image without alt text"


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


def tree() -> list[str]:
    """Return the paths of the tree, folders with a slash at the end."""
    paths, folder = [], ""
    for line in block("tree").splitlines():
        name = line.split("#")[0].strip()
        paths.append((folder if line.startswith(" ") else "") + name)
        if not line.startswith(" "):
            folder = name
    return paths


def test_its_tree_exists():
    for name in tree():
        path = ROOT / name
        assert path.is_dir() if name.endswith("/") else path.is_file(), f"{name} does not exist"


@pytest.mark.parametrize("folder", ["", "attnlib/"])
def test_its_tree_leaves_nothing_out(folder):
    """Of the top level, and of the package: every file and every folder."""
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()]
    names = [name.removeprefix(folder) for name in tree() if name.startswith(folder)]
    shown = {Path(name).parts[0] for name in names if name}
    there = {
        path.name
        for path in (ROOT / folder).iterdir()
        if path.name != ".git" and not any(fnmatch(path.name, mark) for mark in ignored)
    }
    assert shown == there


def test_its_map_of_attnlib_is_the_order_of_the_imports():
    """The linter's layers from the bottom up; what shares a layer may stand in any order."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (entry["layers"] for entry in contracts["contracts"] if "layers" in entry)
    names = [name.removeprefix("attnlib/") for name in tree() if name.startswith("attnlib/")]
    shown = [Path(name).stem for name in names if name not in ("", "__init__.py", "py.typed")]
    for layer in layers[::-1]:
        members = set(layer.split(" | "))
        assert set(shown[: len(members)]) == members
        del shown[: len(members)]
    assert shown == []


def sources(path: Path) -> str:
    """Return all that a reader reads in a page, or writes in a notebook."""
    if path.suffix != ".ipynb":
        return path.read_text(encoding="utf-8")
    return "\n".join("".join(cell["source"]) for cell in read(path)["cells"])


PAGES = [*NOTEBOOKS, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]
PAGES += sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_name_of_attnlib_is_there(path):
    """A page that names a module that has moved sends its reader to an ImportError."""
    for name in set(re.findall(r"\battnlib(?:\.[A-Za-z_]\w*)+", sources(path))):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError) as error:
            pytest.fail(f"{name}: {error}")


def test_a_notebook_needs_few_paths():
    """The core, its examples and the folders around it: no reader must know files."""
    imports = r"^(?:from|import) (attnlib[\w.]*)"
    paths = {name for path in NOTEBOOKS for name in re.findall(imports, sources(path), re.M)}
    assert len(paths) <= 10, sorted(paths)
