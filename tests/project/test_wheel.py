"""The wheel holds the package and the course, nothing else, and works where no checkout is."""

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

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOUSES = ("attnlib", "attncourse")
HEAVY = {"matplotlib", "anywidget", "ipywidgets", "IPython"}
HEAVY |= {"PIL", "traitlets", "safetensors", "tqdm"}
PROJECT = f"{SETTINGS['name']}-{SETTINGS['version']}"

# Run outside the checkout with -I, which hides PYTHONPATH; the target comes before the
# checkout that is installed editable.
USE = """
import json, pkgutil, sys
from importlib import import_module
import torch
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
import attnlib
loaded = sorted(set(sys.modules) - before)
from attncourse.panels import STACKED_HEADS
import attncourse.gpt2
picture = STACKED_HEADS.page({"num_heads": 2})["scenes"][0]["picture"][:4]
drawn = sorted(set(sys.modules) - before)
homes = []
for package in ("attnlib", "attncourse"):
    path = import_module(package).__path__
    modules = [found.name for found in pkgutil.walk_packages(path, f"{package}.")]
    homes += [import_module(name).__file__ for name in (package, *modules)]
from attncourse.classroom.lessons import lessons
from attncourse.gpt2 import recorded
from attncourse.learning.record import recorded_model
found = {
    "loaded": loaded,
    "drawn": drawn,
    "homes": homes,
    "lessons": len(lessons()),
    "words": "".join(recorded("planet").tokens)[:8],
    "layers": len(recorded_model(1200).layers),
    "picture": picture,
}
print(json.dumps(found))
"""


# The same where nothing else is installed than what attnlib asks for: the names of all other
# packages, which follow the target, are not found.
ALONE = """
import runpy, sys
from importlib.machinery import PathFinder
_, target, *others, commands = sys.argv
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name in others else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
sys.path.insert(0, target)
import attnlib, torch
print(attnlib.__file__, attnlib.CausalAttention(5, 3, 7, 0.0)(torch.ones(1, 2, 5)).shape)
for command in commands.split():
    sys.argv = ["attnlib", command, "some.ipynb"]
    try:
        runpy.run_module("attncourse", run_name="__main__")
    except SystemExit as end:
        print(command, end.code == 1 or end, file=sys.stderr)
"""


def run(*arguments: str, cwd: Path) -> str:
    ran = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Return the wheel of a copy of this folder: a build leaves files behind where it runs."""
    folder = tmp_path_factory.mktemp("wheel")
    copy_project(ROOT, folder / "copy")
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    run("-m", "pip", "wheel", *offline, "--wheel-dir", str(folder), "./copy", cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def test_it_holds_the_package_and_the_course_and_nothing_else(wheel):
    with ZipFile(wheel) as opened:
        names = set(opened.namelist())
    held = {Path(name) for name in names if name.startswith(("attnlib/", "attncourse/"))}
    files = [path for folder in HOUSES for path in (ROOT / folder).rglob("*") if path.is_file()]
    kept = [path for path in files if path.suffix != ".pyc" and not path.match("*-quick.json")]
    course = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "images").glob("*.png")]
    lessons = {Path("attncourse/classroom/course") / path.relative_to(ROOT) for path in course}
    assert held == {path.relative_to(ROOT) for path in kept} | lessons
    assert {Path(name).parts[0] for name in names} == {*HOUSES, f"{PROJECT}.dist-info"}


@pytest.fixture(scope="module")
def target(wheel, tmp_path_factory) -> Path:
    """Return a folder in which the wheel is installed, without what it needs."""
    target = tmp_path_factory.mktemp("target")
    with ZipFile(wheel) as opened:  # as pip does with one of Python alone
        opened.extractall(target)
    return target


@pytest.fixture(scope="module")
def found(target) -> dict:
    """Return what a Python tells that imports everything of the wheel, step by step."""
    return json.loads(run("-I", "-W", "error", "-c", USE, str(target), cwd=target.parent))


def test_installed_elsewhere_it_imports_and_reads_its_data(target, found):
    modules = {path for house in HOUSES for path in (target / house).rglob("*.py")}
    assert {Path(home) for home in found["homes"]} == modules
    assert found["lessons"] == len(list((ROOT / "notebooks").glob("*.ipynb")))
    read = {name: found[name] for name in ("words", "layers", "picture")}
    assert read == {"words": "On the d", "layers": 2, "picture": "<svg"}


def test_it_loads_nothing_heavy_and_nothing_of_the_course(found):
    """Nor does a slider's picture, which must be there at once, or what reads GPT-2.

    How long the import takes is a goal of `make bench`.
    """
    loaded, drawn = ({name.partition(".")[0] for name in found[one]} for one in ("loaded", "drawn"))
    assert "attnlib.modules" in found["loaded"]
    assert (loaded | drawn) & HEAVY == set()
    assert "attncourse" not in loaded
    assert {"attncourse.panels", "attncourse.gpt2.model"} <= set(found["drawn"])
    assert not {"torch.distributed.tensor.parallel", "torch.distributed.run"} & set(found["drawn"])


def needs(name: str, seen: set[str]) -> set[str]:
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


def test_attention_needs_torch_alone_and_the_commands_say_what_else(target, tmp_path):
    kept: set[str] = set()
    for line in SETTINGS["dependencies"]:
        needs(canonicalize_name(Requirement(line).name), kept)
    others = [
        top
        for top, owners in packages_distributions().items()
        if top not in HOUSES and kept.isdisjoint(map(canonicalize_name, owners))
    ]
    lacks = {"lab": "jupyterlab", "grade": "ipykernel"}
    assert {"numpy", "matplotlib", "safetensors", "IPython", *lacks.values()} <= set(others)
    line = [sys.executable, "-I", "-c", ALONE, str(target), *others, " ".join(lacks)]
    ran = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert ran.stdout == f"{target / 'attnlib' / '__init__.py'} torch.Size([1, 2, 3])\n"
    for command, one in lacks.items():
        said = f'This needs {one}, which is not installed here; try: pip install "attnlib[course]"'
        assert f"{said}\n{command} True\n" in ran.stderr
    assert not any(tmp_path.iterdir())
