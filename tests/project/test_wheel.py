"""The two wheels: what they hold, and that they work where there is no checkout."""

import json
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mutants import copy_project
from support.notebook_tools import ROOT

ATTNLIB, ATTNCOURSE = (
    tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]
    for path in ("pyproject.toml", "attncourse/pyproject.toml")
)
HEAVY = {"matplotlib", "anywidget", "ipywidgets", "IPython", "PIL", "traitlets", "safetensors"}

# Runs with -I, which hides PYTHONPATH; the target comes before the checkout that is installed
# editable. It imports attnlib, then a panel, then every module.
USE = """
import json, pkgutil, sys
from importlib import import_module
import torch
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
import attnlib
loaded = sorted(set(sys.modules) - before)
from attncourse.panels import STACKED_HEADS
picture = STACKED_HEADS.page({"num_heads": 2})["scenes"][0]["picture"][:4]
drawn = sorted(set(sys.modules) - before)
files = []
for package in ("attnlib", "attncourse"):
    path = import_module(package).__path__
    modules = [found.name for found in pkgutil.walk_packages(path, f"{package}.")]
    files += [import_module(name).__file__ for name in (package, *modules)]
from attncourse.classroom.lessons import lessons
from attncourse.learning.record import recorded_model
print(json.dumps({
    "loaded": loaded,
    "drawn": drawn,
    "files": files,
    "lessons": len(lessons()),
    "layers": len(recorded_model(1200).layers),
    "picture": picture,
}))
"""

# Runs as where only attnlib and what it requires are installed: the names of all other packages,
# which follow the target, are not found.
ALONE = """
import sys
from importlib.machinery import PathFinder
_, target, *others = sys.argv
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name in others else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
sys.path.insert(0, target)
import attnlib, torch
print(attnlib.__file__, attnlib.CausalAttention(5, 3, 7, 0.0)(torch.ones(1, 2, 5)).shape)
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
    aside = ("*.pyc", "*-quick.json", "*.egg-info/*", "pyproject.toml", "LICENSE", "build/*")
    kept = [path for path in files if not any(map(path.match, aside))]
    course = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "images").glob("*.p*")]
    expected = {path.relative_to(ROOT).as_posix() for path in kept}
    if package == "attncourse":
        folder = "attncourse/classroom/course"
        expected |= {f"{folder}/{path.relative_to(ROOT).as_posix()}" for path in course}
    assert names == expected


def test_the_two_have_one_version_and_one_license(wheels):
    assert f"attnlib=={ATTNLIB['version']}" in ATTNCOURSE["dependencies"]
    assert ATTNCOURSE["version"] == ATTNLIB["version"]
    texts = [ZipFile(wheel).read(_license(wheel)) for wheel in wheels.values()]
    assert texts[0] == texts[1] != b""


def _license(wheel: Path) -> str:
    (name,) = [n for n in ZipFile(wheel).namelist() if n.endswith("licenses/LICENSE")]
    return name


@pytest.fixture(scope="module")
def found(target) -> dict:
    """Return what a Python reports that imports everything in the wheels."""
    return json.loads(run("-I", "-W", "error", "-c", USE, str(target), cwd=target.parent))


def test_installed_elsewhere_they_import_and_read_their_data(target, found):
    modules = {path for name in ("attnlib", "attncourse") for path in (target / name).rglob("*.py")}
    lessons = target / "attncourse" / "classroom" / "course"
    assert {Path(file) for file in found["files"]} == {
        path for path in modules if lessons not in path.parents
    }
    assert found["lessons"] == len(list((ROOT / "notebooks").glob("*.ipynb")))
    assert (found["layers"], found["picture"]) == (2, "<svg")


def test_attnlib_loads_nothing_of_the_course_and_a_panel_nothing_slow(found):
    """How long the import takes is a goal of `make bench`."""
    loaded, drawn = ({name.partition(".")[0] for name in found[one]} for one in ("loaded", "drawn"))
    assert "attnlib" in loaded
    assert "attncourse" not in loaded
    assert (loaded | drawn) & HEAVY == set()


def needs(name: str, seen: set[str]) -> set[str]:
    """Return the packages that one requires, and what these require."""
    if name not in seen:
        seen.add(name)
        try:
            wanted = [Requirement(line) for line in requires(name) or []]
        except PackageNotFoundError:  # for another system
            wanted = []
        for one in wanted:
            if one.marker is None or one.marker.evaluate({"extra": ""}):
                needs(canonicalize_name(one.name), seen)
    return seen


def test_attnlib_needs_torch_alone(target, tmp_path):
    kept: set[str] = set()
    for line in ATTNLIB["dependencies"]:
        needs(canonicalize_name(Requirement(line).name), kept)
    others = [
        top
        for top, owners in packages_distributions().items()
        if top != "attnlib" and kept.isdisjoint(map(canonicalize_name, owners))
    ]
    assert {"numpy", "matplotlib", "safetensors", "IPython"} <= set(others)
    printed = run("-I", "-c", ALONE, str(target), *others, cwd=tmp_path)
    assert printed == f"{target / 'attnlib' / '__init__.py'} torch.Size([1, 2, 3])\n"
