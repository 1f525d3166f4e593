"""Every promise of docs/contract.md is kept by tests, over every class that it is for."""

import re

import pytest

from support.cases import CASES, SEVERAL_HEADS, name
from support.notebook_tools import ROOT

PAGE = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
PROMISES = [int(number) for number in re.findall(r"^\*\*(\d+)\. ", PAGE, re.MULTILINE)]
FOR = {
    4: (),  # of the conversions
    6: SEVERAL_HEADS,  # one head has no order
    8: (),  # of the one class that has a cache
    20: (),  # of all tests
    21: (),  # of the mutants
    23: (),  # of the class that PyTorch's layers take
    25: (),  # of functions
    27: (),  # of the one class that rotates
    31: (),  # by processes, each of which makes its own modules
    32: SEVERAL_HEADS,
    33: (),  # of the conversions
}


class Collector:
    """Keep what pytest would run."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = session.items


@pytest.fixture(scope="module")
def items() -> list[pytest.Item]:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    marked = [str(file) for file in files if "\n@pytest.mark.promise" in file.read_text("utf-8")]
    options = ["--collect-only", "-qq", "--override-ini=addopts=", f"--rootdir={ROOT}"]
    plain = ["-p", "no:cacheprovider", "-p", "no:xdist"]
    collector = Collector()
    assert pytest.main([*options, *plain, *marked], [collector]) == pytest.ExitCode.OK
    return collector.items


def keepers(items: list[pytest.Item], number: int) -> list[pytest.Item]:
    wanted = pytest.mark.promise(number=number).mark
    return [item for item in items if wanted in item.iter_markers()]


def test_every_promise_has_a_test_and_every_marked_test_a_promise(items):
    assert sorted(set(PROMISES)) == PROMISES
    marks = [mark for item in items for mark in item.iter_markers("promise")]
    assert all(mark.args == () and list(mark.kwargs) == ["number"] for mark in marks)
    assert {mark.kwargs["number"] for mark in marks} == set(PROMISES)


@pytest.mark.parametrize("number", PROMISES)
def test_a_promise_is_kept_by_every_class(number, items):
    """Among its tests there is one that takes the class as a parameter."""
    calls = [getattr(item, "callspec", None) for item in keepers(items, number)]
    taken = [value for call in calls if call for value in call.params.values()]
    for case in FOR.get(number, CASES):
        assert any(value is case for value in taken), name(case)
