"""Every exercise can be solved, and a wrong answer is told what is wrong with it."""

import re
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
import torch

from attncourse import checks
from attncourse.checks import module_checks
from attncourse.checks.exercises import exercise_check, value_check
from attncourse.checks.safe_run import NOT_ATTEMPTED
from attncourse.checks.verdict import Verdict
from attnlib import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper, causal_mask
from exercises import find_exercises
from support.exercise_tools import answers_to, mismatch, outcomes, run_cell
from support.notebook_tools import APPENDICES, NOTEBOOKS, markdown_cells, read

EXERCISED = [*NOTEBOOKS, *(path for path in APPENDICES if answers_to(path.stem))]
PATHS = {path.stem: path for path in EXERCISED}
ANSWERS = {stem: answers_to(stem) for stem in PATHS}
CASES = [(stem, name) for stem, exercises in ANSWERS.items() for name in exercises]


@cache
def printed(stem: str) -> dict[tuple[str, str], str]:
    """Return what the checks of one notebook print, by exercise and answer."""
    return outcomes(read(PATHS[stem]), ANSWERS[stem])


@pytest.mark.parametrize("path", EXERCISED, ids=lambda path: path.stem)
def test_every_exercise_has_answers_and_every_answer_its_exercise(path: Path):
    exercises = find_exercises(read(path))
    assert 2 <= len(exercises) <= 10
    assert list(ANSWERS[path.stem]) == [exercise.name for exercise in exercises]
    assert all(answers.wrong for answers in ANSWERS[path.stem].values())
    # the empty lines are what makes GitHub show the inside as Markdown
    folded = re.compile(r"<details>\s*<summary>Hint</summary>\n\n.*?\n\n</details>", re.DOTALL)
    texts = (text for _, text in markdown_cells(read(path)))
    assert sum(len(folded.findall(text)) for text in texts) == len(exercises)


@pytest.mark.parametrize(("stem", "name"), CASES)
def test_the_check_tells_stub_solution_and_wrong_answers_apart(stem, name):
    given = ANSWERS[stem][name]
    labels = ("stub", *given.wrong, "solution")
    found = {label: mismatch(given, label, printed(stem)[name, label]) for label in labels}
    assert {label: problem for label, problem in found.items() if problem} == {}


# test_exercise_checks has these
CLASSES = ("CausalAttention", "MultiHeadAttentionWrapper", "MultiHeadAttention")


@pytest.mark.parametrize("stem", [stem for stem in ANSWERS if ANSWERS[stem]])
def test_no_sentence_is_long(stem):
    told = [text for (name, _), text in printed(stem).items() if name not in CLASSES]
    lines = [line for text in told for line in text.splitlines() if not line.startswith("Stopped")]
    assert max(map(len, lines)) <= 300


# exercise_check: whatever a learner's function does, it is told in a sentence.


@exercise_check(reference=lambda number: 2 * number)
def check_double(double):
    """Return whether double doubles, in a sentence."""
    mine = double(torch.ones(2, 3))
    if mine.shape != (2, 3):
        return f"The shape is {tuple(mine.shape)}, not (2, 3)."
    return Verdict(True, "Right.") if mine.equal(torch.full((2, 3), 2.0)) else "Not twice."


CANNOT = "The check cannot use what <lambda> returns, "


def stub(*given):
    raise NotImplementedError


def no_return(x):
    x * 2


def does_not_fit(x):
    y = x @ x
    return y


def no_forward(x):
    return torch.nn.ModuleList()(x)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (stub, NOT_ATTEMPTED),
        (lambda x: x + x, "Right."),
        (lambda x: x * x, "Not twice."),
        (lambda x: x.T, "The shape is (3, 2), not (2, 3)."),
        (no_return, "no_return returns None: is the return missing?"),
        (lambda x: [x], f"{CANNOT}a list: 'list' object has no attribute 'shape'"),
        (lambda x: 2, f"{CANNOT}an int: 'int' object has no attribute 'shape'"),
        (lambda x: OSError(), f"{CANNOT}an OSError: 'OSError' object has no attribute 'shape'"),
    ],
)
def test_the_sentence(written, sentence):
    assert str(check_double(written)) == sentence


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        (does_not_fit, ["line 2: y = x @ x", "cannot be multiplied", "x (2, 3)"]),
        (no_forward, ["NotImplementedError", "missing the required"]),
        (lambda: 1, ["TypeError", "takes 0 positional arguments but 1 was given"]),
    ],
)
def test_an_exception_becomes_a_sentence(written, parts):
    said = str(check_double(written))
    assert all(part in said for part in parts), said
    assert "\n" not in said


def test_a_name_that_the_check_lacks_is_not_told_to_the_learner():
    """The learner's function has run when the check stumbles over itself."""
    space = {}
    exec("def check(double):\n    double(2)\n    exepcted\n", space)
    with pytest.raises(NameError, match="'exepcted' is not defined"):
        exercise_check(reference=None)(space["check"])(lambda number: 2 * number)


def test_a_name_that_the_learner_lacks_is_told_to_the_learner():
    """Here in a function that the learner's function returns, and that the check calls."""

    @exercise_check(reference=lambda number: 2 * number)
    def check_maker(make):
        return make()(2)

    space = {}
    exec(compile("def make():\n    return lambda n: n * factor\n", "<learner>", "exec"), space)
    start = "The check cannot use what make returns, a function: name 'factor' is not defined"
    assert str(check_maker(space["make"])).startswith(start)


def test_the_verdict_on_a_function_says_how_it_came_about():
    double, crash, untouched = map(check_double, (lambda x: x + x, does_not_fit, stub))
    assert (bool(double), double.code, double.line) == (True, "", None)
    assert (bool(crash), crash.code, crash.line.text) == (False, "error.shapes", "y = x @ x")
    assert crash.cause.startswith("The shapes that meet here do not fit: x (2, 3).")
    assert "x (2, 3)" in crash.more
    assert (bool(untouched), untouched.code) == (False, "stub")


def test_the_course_has_a_function_where_the_learner_has_none():
    def right(x):
        return x + x

    assert check_double(right).answer_or_reference() is right
    assert check_double(stub).answer_or_reference()(3) == 6
    assert check_double(lambda x: x).answer_or_reference()(3) == 6
    with pytest.raises(ValueError, match="only a check of an exercise knows an answer"):
        Verdict(True, "Causal.").answer_or_reference()


def test_a_value_is_checked_like_a_function():
    @value_check(reference=lambda number: 2 * number)
    def check_twice(mine, number):
        return Verdict(True, "Right.") if mine == 2 * number else "Not twice."

    none, wrong, right = (check_twice(mine, number=3) for mine in (None, 5, 6.0))
    assert [str(said) for said in (none, wrong, right)] == [NOT_ATTEMPTED, "Not twice.", "Right."]
    assert [said.code for said in (none, wrong, right)] == ["stub", "", ""]
    assert [type(said.answer_or_reference()) for said in (none, wrong, right)] == [int, int, float]


SCORES = torch.randn(3, 2, 6, 6, generator=torch.Generator().manual_seed(2))
USED = (SCORES.double() / 64**0.5).masked_fill(causal_mask(6), -torch.inf).softmax(dim=-1)


class Unwritten(MultiHeadAttention):
    def forward(self, x):
        raise NotImplementedError


NOTHING_YET = {  # what each check takes from a learner who has written nothing
    "check_scores_row": (None, torch.randn(2, 3, 5), torch.randn(2, 3, 5), 1, 2),
    "check_weights_row": (None, torch.randn(3), 1, 5),
    "check_broken_steps": (None,),
    "check_found": ({2: None, 3: None, 4: None},),
    "check_part": (None, checks.mystery_2),
    "check_fused": (Unwritten,),
    "check_causal_weights": (stub, SCORES, USED),
    "check_refuting": (None,),
}
OF_CLASSES = {
    "check_causal_attention": CausalAttention,
    "check_stacked_heads": MultiHeadAttentionWrapper,
    "check_weight_split": MultiHeadAttention,
}
EVERY = {name for name in dir(checks) if name.startswith("check_")} - {*dir(module_checks)}
EVERY -= {"check_repair"}  # its stubs are ten: test_repairs has them
NOTHING_YET |= dict.fromkeys(sorted(EVERY - NOTHING_YET.keys() - OF_CLASSES.keys()), (stub,))


@pytest.mark.parametrize("name", NOTHING_YET)
def test_what_the_course_puts_in_place_of_an_answer_is_right(name):
    check, (nothing, *beside) = getattr(checks, name), NOTHING_YET[name]
    verdict = check(nothing, *beside)
    assert str(verdict) == NOT_ATTEMPTED
    assert verdict.code == "stub"
    right = check(verdict.answer_or_reference(), *beside)
    assert right, right
    assert "Note" not in str(right)


@pytest.mark.parametrize("name", OF_CLASSES)
def test_in_place_of_a_class_stands_that_of_attnlib(name):
    assert getattr(checks, name)(None).answer_or_reference() is OF_CLASSES[name]


# A function that raises NotImplementedError: untouched, or with lines of the learner's own.


LEFT = "Your lines stop at `raise NotImplementedError`: delete that line."
RAISE = "    raise NotImplementedError\n"
COPIED = "    later = deepcopy(x)\n"


def written(lines: str) -> Callable[..., object]:
    """Return a function whose text is kept, as of a cell."""
    run_cell(f"def f(x):\n{lines}", space := {"deepcopy": deepcopy, "torch": torch}, "<cell>")
    return space["f"]


@pytest.mark.parametrize(
    "lines",
    [
        f'    """Return twice x."""\n{RAISE}    return x',
        f"{COPIED}    with torch.no_grad():\n    {RAISE}    return later",
        f"    # y = 2 * x\n{RAISE}",
        f"    for y in range(2):\n        y += x\n        # your lines: y\n    {RAISE}",
    ],
)
def test_an_untouched_stub_is_not_attempted(lines):
    assert str(check_double(written(lines))) == NOT_ATTEMPTED


@pytest.mark.parametrize(
    "lines",
    [
        f"    y = 2 * x\n{RAISE}    return y",
        f"{RAISE}    return 2 * x",
        f"    y = 2 * x\n    # your lines: y\n    y += 1\n{RAISE}",
        f"{COPIED}    copied = deepcopy(later)\n{RAISE}    return copied",
        f"    with torch.no_grad():\n        x.add_(x)\n    {RAISE}    return x",
    ],
)
def test_a_line_of_the_stub_that_was_left_is_named(lines):
    assert str(check_double(written(lines))).endswith(LEFT)


def test_of_a_function_whose_text_nobody_kept_no_lines_are_known():
    space = {}
    exec("def unread(x):\n    y = 2 * x\n    raise NotImplementedError\n", space)
    assert str(check_double(space["unread"])) == NOT_ATTEMPTED


def calls_what_is_not_there(x):
    return 2 * torch.distributions.Distribution(validate_args=False).rsample()


def test_what_a_library_leaves_unwritten_is_an_error():
    said = str(check_double(calls_what_is_not_there))
    assert said.endswith("Distribution(validate_args=False).rsample() | NotImplementedError.")
