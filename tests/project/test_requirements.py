"""The pinned packages install on the oldest Python that the README promises."""

import re
import tomllib
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from support.notebook_tools import ROOT

FILES = ("requirements.txt", "requirements-dev.txt", "constraints.txt")
PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
PINS = {
    canonicalize_name(name): version
    for file in FILES
    for name, version in PIN.findall((ROOT / file).read_text(encoding="utf-8"))
}


@cache
def installed() -> dict[str, PackageMetadata]:
    """Return what the pinned packages say of themselves, as far as they are installed."""
    found = {}
    for name in PINS:
        with suppress(PackageNotFoundError):  # for another system
            found[name] = metadata(name)
    return found


def test_pins_take_the_oldest_python_that_the_readme_names():
    """Debian 12 has Python 3.11.2: a package that wants 3.11.5 stops `make lab` there."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (oldest,) = re.findall(r"You need Python (\d+\.\d+) or newer", readme)
    wanted = {name: found.get("Requires-Python") or "" for name, found in installed().items()}
    assert len(wanted) > 100
    assert {n: w for n, w in wanted.items() if f"{oldest}.0" not in SpecifierSet(w)} == {}


def test_what_is_installed_is_what_is_pinned():
    found = {name: entry["Version"].partition("+")[0] for name, entry in installed().items()}
    assert found == {name: PINS[name] for name in found}


def test_reading_a_notebook_compiles_no_grammar():
    """That takes 1.6 seconds, in JupyterLab and in every process that runs a notebook."""
    assert "rfc3987-syntax" not in PINS


def test_the_floors_of_the_readme_are_those_of_the_package():
    """The workflow runs both."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    ((python, torch),) = re.findall(
        r"into Python (\S+) or newer with PyTorch (\S+) or newer", readme
    )
    assert project["requires-python"] == f">={python}"
    assert f"torch>={torch},<3" in project["dependencies"]
    assert f'torch: "{torch}.*"' in workflow
    assert f'python: ["{python}"]' in workflow
    assert all((ROOT / file).is_file() for file in re.findall(r"tests/\S+?\.py", workflow))
