"""docs/contract.md names for each promise tests that exist, over every class that it is for."""

from __future__ import annotations

import re

import pytest

from support.cases import CASES, SEVERAL_HEADS, Case, name
from support.notebook_tools import ROOT, broken_links

PAGE = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(test_\w+\.py::test_\w+)`")
PROMISE = re.compile(r"^\*\*(\d+)\. .*?(?=^\*\*\d|^## |\Z)", re.MULTILINE | re.DOTALL)
PROMISES = {int(found[1]): NAMED.findall(found[0]) for found in PROMISE.finditer(PAGE)}
NUMBERS = range(1, 22)

OF_ALL_TESTS = {20, 21}
IN_KERNEL = [case for case in CASES if case.in_kernel]
BY_CASE = {6: SEVERAL_HEADS}  # one head has no order
BY_TEST = {4, 8}  # between classes, or of the one that has a cache: the tests' names say which


class Collector:
    """Keep what pytest would run."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.ids = [item.nodeid for item in session.items]


@pytest.fixture(scope="module")
def collected() -> dict[str, set[str]]:
    """Return for each test of the files on the page what it is run with."""
    files = {test.partition("::")[0] for test in NAMED.findall(PAGE)}
    collector = Collector()
    options = ["--collect-only", "--quiet", "--override-ini=addopts=", f"--rootdir={ROOT}"]
    plain = ["-p", "no:cacheprovider", "-p", "no:xdist"]
    code = pytest.main(
        [*options, *plain, *(str(ROOT / "tests" / file) for file in sorted(files))], [collector]
    )
    assert code == pytest.ExitCode.OK
    found: dict[str, set[str]] = {}
    for test in collector.ids:
        test, _, parameters = test.removeprefix("tests/").partition("[")
        found.setdefault(test, set()).add(parameters.removesuffix("]"))
    return found


def test_every_promise_is_there_and_names_a_test():
    assert list(PROMISES) == list(NUMBERS)
    assert all(PROMISES.values())


def test_every_named_test_exists(collected):
    assert set(NAMED.findall(PAGE)) - set(collected) == set()


@pytest.mark.parametrize("number", sorted(set(NUMBERS) - OF_ALL_TESTS - BY_TEST))
def test_a_promise_is_kept_by_every_class(number, collected):
    """Among its tests there is one with the class's name among its parameters."""
    run_with = [parameters for test in PROMISES[number] for parameters in collected[test]]
    for case in BY_CASE.get(number, CASES):
        assert any(stands_for(case, parameters) for parameters in run_with), name(case)


def stands_for(case: Case, parameters: str) -> bool:
    """Say whether the parameters of a test name the class, and not one whose name goes on."""
    return re.search(rf"(^|-){re.escape(name(case))}($|[-,])", parameters) is not None


def test_a_longer_name_is_another_class():
    split = next(case for case in CASES if name(case) == "MultiHeadAttention")
    assert stands_for(split, "2-MultiHeadAttention")
    assert stands_for(split, "MultiHeadAttention, alone")
    assert not stands_for(split, "MultiHeadAttentionWrapper")
    assert not stands_for(split, "FusedMultiHeadAttention")
    assert not stands_for(IN_KERNEL[0], "FusedMultiHeadAttention(num_kv_heads=1)")


def test_the_tests_of_the_contract_are_all_on_the_page(collected):
    """A promise that is kept but not told would be forgotten."""
    files = ("test_contract", "test_torch_compatible_contract", "test_published", "test_properties")
    there = {test for test in collected if test.startswith(files)}
    told_elsewhere = {
        "test_contract.py::test_no_class_of_the_package_is_left_out",
        "test_contract_inputs.py::test_result_has_the_width_of_all_heads",
        "test_properties.py::test_heads_split_and_merged_are_what_they_were",
        "test_published.py::test_published_class_and_ours_agree_where_all_goes_well",
        "test_published.py::test_a_published_state_dict_reaches_the_fused_class_by_way_of_the_split_one",
    }
    assert there - set(NAMED.findall(PAGE)) == told_elsewhere


def test_its_links_resolve():
    assert list(broken_links(PAGE, ROOT / "docs", set())) == []
