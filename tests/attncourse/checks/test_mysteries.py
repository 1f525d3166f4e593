"""The four checks as a learner writes them, and six classes without a label."""

import inspect
from itertools import product

import pytest
import torch

from attncourse.checks import by_hand, mysteries
from attncourse.checks.by_hand import CHECKS, PROBES, ask, differs, make
from attncourse.checks.mysteries import (
    ALL_MISTAKES,
    EVERYWHERE,
    HIDDEN,
    MORE,
    PARTS,
    THE_WEIGHTS,
    WITH_ONE_HEAD,
    changed_lines,
    check_found,
)
from attncourse.classroom.exercises import find_exercises
from attncourse.examples import journey
from attncourse.variants.mistakes import MISTAKES, Mistake, OnePageAttention
from support.notebook_tools import NOTEBOOKS, code_cells, read, source
from support.wrong_classes import CAUGHT

X = journey().inputs[None]
NO_CHECK = {
    "mask with the diagonal": "NaN",
    "mask inverted": "NaN",
    "view without contiguous": "stops",
}
each_mistake = pytest.mark.parametrize("mistake", ALL_MISTAKES, ids=lambda mistake: mistake.name)


def test_the_right_class_passes_with_any_number_of_heads():
    for num_heads in (1, 2, 4, 8):
        assert set(ask(make(OnePageAttention, num_heads), X).values()) == {"passes"}


@each_mistake
def test_four_checks_of_a_few_lines_say_what_the_long_ones_say(mistake):
    said = ask(make(mistake.cls), X)
    if mistake.name in NO_CHECK:
        assert said == dict.fromkeys(CHECKS, NO_CHECK[mistake.name])
        return
    more = {
        "mask after softmax": (False, True, True, True),
        "keys by W_query": (False, False, False, True),
    }
    caught = (CAUGHT | more)[mistake.name]
    assert tuple(verdict == "CAUGHT" for verdict in said.values()) == caught


def test_what_is_made_depends_on_the_class_alone():
    torch.manual_seed(7)
    before = torch.get_rng_state()
    right = make(OnePageAttention).state_dict()
    wrong = make(mysteries.mystery_3).state_dict()
    assert all(torch.equal(weight, wrong[name]) for name, weight in right.items())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_check_changes_neither_module_nor_tokens(check):
    module, x = make(OnePageAttention), X.clone()
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    check(module, x)
    assert torch.equal(x, X)
    assert all(torch.equal(before[name], now) for name, now in module.state_dict().items())
    assert not module.W_value._forward_hooks


def test_the_page_shows_what_the_package_runs():
    """The solution is the package's check, but for annotations; the others are shown by it."""
    (path,) = (path for path in NOTEBOOKS if path.stem.startswith("06"))
    solutions = {each.name: each.solution for each in find_exercises(read(path))}

    def body(text: str) -> list[str]:
        lines = [line.strip() for line in text.splitlines()]
        return [line for line in lines if line and not line.startswith(("@", "def", '"""'))]

    assert body(solutions["is_causal"]) == body(inspect.getsource(by_hand.is_causal))
    code = "\n".join(source(cell) for _, cell in code_cells(read(path)))
    assert all(
        f"show_source(checks.{name})" in code for name in ("has_full_rows", "equals_stacked")
    )


# The mysteries


def test_no_mystery_shows_its_name():
    for title, name in HIDDEN.items():
        cls = next(c for c in (mysteries.class_b, *mysteries.MYSTERIES) if c.__name__ == title)
        module = make(cls)
        assert name not in repr(module)
        assert repr(module).startswith(title)
        assert cls.forward.__code__.co_filename == f"<{title}>"


@pytest.mark.parametrize("title", HIDDEN)
def test_a_mystery_is_the_mistake_that_it_hides(title):
    cls = next(c for c in (mysteries.class_b, *mysteries.MYSTERIES) if c.__name__ == title)
    mistake = next(m for m in ALL_MISTAKES if m.name == HIDDEN[title])
    told = [line.replace(title, "OnePageAttention") for line in mysteries.page(cls)]
    assert told == mistake.text.splitlines()
    lines = str(mysteries.opened(cls)).splitlines()
    comes = [line[1:] for line in lines if line.startswith("+")]
    right = [(i, mysteries.page()[i - 1].partition("  #")[0]) for i in sorted(changed_lines(cls))]
    assert comes == [f" {number:2}  {line}" for number, line in right]
    goes = [line[1:].lstrip(" 0123456789") for line in lines if line.startswith("-")]
    assert all(
        line in mistake.text and line not in inspect.getsource(OnePageAttention) for line in goes
    )


def test_a_mystery_with_a_name_of_its_own_is_no_other():
    assert len(set(HIDDEN.values())) == len(HIDDEN)
    assert len(MISTAKES) + len(MORE) == len(ALL_MISTAKES) == 22


def test_every_line_that_computes_has_a_part_and_a_sentence():
    silent = [i for i, line in enumerate(mysteries.page(), 1) if mysteries._part(line) is None]
    assert silent == [1, 2, 3, 4, 5, 8, 9, 10, 11, 16, 22, 28]
    for number in range(1, 7):
        for line in range(30):
            said = str(check_found({number: line}))
            assert said.startswith(f"mystery_{number}: ")
            assert said.startswith(f"mystery_{number}: right") == (
                line in changed_lines(mysteries.MYSTERIES[number - 1])
            )


AS_GOOD = [(number, line) for number, lines in mysteries.AS_GOOD.items() for line in lines]
HALF = {6: "merge without transpose", 25: "split without transpose", 26: "split without transpose"}


@pytest.mark.parametrize(("number", "line"), AS_GOOD)
def test_a_line_that_is_as_good_makes_the_same_class(number, line):
    """No input can tell them apart, since they compute the same, bit for bit."""
    half = next(m for m in ALL_MISTAKES if m.name == HALF[line]) if number == 5 else None
    right = mysteries.page()[line - 1].partition("  #")[0].strip()
    other = Mistake("other", "", right, mysteries.AS_GOOD[number][line], after=half).cls
    for num_heads in (1, 2, 4):
        made = (make(cls, num_heads) for cls in (mysteries.MYSTERIES[number - 1], other))
        (its, its_weights), (mine, my_weights) = (each(X, return_weights=True) for each in made)
        assert torch.equal(its, mine)
        assert torch.equal(its_weights, my_weights)
    verdict = check_found({number: line})
    assert verdict
    said = str(verdict)
    assert said.startswith(f"mystery_{number}: as good as right. The slip is in line")


def test_what_is_not_a_number_of_a_line_gets_a_sentence():
    said = "mystery_2: '12' is not the number of a line. Give one as it is on the page, like 17."
    assert str(check_found({2: "12"})) == said


@each_mistake
def test_what_a_part_is_said_to_show_and_to_hide_is_true(mistake):
    """No mistake shows where its part cannot matter; each that the four checks see shows."""
    if mistake.name in NO_CHECK or mistake.after is not None:
        return
    lines = [line.partition("  #")[0].strip() for line in mysteries.page()]
    part = PARTS[mysteries._part(lines[lines.index(mistake.right)])]
    wrong = {place for place in EVERYWHERE if differs(mistake.cls, PROBES[place[0]], place[1])}
    assert not wrong & set(part.blind)
    if part.makes_weights and wrong:
        assert wrong & set(THE_WEIGHTS)
    if not part.knows_heads and wrong:
        assert wrong & set(WITH_ONE_HEAD)
    assert not part.shows or not wrong or wrong & set(part.shows)


def test_who_blames_a_line_is_never_told_what_is_not_so():
    """Where every probe is right, or none speaks against the line, the sentence says just that."""
    allowed = {(1, 12), (1, 19), (3, 15), (4, 13), (4, 14), (4, 17)}
    lines = [i for i, line in enumerate(mysteries.page(), 1) if mysteries._part(line)]
    for number, line in product(range(1, 7), lines):
        said = str(check_found({number: line}))
        assert ("no probe can speak against it" in said) == (number == 6 and line != 21)
        assert ("every probe fits it" in said) == ((number, line) in allowed)


def test_values_that_are_viewed_look_like_a_merge_without_transpose():
    """All that the probes and the four checks say is the same: line 15 cannot be refuted."""
    viewed = "values = values.view(b, self.num_heads, num_tokens, self.head_dim)"
    other = Mistake("viewed", "", "values = self.split(values)", viewed).cls
    assert ask(make(other), X) == ask(make(mysteries.mystery_3), X)
    for probe, num_heads in EVERYWHERE:
        said = (differs(cls, PROBES[probe], num_heads) for cls in (other, mysteries.mystery_3))
        assert len(set(said)) == 1


def test_a_mystery_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="found has no mystery 7: they are 1 to 6"):
        check_found({7: 3})
