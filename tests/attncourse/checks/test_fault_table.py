"""The checks of a few lines, and classes without a label: what test inputs leave of their parts."""

import inspect

import pytest
import torch

from attncourse.checks import check_weight_split, short_checks
from attncourse.checks.fault_table import (
    check_found,
    check_part,
    compare_at_test_inputs,
    remaining_parts,
)
from attncourse.checks.short_checks import CHECKS, make, run_checks
from attncourse.examples import journey
from attncourse.variants import faults
from attncourse.variants.faults import ALL_MISTAKES, FAULTS, MYSTERIES, random_faulty_class
from attncourse.variants.mistakes import OnePageAttention
from exercises import find_exercises
from support.caught_mistakes import CAUGHT
from support.notebook_tools import NOTEBOOKS, read

X = journey().inputs[None]
NO_CHECK = dict.fromkeys(("mask with the diagonal", "mask inverted"), "NaN")
NO_CHECK |= {"view without contiguous": "stops"}
MORE = {"mask after softmax": (False, True, True, True), "keys by W_query": (False,) * 3 + (True,)}
each_mistake = pytest.mark.parametrize("mistake", ALL_MISTAKES, ids=lambda mistake: mistake.name)
each_fault = pytest.mark.parametrize(
    ("part", "change"), [(part, change) for part, changes in FAULTS.items() for change in changes]
)


def test_the_right_class_passes_with_any_number_of_heads():
    for num_heads in (1, 2, 4, 8):
        assert set(run_checks(make(OnePageAttention, num_heads), X).values()) == {"passes"}


@each_mistake
def test_checks_of_a_few_lines_say_what_the_long_ones_say(mistake):
    said = run_checks(make(mistake.cls), X)
    if mistake.name in NO_CHECK:
        assert said == dict.fromkeys(CHECKS, NO_CHECK[mistake.name])
        return
    shape, causality, _, equality = (CAUGHT | MORE)[mistake.name]
    found = {name: verdict == "CAUGHT" for name, verdict in said.items()}
    leaks = causality or mistake.name == "both without transpose"
    expected = {"shape": shape, "causality": causality, "prefixes": leaks, "equality": equality}
    assert found == expected


def test_what_is_made_depends_on_the_class_alone():
    torch.manual_seed(7)
    before = torch.get_rng_state()
    right = make(OnePageAttention).state_dict()
    wrong = make(faults.mystery_3).state_dict()
    assert all(torch.equal(weight, wrong[name]) for name, weight in right.items())
    assert torch.equal(torch.get_rng_state(), before)


def test_the_solutions_of_the_page_are_what_the_package_runs():
    """The solutions are the package's checks, but for annotations."""
    (path,) = (path for path in NOTEBOOKS if path.stem.startswith("06"))
    solutions = {each.name: each.solution for each in find_exercises(read(path))}

    def body(text: str) -> str:  # however its lines are broken
        lines = [line.strip() for line in text.splitlines()]
        kept = [line for line in lines if line and not line.startswith(("@", "def", '"""'))]
        return "".join("".join(kept).split())

    for name in ("is_causal", "same_on_prefixes"):
        assert body(solutions[name]) == body(inspect.getsource(getattr(short_checks, name)))


# The mysteries


@pytest.mark.parametrize("cls", [faults.class_b, *MYSTERIES.values(), random_faulty_class(3)])
def test_no_mystery_shows_its_name(cls):
    module = make(cls)
    assert repr(module).startswith(cls.__name__)
    assert not any(mistake.name in repr(module) for mistake in ALL_MISTAKES)
    assert cls.forward.__code__.co_filename == f"<{cls.__name__}>"


@each_fault
def test_every_fault_of_the_hunt_leaves_its_part_alone(part, change):
    """So every case is decidable, and no other part would be an answer as good."""
    cls = faults.faulty_class(change, "Case")
    assert remaining_parts(cls) == [part]
    has_numbers = make(cls)(X).isfinite().all()
    assert run_checks(make(cls), X)["equality"] == ("CAUGHT" if has_numbers else "NaN")
    assert has_numbers or part == "mask and softmax"
    assert not check_weight_split(cls)


def test_the_mysteries_of_the_page_are_decidable_too():
    found = [remaining_parts(cls) for cls in MYSTERIES.values()]
    assert found == [["mask and softmax"], ["queries and keys"], ["merge"], ["scale"]]


def test_what_is_left_of_a_fault_in_two_parts_or_in_none_as_the_page_says():
    """All others of the sheet that run leave the part that they are in."""
    cases = [mistake for mistake in ALL_MISTAKES if mistake.name != "view without contiguous"]
    found = {mistake.name: remaining_parts(mistake.cls) for mistake in cases}
    seen = {mistake.name: set(compare_at_test_inputs(mistake.cls).values()) for mistake in cases}
    unseen = {name for name in found if seen[name] == {"right"}}
    assert unseen == {"minus 1e9", "dropout before softmax", "dropout in eval"}
    nothing = {"minus 1e4", "keys and values swapped"}
    assert {name for name in found if not found[name]} == unseen | nothing
    assert found["both without transpose"] == ["split"]
    assert max(map(len, found.values())) == 1
    swapped = next(mistake for mistake in cases if mistake.name == "keys and values swapped")
    assert str(check_part("values", swapped.cls)).startswith("Not the values: at 'the weights'")
    for name in ("mask with the diagonal", "mask inverted"):
        assert found[name] == ["mask and softmax"]


def test_every_seed_draws_and_every_part_comes():
    seen = {remaining_parts(random_faulty_class(seed))[0] for seed in range(20)}
    assert seen == set(FAULTS)
    assert inspect.signature(random_faulty_class).parameters.keys() == {"seed"}
    assert faults.source_lines(random_faulty_class(5)) == faults.source_lines(
        random_faulty_class(5)
    )


def test_a_part_that_is_not_in_the_table_is_told_which_ones_are():
    said = str(check_part("keys", faults.mystery_2))
    assert said.startswith("'keys' is no part. There are: queries and keys, scale, ")


def test_some_found_and_some_open():
    verdict = check_found({2: "queries and keys", 3: None, 4: "merge"})
    assert not verdict
    assert [line[:20] for line in str(verdict).splitlines()] == [
        "mystery_2: Right, th",
        "mystery_3: not attem",
        "mystery_4: Not the m",
    ]
    assert verdict.answer_or_reference() == {2: "queries and keys", 3: "merge", 4: "scale"}
