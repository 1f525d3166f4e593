"""The two wheels: what they hold, and that they work where there is no checkout."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from mutants import copy_project
from support.notebook_tools import ROOT

ATTNLIB, ATTNCOURSE = (
    tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]
    for path in ("pyproject.toml", "attncourse/pyproject.toml")
)
SLOW = {"matplotlib", "anywidget", "ipywidgets", "IPython", "PIL", "traitlets", "safetensors"}

# Runs with -I, which hides PYTHONPATH; the target comes before the checkout that is installed
# editable. It imports attnlib, then a panel, then every module, and reads data of each kind.
USE = """
import json, pkgutil, sys
from importlib import import_module
import torch
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
import attnlib
loaded = sorted(set(sys.modules) - before)
from attncourse.panels import STACKED_HEADS
line = STACKED_HEADS.page({"num_heads": 2})["line"]
drawn = sorted(set(sys.modules) - before)
files = []
for package in ("attnlib", "attncourse"):
    path = import_module(package).__path__
    modules = [found.name for found in pkgutil.walk_packages(path, f"{package}.")]
    files += [import_module(name).__file__ for name in (package, *modules)]
from attncourse.classroom.lessons import lessons
from attncourse.learning.record import recorded_model
read = [len(lessons()), len(recorded_model(1200).layers), bool(line)]
print(json.dumps({"loaded": loaded, "drawn": drawn, "files": files, "read": read}))
"""


def run(*arguments: str, cwd: Path) -> str:
    ran = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """Return both wheels, built in a copy of this folder: a build leaves files behind."""
    folder = tmp_path_factory.mktemp("wheels")
    copy = copy_project(ROOT, folder / "copy")
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    command = ["-m", "pip", "wheel", *offline, "--wheel-dir", str(folder)]
    run(*command, ".", "./attncourse", cwd=copy)
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


@pytest.fixture(scope="module")
def target(wheels, tmp_path_factory) -> Path:
    """Return a folder with both wheels in it, without what they require."""
    target = tmp_path_factory.mktemp("target")
    for wheel in wheels.values():
        with ZipFile(wheel) as opened:  # as pip does with a wheel of Python alone
            opened.extractall(target)
    return target


@pytest.mark.parametrize("package", ["attnlib", "attncourse"])
def test_a_wheel_holds_its_package_and_the_course_and_nothing_else(wheels, package):
    with ZipFile(wheels[package]) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
    files = [path for path in (ROOT / package).rglob("*") if path.is_file()]
    aside = ("*.pyc", "*.egg-info/*", "pyproject.toml", "LICENSE", "build/*")
    kept = [path for path in files if not any(map(path.match, aside))]
    course = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "images").glob("*.p*")]
    expected = {path.relative_to(ROOT).as_posix() for path in kept}
    if package == "attncourse":
        folder = "attncourse/classroom/course"
        expected |= {f"{folder}/{path.relative_to(ROOT).as_posix()}" for path in course}
    assert names == expected


def test_the_two_have_one_version_and_one_license():
    assert ATTNCOURSE["version"] == ATTNLIB["version"]
    assert f"attnlib=={ATTNLIB['version']}" in ATTNCOURSE["dependencies"]
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "attncourse" / "LICENSE").read_bytes()


def test_installed_elsewhere_they_import_and_read_their_data(target):
    """How long the import takes is a goal of `make bench`."""
    found = json.loads(run("-I", "-W", "error", "-c", USE, str(target), cwd=target.parent))
    loaded, drawn = ({name.partition(".")[0] for name in found[one]} for one in ("loaded", "drawn"))
    assert loaded - sys.stdlib_module_names <= {"attnlib", "torch"}  # it needs torch alone
    assert drawn & SLOW == set()  # nor does a panel need what is slow to import
    modules = {path for name in ("attnlib", "attncourse") for path in (target / name).rglob("*.py")}
    lessons = target / "attncourse" / "classroom" / "course"
    assert {Path(file) for file in found["files"]} == {
        path for path in modules if lessons not in path.parents
    }
    assert found["read"] == [len(list((ROOT / "notebooks").glob("*.ipynb"))), 2, True]
