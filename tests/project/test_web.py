"""What the workflows for the site and for a release would run is there, and does what they need.

A code host cannot be asked here: its actions, Pages and the release itself stay untried.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

import release
from badges import COLAB_BRANCH
from mutants import copy_project
from support.notebook_tools import ROOT, read, source

WORKFLOWS = ROOT / ".github" / "workflows"
MAKE = shutil.which("make")
NOT_MADE = ("-o", ".venv/.learner", "-o", ".venv/.dev")  # as if they had been installed
with_make = pytest.mark.skipif(MAKE is None, reason="needs make")


def steps(workflow: str, job: str) -> list[dict]:
    made = yaml.safe_load((WORKFLOWS / f"{workflow}.yml").read_text(encoding="utf-8"))
    return made["jobs"][job]["steps"]


def commands(workflow: str, job: str) -> str:
    return "\n".join(step["run"] for step in steps(workflow, job) if "run" in step)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy with nothing built in it; its `make` believes in the Python of these tests."""
    folder = copy_project(ROOT, tmp_path_factory.mktemp("bare") / "copy")
    (folder / "bin").mkdir()
    ours = folder / "bin" / "make"
    ours.write_text(f'#!/bin/sh\nexec {MAKE} {" ".join(NOT_MADE)} "PY={sys.executable}" "$@"\n')
    ours.chmod(0o755)
    return folder


def run(script: str, checkout: Path, **environment: str) -> str:
    path = f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=checkout,
        env=os.environ | {"PATH": path, "PYTHONPATH": str(checkout), "MAKEFLAGS": ""} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@with_make
@pytest.mark.parametrize(
    ("workflow", "job", "last"),
    [("site", "build", "tools/links.py build/site"), ("release", "release", "tools/release.py v9")],
)
def test_a_workflow_calls_make_and_make_calls_what_is_there(workflow, job, last, checkout):
    """Without running it: the book is built, and its links are asked, by test_book.py."""
    asked = re.findall(r"^make (?!dev\b).+", commands(workflow, job), re.MULTILINE)
    lines = run("\n".join(asked).replace("make", "make -n"), checkout, GITHUB_REF_NAME="v9")
    called = [line.split(" ", 1)[1] for line in lines.splitlines() if sys.executable in line]
    assert called[:2] == ["tools/book.py", "tools/student_book.py"]
    assert called[-1] == last
    for tool in re.findall(r"tools/\w+\.py", lines):
        assert (checkout / tool).is_file()


def test_what_is_uploaded_is_what_was_built():
    (upload,) = [s for s in steps("site", "build") if "upload-pages" in s.get("uses", "")]
    assert upload["with"]["path"] == "build/site"
    attached = re.findall(r"build/release/\S+", commands("release", "release"))
    assert attached == ["build/release/notes.md", "build/release/*.whl", "build/release/*.zip"]


@with_make
@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_the_copies_for_colab_are_pushed_to_their_branch(checkout, tmp_path):
    """By the workflow's own command, from a bare checkout, over what an earlier one has left."""
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", remote], check=True)
    known = {"GITHUB_SHA": "1", "PUSH_TO": str(remote), "GITHUB_REPOSITORY": "a/b"}
    earlier = "make() { mkdir -p build/colab && touch build/colab/old.ipynb; }\n"
    run(earlier + commands("site", "colab"), checkout, **known)
    shutil.rmtree(checkout / "build")
    run(commands("site", "colab"), checkout, **known)
    asked = ["git", "clone", "--quiet", "--branch", COLAB_BRANCH, remote, tmp_path / "there"]
    subprocess.run(asked, check=True)
    pushed = sorted((tmp_path / "there").glob("*.ipynb"))
    assert [path.name for path in pushed] == [
        p.name for p in sorted(ROOT.glob("notebooks/*.ipynb"))
    ]
    for path in pushed:
        assert "git clone --quiet https://github.com/a/b course" in source(read(path)["cells"][1])


SETTINGS = '[project]\nversion = "0.2.0"\n'
CHANGES = (
    "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n- A.\n\n## [0.1.0]\n"
)


def released(tag: str, folder: Path, changes: str) -> int:
    (folder / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    (folder / "CHANGELOG.md").write_text(changes, encoding="utf-8")
    for name in release.ATTACHED:
        (folder / "build" / name).mkdir(parents=True, exist_ok=True)
        (folder / "build" / name / "page").write_text(name, encoding="utf-8")
    return release.main([tag], folder)


def test_a_release_has_its_text_and_all_that_was_built(tmp_path):
    assert released("v0.2.0", tmp_path, CHANGES) == 0
    made = tmp_path / "build" / "release"
    assert (made / "notes.md").read_text(encoding="utf-8") == "### Added\n\n- A.\n"
    for name in release.ATTACHED:
        with ZipFile(made / f"attention-0.2.0-{name}.zip") as opened:
            assert opened.read("page").decode() == name


@pytest.mark.parametrize(
    ("tag", "changes", "said"),
    [
        ("v0.3.0", CHANGES, "the tag 'v0.3.0' is not the version of pyproject.toml, 0.2.0; "),
        ("v0.2.0", CHANGES.replace("0.2.0", "0.2"), "CHANGELOG.md says nothing under ## [0.2.0]; "),
    ],
)
def test_a_release_that_does_not_fit_its_tag_is_refused(tag, changes, said, tmp_path, capsys):
    assert released(tag, tmp_path, changes) == 1
    assert capsys.readouterr().out.startswith(said)
    assert not (tmp_path / "build" / "release").exists()


def test_the_changelog_has_what_a_release_would_say():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert release.notes(changelog, "Unreleased").startswith("### ")
