"""Where people start: the files for Binder, devcontainers and Colab agree with the course's own."""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml

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
    assert len(commands) == 2
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


def test_badges_open_what_is_there():
    """Their addresses have a place for the owner and the name of the repository."""
    targets = re.findall(r"https://(?:mybinder|colab)\S+?(?=[\s)`])", README)
    assert len(targets) == 2, targets
    for target in targets:
        assert "OWNER/REPOSITORY" in target
        (opened,) = re.findall(r"[\w/]*notebooks/\w+\.ipynb", target)
        assert (ROOT / "notebooks" / opened.rpartition("/")[2]).is_file()


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
    assert len(asked) == 2  # only the second time, without attnlib
    assert "git clone --quiet nowhere course" in asked[0]
    assert 'install --quiet "./course[course]"' in asked[1]
