"""The diagnosis of a class: right ones pass, and each wrong one gets its line and its cause."""

# ruff: noqa: E501  # a table: one case on a line

import threading
import time

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from torch import nn

from attncourse.checks import (
    check_causal,
    check_causal_attention,
    check_rows_sum_to_one,
    check_same,
    check_shapes,
    check_stacked_heads,
    check_weight_split,
)
from attncourse.checks.guard import TimeIsUp, time_limit
from attncourse.variants.mistakes import OnePageAttention
from attnlib import (
    CausalAttention,
    FusedMultiHeadAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
)
from support.learner_classes import (
    ONE_BUFFER,
    RIGHT,
    SPLIT_COURSE,
    SPLIT_GPT,
    SPLIT_LOOP,
    STACK_LINE,
    WRONG,
    several,
    write,
)

ONE, SPLIT, STACK = ONE_BUFFER[1], SPLIT_COURSE[1], STACK_LINE[1]


def without_blanks(text):
    return "".join(text.split()).replace("'", '"')


def changed(text, right, wrong):
    return write(several(text, {right: wrong}))


# Right classes

RIGHT_WORDS = "is right: no token attends to a later one, outputs and gradients are those of"


@pytest.mark.parametrize(
    ("check", "cls", "right"),
    [
        (check_causal_attention, CausalAttention, "CausalAttention"),
        (check_stacked_heads, MultiHeadAttentionWrapper, "MultiHeadAttentionWrapper"),
        (check_weight_split, OnePageAttention, "MultiHeadAttention"),
    ],
)
def test_our_classes_pass(check, cls, right):
    verdict = check(cls)
    assert verdict
    end = ", and in training dropout falls on single attention weights."
    assert verdict.sentence.endswith(f"{cls.__name__} {RIGHT_WORDS} attnlib's {right}{end}")
    assert verdict.sentence.startswith("This is the course's own") == (cls.__name__ == right)
    assert verdict.faults == verdict.notes == ()


@pytest.mark.parametrize("name", RIGHT)
def test_right_classes_pass(name):
    check, text = RIGHT[name]
    verdict = check(write(text))
    assert verdict, verdict.sentence
    assert verdict.faults == verdict.notes == ()


@pytest.mark.parametrize(
    ("text", "right", "wrong", "note"),
    [
        (ONE, "-torch.inf", "-1e9", "In float16 it stops in Mine.forward, line 10"),
        (
            SPLIT,
            ", device=x.device",
            "",
            "A tensor is made without device=x.device in Mine.forward",
        ),
        (
            ONE,
            "torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)",
            "torch.softmax((attn_scores / keys.shape[-1] ** 0.5).float(), dim=-1)",
            "In bfloat16 it stops in Mine.forward, line 11",
        ),
        (SPLIT, "        assert d_out % num_heads", "        assert 1 or d_out % num_heads", ""),
    ],
)
def test_what_no_exercise_asks_for_is_a_note(text, right, wrong, note):
    check = check_causal_attention if text is ONE else check_weight_split
    verdict = check(changed(text, right, wrong))
    assert verdict, verdict.sentence
    assert note in verdict.sentence


# Wrong classes


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.name)
def test_a_wrong_class_gets_its_line_and_its_cause(case):
    verdict = case.base[0](write(case.text))
    assert verdict.code == case.code, verdict.sentence
    quoted = verdict.line.text if verdict.line else " ".join(verdict.notes)
    assert not verdict or verdict.notes
    lines = [without_blanks(line) for line in case.lines()]
    assert any(line in without_blanks(quoted) for line in lines), verdict.sentence


FIRST = "        b, num_tokens, d_in = x.shape\n"
PROJECTED = "context_vec = self.out_proj(context_vec)"
HIDDEN = {  # what one usual run does not show, or what stops it
    "endless": (FIRST, f"{FIRST}        while True:\n            b = b + 0\n", "time"),
    "exits": (FIRST, f"{FIRST}        raise SystemExit(1)\n", "error"),
    "numpy": ("return context_vec", "return context_vec.detach().numpy()", "result.type"),
    "no grad": ("    def forward", "    @torch.no_grad()\n    def forward", "gradient"),
    "x in place": (FIRST, f"{FIRST}        x.add_(0.0)\n", "x.in-place"),
    "jitter": (PROJECTED, f"{PROJECTED} + torch.randn(1)", "wrong"),
    "a counter": (
        FIRST,
        f"{FIRST}        self.n = getattr(self, 'n', 0) + 1\n        x = x if self.n < 2 else 2 * x\n",
        "state",
    ),
    "too high a number": ("-torch.inf", "-1e4", "mask.not-low"),
    "by value": ("mask.bool()", "attn_scores.triu(1) != 0", "mask.leaks"),
    "tied": ("        self.out_proj", "        self.W_key = self.W_query\n        self.out_proj", "parameters.missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", HIDDEN)
def test_what_one_usual_run_does_not_show(name):
    right, wrong, code = HIDDEN[name]
    verdict = check_weight_split(
        changed(SPLIT, right, wrong), seconds=1.0 if code == "time" else 30
    )
    assert not verdict
    assert verdict.code == code, verdict.sentence


def test_a_wrong_size_on_self_is_told_at_the_line_that_sets_it():
    verdict = check_weight_split(changed(SPLIT, "d_out // num_heads", "d_out // num_heads + 1"))
    assert verdict.line.text == "self.head_dim = d_out // num_heads + 1"
    assert "must be head_dim = 23" in verdict.sentence


# What the checks leave alone


def test_the_same_class_gets_the_same_answer_and_no_global_randomness_is_used():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    cls = changed(SPLIT, "diagonal=1", "diagonal=0")
    first = check_weight_split(cls)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert check_weight_split(cls) == first


def test_what_a_class_prints_and_sets_is_gone_afterwards(capsys):
    threads = torch.get_num_threads()
    noisy = f"{FIRST}        print('x')\n        torch.set_grad_enabled(False)\n"
    assert not check_weight_split(changed(SPLIT, FIRST, noisy))
    assert capsys.readouterr() == ("", "")
    assert torch.is_grad_enabled()
    assert torch.get_num_threads() == threads
    assert torch.get_default_dtype() == torch.float32


def test_the_check_passes_under_another_default_dtype_and_where_gradients_are_off():
    torch.set_default_dtype(torch.float64)
    try:
        assert check_weight_split(MultiHeadAttention)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        assert check_causal_attention(CausalAttention)


def test_time_is_limited_in_the_main_thread():
    began = time.monotonic()
    try:
        with time_limit(0.1):
            time.sleep(20)
    except TimeIsUp:
        pass
    assert time.monotonic() - began < 10
    done = []
    thread = threading.Thread(
        target=lambda: done.append(bool(check_causal_attention(CausalAttention)))
    )
    thread.start()
    thread.join(timeout=60)
    assert done == [True]


# What a verdict carries


def test_a_verdict_carries_all_faults_and_details():
    pairs = {" / keys.shape[-1] ** 0.5": "", "attn_weights = self.dropout(attn_weights)": "pass"}
    verdict = check_weight_split(write(several(SPLIT, pairs)))
    assert (verdict.code, verdict.question) == ("scale.none", "whole")
    assert [fault.code for fault in verdict.faults] == ["scale.none", "dropout.none"]
    assert "multiplied by 1, and 1 / sqrt(width) = 0.2085" in verdict.more
    assert verdict.more not in repr(verdict)
    assert "<details" in verdict._repr_html_()
    assert "<details" not in check_weight_split(MultiHeadAttention)._repr_html_()


def test_questions_can_be_left_out():
    wrong = changed(SPLIT, "self.dropout(attn_weights)", "attn_weights")
    skip = ("dropout at all", "dropout in training", "dropout by number")
    assert check_weight_split(wrong, skip=skip[1:]).code == "dropout.none"
    assert check_weight_split(wrong, skip=skip)
    with pytest.raises(ValueError, match="skip='scales' is neither a question nor an argument"):
        check_weight_split(wrong, skip=("scales",))


# What a check may be given


def test_a_class_a_function_and_a_module_are_taken_alike():
    module = MultiHeadAttention(6, 6, 3, 0.0, 2)
    for given in (MultiHeadAttention, lambda **sizes: MultiHeadAttention(**sizes), module):
        assert check_weight_split(given)
        assert check_causal(given)
        assert check_shapes(given)
        assert check_rows_sum_to_one(given)
        assert check_same(given, given)
    assert check_weight_split(FusedMultiHeadAttention)  # one projection needs no names
    for thing in (6, int, "Mine"):
        assert check_weight_split(thing).code == "given.type"


def test_names_lead_to_parameters_called_otherwise():
    renamed = write(SPLIT_GPT[1].replace("W_value", "to_v"))
    refused = check_weight_split(renamed)
    assert refused.code == "parameters.missing"
    assert 'names={"W_value": "..."}' in refused.sentence
    assert check_weight_split(renamed, names={"W_value": "to_v"})
    heads = write(STACK.replace("self.heads", "self.parts"))
    assert not check_stacked_heads(heads)
    assert check_stacked_heads(heads, names={"heads": "parts"})


def test_a_class_without_source_gets_a_sentence_too():
    space = {"nn": nn}
    exec("class Bare(nn.Module):\n    def __init__(self, **sizes): 1 / 0\n", space)
    space["Bare"].forward = lambda self, x: x
    said = check_causal_attention(space["Bare"])
    assert "ZeroDivisionError: division by zero." in said.sentence


# A check judges what its own cell defines


@pytest.fixture
def cell():
    """Return a function that runs a cell of a notebook and returns what the check said."""
    shell = InteractiveShell()
    shell.run_cell(
        "import torch, math\nimport torch.nn.functional as F\nfrom torch import nn\n"
        "from attncourse import checks\nfrom attnlib import MultiHeadAttention"
    )

    def run(text):
        assert shell.run_cell(text).error_in_exec is None
        return shell.user_ns["said"]

    return run


def test_a_mistyped_name_is_not_answered_with_an_older_class(cell):
    said = cell(
        "class MultiheadAttention(nn.Module):\n    def forward(self, x):\n        return x\n\n"
        "said = checks.check_weight_split(MultiHeadAttention)"
    )
    assert said.code == "given.elsewhere"
    assert "does not define MultiHeadAttention: it is attnlib's own" in said.sentence
    mine = SPLIT_LOOP[1].replace("class Mine", "class MultiHeadAttention")
    assert cell(f"{mine}\n\nsaid = checks.check_weight_split(MultiHeadAttention)")
    wrong = "def swap(module):\n    return module\n\n\nsaid = checks.check_swapped_heads({})"
    assert cell(wrong.format("swap")).code == ""
    said = cell(wrong.replace("swap(", "swop(").format("swap"))
    assert "it was defined before. The cell defines swop." in said.sentence
    assert cell("said = checks.check_weight_split(MultiHeadAttention)")  # a cell of its own
