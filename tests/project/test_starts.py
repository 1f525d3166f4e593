"""Where people start: the files for Binder, devcontainers and Colab agree with the course's own."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from badges import COLAB_BRANCH, address, badges
from colab_copies import FIRST, for_colab
from support.notebook_tools import NOTEBOOKS, ROOT, START, read, source

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PINNED = (ROOT / "requirements.txt").read_text(encoding="utf-8")
FILES = [path for name in (".binder", ".devcontainer") for path in (ROOT / name).iterdir()]
FILES.append(ROOT / "tools" / "colab_copies.py")
(OLDEST,) = re.findall(r"You need Python (\d+\.\d+) or newer", README)


def test_binder_has_what_a_learner_needs():
    """The same PyTorch, for the CPU; all else by the file that `make lab` reads."""
    made = yaml.safe_load((ROOT / ".binder" / "environment.yml").read_text(encoding="utf-8"))
    wanted = made["dependencies"]
    (torch,) = re.findall(r"^torch==(\S+)", PINNED, re.MULTILINE)
    assert f"pytorch-cpu={torch}" in wanted
    assert f"python={OLDEST}" in wanted
    assert {"pip": ["-r ../requirements.txt"]} in wanted
    assert (ROOT / ".binder" / "../requirements.txt").is_file()
    after = ROOT / ".binder" / "postBuild"
    commands = re.findall(r"^(?:pip|python).*", after.read_text(), re.MULTILINE)
    assert len(commands) == 3
    for command in commands:  # the Makefile says them in other words
        assert command.replace("pip ", "$(PY) -m pip ").replace("python ", "$(PY) ") in MAKEFILE


def test_a_devcontainer_is_made_by_the_makefile():
    made = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    dockerfile = ROOT / ".devcontainer" / made["build"]["dockerfile"]
    text = dockerfile.read_text(encoding="utf-8")
    assert f"FROM python:{OLDEST}-" in text
    target = made["postCreateCommand"].removeprefix("make ")
    assert re.search(rf"^{target}: ", MAKEFILE, re.MULTILINE)
    for package in re.findall(r"chromium\S*|fonts-\S+", text):
        assert package in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (interpreter,) = made["customizations"]["vscode"]["settings"].values()
    assert interpreter.endswith("/.venv/bin/python")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_names_a_host_to_install_from(path):
    """Whoever has a mirror says so once, in PIP_EXTRA_INDEX_URL."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"https?://|\b[\w-]+\.(?:org|com|io|net)\b", text)


def address_of(*origin: str, folder: Path) -> str | None:
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    for one in origin:
        subprocess.run(["git", "-C", folder, "remote", "add", "origin", one], check=True)
    return address(folder)


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@pytest.mark.parametrize(
    "origin",
    ["https://github.com/a/b", "https://github.com/a/b.git", "git@github.com:a/b.git"],
)
def test_the_address_is_that_of_the_repository(origin, tmp_path, monkeypatch):
    """Of its origin, or of the workflow that runs."""
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert address_of(folder=tmp_path / "none") is None
    assert address_of("/some/folder", folder=tmp_path / "folder") is None
    assert address_of(origin, folder=tmp_path / "one") == "https://github.com/a/b"
    monkeypatch.setenv("GITHUB_REPOSITORY", "c/d")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://code.example")
    assert address(tmp_path / "one") == "https://code.example/c/d"


def test_badges_are_for_the_host_that_colab_and_binder_know():
    name = NOTEBOOKS[0].name
    assert badges(name, None) == badges(name, "https://code.example/c/d") == ""
    colab, binder = re.findall(r"\((https://[^)]+)\)", badges(name, "https://github.com/a/b"))
    assert colab.endswith(f"/github/a/b/blob/{COLAB_BRANCH}/{name}")
    assert f"/gh/a/b/HEAD?urlpath=lab/tree/notebooks/{name}" in binder


@pytest.mark.parametrize("path", [START, *NOTEBOOKS], ids=lambda path: path.stem)
def test_a_copy_for_colab_needs_no_file_beside_it(path):
    stored = read(path)
    copy = for_colab(stored, ROOT / "images", "here")
    assert [cell["id"] for cell in copy["cells"] if cell["id"] != "on-colab"] == [
        cell["id"] for cell in stored["cells"]
    ]
    text = "\n".join(map(source, copy["cells"]))
    assert "../images" not in text
    whole = "\n".join(map(source, stored["cells"]))
    assert text.count("](data:image/png;base64,iVBOR") == whole.count("](../images/")
    assert "git clone --quiet here course" in source(copy["cells"][1])
    assert stored == read(path)


def test_the_first_cell_for_colab_does_nothing_elsewhere(tmp_path):
    cell = FIRST.format(address="nowhere")
    script = f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.system = shell.run_line_magic = lambda *asked: print("asked for", asked)
shell.run_cell({cell!r}).raise_error()
import importlib.util
importlib.util.find_spec = lambda name: None
shell.run_cell({cell!r}).raise_error()
"""
    there = {"cwd": tmp_path, "env": os.environ | {"IPYTHONDIR": str(tmp_path)}}
    line = [sys.executable, "-c", script]
    ran = subprocess.run(line, capture_output=True, text=True, **there)
    assert ran.returncode == 0, ran.stderr
    asked = ran.stdout.strip().splitlines()
    assert len(asked) == 3  # only the second time, without attnlib
    assert "git clone --quiet nowhere course" in asked[0]
    assert "install --quiet ./course ./course/attncourse" in asked[1]
    assert "--require-hashes -r course/requirements-model.txt" in asked[2]
