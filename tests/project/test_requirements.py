"""The requirements fit each other, and the oldest Python that the README names."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from support.notebook_tools import ROOT

FILES = ("requirements.txt", "requirements-dev.txt", "requirements-all.txt", "constraints.txt")
PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
PINS = {
    canonicalize_name(name): version
    for file in FILES
    for name, version in PIN.findall((ROOT / file).read_text(encoding="utf-8"))
}
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_pins_take_the_oldest_python_that_the_readme_names():
    """Debian 12 has Python 3.11.2: a package that wants 3.11.5 stops `make lab` there."""
    (oldest,) = re.findall(r"You need Python (\d+\.\d+) or newer", README)
    seen = 0
    for name in PINS:
        try:
            wanted = metadata(name).get("Requires-Python") or ""
        except PackageNotFoundError:  # for another system
            continue
        seen += 1
        assert f"{oldest}.0" in SpecifierSet(wanted), name
    assert seen > 100


@pytest.mark.parametrize("file", ["pyproject.toml", "attncourse/pyproject.toml"])
def test_what_a_package_requires_is_pinned_in_its_range(file):
    project = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))["project"]
    for requirement in map(Requirement, project["dependencies"]):
        if requirement.name != "attnlib":
            assert PINS[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_reading_a_notebook_compiles_no_grammar():
    """That takes 1.6 seconds, in JupyterLab and in every process that runs a notebook."""
    assert "rfc3987-syntax" not in PINS
