"""The diagnosis of a class: right ones pass, in many styles, and each wrong one gets its cause."""

# ruff: noqa: E501  # tables: one case on a line

import re
import subprocess
import sys
import threading
import time

import pytest
import torch
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
from attncourse.checks.diagnosis import conditions, trial
from attncourse.checks.guard import TimeIsUp, time_limit
from attncourse.checks.module_factory import ModuleFactory
from attncourse.variants.mistakes import OnePageAttention
from attnlib import (
    CausalAttention,
    FusedMultiHeadAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
)
from support import behind_classes, odd_classes
from support.many_styles import EINSUM, STYLES
from support.planted_classes import Planted
from support.wrong_classes import (
    CASES,
    ONE_HEAD,
    SPLIT,
    STACKED,
    WITHOUT_MASK,
    WRONG_HEADS,
    change,
    several,
    write,
)

SLIPS = [
    pytest.param(style, slip, id=f"{name}-{what}")
    for name, style in STYLES.items()
    for what, slip in style.slips.items()
]


def place(verdict):
    line = verdict.line
    return f"{line.function.rpartition('.')[2]} {line.number}" if line is not None else ""


# Right classes

ONE_DEVICE = several(SPLIT, ("-torch.inf, dtype", "-torch.inf, device=x.device, dtype"))
PARTS = "is right: no token sees a later one, outputs and gradients are those of attnlib's"
END = ", and in training dropout falls on single attention weights."


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
    assert verdict.sentence == f"{cls.__name__} {PARTS} {right}{END}"
    assert verdict.faults == verdict.notes == verdict.not_asked == ()


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_every_style_is_right(style):
    verdict = style.check(write(style.text), **style.options)
    assert verdict, verdict.sentence


@pytest.mark.parametrize("text", [ONE_HEAD, WITHOUT_MASK, STACKED, SPLIT])
def test_classes_with_other_private_parts_pass(text):
    verdict = Planted("", text, {}, {}).examine()
    assert verdict, verdict.sentence


@pytest.mark.parametrize("text", behind_classes.BASES)
def test_the_classes_are_right_before_they_are_changed(text):
    verdict = Planted("", text, {}, behind_classes.NOTEBOOK).examine()
    assert verdict, verdict.sentence


@pytest.mark.parametrize("name", odd_classes.RIGHT)
def test_right_classes_pass_whatever_they_look_like(name):
    text, pairs, options = odd_classes.RIGHT[name]
    for right, wrong in pairs:
        assert right in text
        text = text.replace(right, wrong)
    verdict = Planted("", text, options, {}).examine()
    assert verdict, verdict.sentence
    assert verdict.faults == verdict.not_asked == ()


FLOAT32 = "In bfloat16 it stops in forward, line {}: something is made in float32"


@pytest.mark.parametrize(
    ("text", "pairs", "note"),
    [
        (ONE_HEAD, [("-torch.inf", "-1e9")], "In float16 it stops in forward, line 8: a number is too large for it"),
        (ONE_DEVICE, [(", dtype=x.dtype", "")], FLOAT32.format(7)),
        (ONE_DEVICE, [("torch.full((t, t), -torch.inf, device=x.device, dtype=x.dtype).triu(1)", "(1 - torch.ones(t, t, device=x.device).tril()) * -1e9")], FLOAT32.format(7)),
        (ONE_DEVICE, [("return self.out_proj(context)", "return self.out_proj(context).to(torch.promote_types(x.dtype, torch.float32))")], FLOAT32.format(10)),
        (ONE_DEVICE, [("context = (weights @ values)", "part = torch.empty(*values.shape, device=x.device)\n        part[:] = weights @ values\n        context = part")], FLOAT32.format(9)),
    ],
)  # fmt: skip
def test_what_is_right_in_the_dtype_of_the_exercise_is_right_with_a_note(text, pairs, note):
    """The line is the one that made it, not the one at which two dtypes met."""
    verdict = Planted("", several(text, *pairs), {}, {}).examine()
    assert verdict, verdict.sentence
    assert note in verdict.sentence
    assert [said.startswith(note) for said in verdict.notes] == [True]
    assert len(verdict.sentence) <= 300


@pytest.mark.parametrize(
    "pair",
    [
        ("scores = scores + torch.full((t, t), -torch.inf, device=x.device, dtype=x.dtype).triu(1)", "scores.masked_fill_(torch.ones(t, t).triu(1).bool(), -torch.inf)"),
        (", device=x.device", ""),
    ],
)  # fmt: skip
def test_a_tensor_made_without_the_device_of_x_gets_a_note(pair):
    verdict = Planted("", several(ONE_DEVICE, pair), {}, {}).examine()
    assert verdict, verdict.sentence
    assert "Note: On another device it stops in forward, line 7: " in verdict.sentence
    assert Planted("", ONE_DEVICE, {}, {}).examine().notes == ()


def test_rows_that_are_made_to_sum_to_1_again_are_right_with_a_note():
    again = several(
        ONE_DEVICE,
        ("-torch.inf, device", "0.0, device"),
        (
            "weights = self.drop(scores.softmax(dim=-1))",
            "weights = scores.softmax(dim=-1).tril()\n"
            "        weights = self.drop(weights / weights.sum(dim=-1, keepdim=True))",
        ),
    )
    verdict = check_weight_split(write(again))
    assert verdict, verdict.sentence
    assert len(verdict.notes) == 1
    assert "0 / 0 is NaN" in verdict.notes[0]
    assert f" Note: {verdict.notes[0]}" in verdict.sentence


def test_a_right_class_costs_no_recording_and_no_other_device(monkeypatch):
    """Both take long, and what they would find is nothing."""
    monkeypatch.setattr(trial, "Recording", None)
    monkeypatch.setattr(conditions, "Devices", None)
    for check, cls in (
        (check_causal_attention, CausalAttention),
        (check_weight_split, OnePageAttention),
    ):
        assert check(cls)


def test_a_module_is_recorded_by_a_twin_with_the_same_numbers():
    pair = trial.Trial(ModuleFactory(MultiHeadAttention), MultiHeadAttention)
    mine, _ = pair.build()
    before = torch.get_rng_state()
    recording, _ = pair.record(mine, pair.usual_x())
    assert torch.equal(torch.get_rng_state(), before)
    for weight in mine.parameters():
        made = recording.operations[recording.number_of(weight)]
        assert made.parents
        assert torch.equal(made.values, weight)


# Wrong classes


@pytest.mark.parametrize(
    ("check", "text", "pair", "kind", "where"),
    [(check, text, *case) for check, text, _, *case in CASES],
    ids=[what for _, _, what, *_ in CASES],
)
def test_one_line_gone_wrong(check, text, pair, kind, where):
    verdict = check(change(text, *pair))
    assert not verdict
    assert (verdict.code, place(verdict)) == (kind, where), verdict.sentence


@pytest.mark.parametrize("what", ["mask inverted", "no root", "over the queries", "none"])
def test_a_wrong_head_gets_the_same_verdict_in_a_stack(what):
    pair, kind, where = WRONG_HEADS[what]
    verdict = check_stacked_heads(write(STACKED, head=change(ONE_HEAD, *pair)))
    assert (verdict.code, place(verdict)) == (kind, where), verdict.sentence


@pytest.mark.parametrize(("style", "slip"), SLIPS)
def test_a_slip_gets_its_cause_and_its_line(style, slip):
    verdict = style.check(change(style.text, slip.right, slip.wrong), **style.options)
    assert verdict.code == slip.kind, verdict.sentence
    words = slip.line or (slip.wrong.strip() or "-").splitlines()[-1][:25]
    if slip.line != "-":
        assert verdict.line is not None
        assert " ".join(words.split()) in verdict.line.text


@pytest.mark.parametrize("name", odd_classes.HIDDEN_FAULTS)
def test_what_one_usual_run_does_not_show(name):
    text, pairs, kind, words = odd_classes.HIDDEN_FAULTS[name]
    for right, wrong in pairs:
        assert right in text
        text = text.replace(right, wrong)
    seconds = 1.0 if "endless" in name or "sleeps" in name else 30.0
    verdict = Planted("", text, {"seconds": seconds}, {}).examine()
    assert not verdict
    assert verdict.code == kind, verdict.sentence
    assert words in (verdict.line.text if verdict.line else "")


@pytest.mark.parametrize("name", behind_classes.BEHIND)
def test_the_line_and_the_cause_behind_a_fault(name):
    text, pairs, kind, words, outside = behind_classes.BEHIND[name]
    verdict = Planted("", several(text, *pairs), {}, outside).examine()
    assert not verdict
    assert verdict.code == kind, verdict.sentence
    assert words in (verdict.line.text if verdict.line else "")


# What the checks leave alone


@pytest.mark.parametrize("text", [SPLIT, SPLIT.replace("triu(1)", "triu(0)")])
def test_no_global_randomness_is_used(text):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = check_weight_split(write(text))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert check_weight_split(write(text)).faults == first.faults


def test_what_a_class_prints_is_not_shown(capsys):
    text, pairs, _ = odd_classes.RIGHT["prints"]
    assert check_weight_split(write(several(text, *pairs)))
    assert capsys.readouterr() == ("", "")


def test_settings_are_as_before():
    threads = torch.get_num_threads()
    for name in ("default dtype", "grad off for all"):
        text, pairs, *_ = odd_classes.HIDDEN_FAULTS[name]
        assert not check_weight_split(write(several(text, *pairs)))
        assert torch.get_default_dtype() == torch.float32
        assert torch.is_grad_enabled()
        assert torch.get_num_threads() == threads
    assert torch.get_default_device() == torch.device("cpu")


def test_the_check_passes_under_another_default_dtype_and_where_gradients_are_off():
    torch.set_default_dtype(torch.float64)
    try:
        verdict = check_weight_split(MultiHeadAttention)
    finally:
        torch.set_default_dtype(torch.float32)
    assert verdict
    with torch.no_grad():
        assert check_causal_attention(CausalAttention)


def test_time_is_limited_in_every_thread():
    began = time.monotonic()
    caught = []

    def loop() -> None:
        try:
            with time_limit(0.1):
                while True:
                    time.sleep(0.01)
        except TimeIsUp:
            caught.append(True)

    thread = threading.Thread(target=loop)
    thread.start()
    thread.join(timeout=20)
    assert caught
    assert time.monotonic() - began < 20


TRACED_AFTERWARDS = """
import sys, threading, time
from attncourse.checks.guard import TimeIsUp, time_limit

def run(seconds, works):
    try:
        with time_limit(seconds):
            end = time.monotonic() + works
            while time.monotonic() < end:
                time.sleep(0)
    except TimeIsUp:
        pass

def work():
    for i in range(30):
        run(0.001 * (i % 3), 0.002)
    run(60, 0)  # in time: nothing is sent

def traced(x):
    return x

thread = threading.Thread(target=work)
thread.start()
thread.join()
sys.settrace(lambda *what: None)
print(traced(7))
"""


def test_after_a_time_limit_functions_can_be_traced():
    """Python 3.11 waits for ever where an exception for a thread was sent and never arrived."""
    command = [sys.executable, "-c", TRACED_AFTERWARDS]
    assert subprocess.check_output(command, text=True, timeout=120) == "7\n"


# What a verdict carries


def test_a_verdict_carries_all_faults_the_line_and_what_was_not_asked():
    text = several(SPLIT, (" * self.width**-0.5", ""), ("self.drop(scores", "(scores"))
    verdict = check_weight_split(write(text))
    assert (verdict.code, verdict.question) == ("scale.none", "whole")
    assert str(verdict.line) == "Mine.forward, line 6: scores = queries @ keys.transpose(2, 3)"
    assert [fault.code for fault in verdict.faults] == ["scale.none", "dropout.none"]
    assert {"large scores", "dropout by number"} <= set(verdict.not_asked)
    assert verdict.notes == ()
    assert "multiplied by 1, and 1 / sqrt(width) = 0.2294" in verdict.more
    assert verdict.more not in repr(verdict)
    assert re.search("<details>.*0.2294.*</details>", verdict._repr_html_())
    assert "<details" not in check_weight_split(MultiHeadAttention)._repr_html_()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("self.drop(scores.softmax(dim=-1))", "scores.softmax(dim=-1).mean(1, True)"),
        ("(weights @ values)", "(weights.mT @ values)"),
        ("scores.softmax(dim=-1)", "scores.softmax(dim=1)"),
    ],
)
def test_dropout_is_not_blamed_for_an_earlier_fault(right, wrong):
    codes = [fault.code for fault in check_weight_split(change(SPLIT, right, wrong)).faults]
    assert not {code for code in codes[1:] if code.startswith("dropout.")} - {"dropout.none"}


def test_a_bias_that_is_never_used_does_not_hide_another_fault():
    wrong = several(ONE_HEAD, ("scores = scores / keys.shape[-1] ** 0.5", "pass"))
    wrong = wrong.replace("bias=qkv_bias", "bias=False")
    codes = [fault.code for fault in check_causal_attention(write(wrong)).faults]
    assert codes == ["scale.none", "parameters.bias-never"]


def test_a_mask_that_is_brought_along_may_be_an_attribute():
    own = several(
        ONE_HEAD,
        ('self.register_buffer("mask", mask)', "self.mask = mask"),
        ("self.mask.bool()[", "self.mask.to(x.device).bool()["),
    )
    assert check_causal_attention(write(own))


def test_questions_can_be_left_out():
    wrong = change(SPLIT, "self.drop(scores.softmax(dim=-1))", "scores.softmax(dim=-1)")
    assert check_weight_split(wrong).code == "dropout.none"
    skip = ("dropout at all", "dropout in training", "dropout by number")
    assert check_weight_split(wrong, skip=skip[1:]).code == "dropout.none"
    assert check_weight_split(wrong, skip=skip)
    with pytest.raises(ValueError, match="skip='scales' is neither a question nor an argument"):
        check_weight_split(wrong, skip=("scales",))


# The door


def test_a_class_a_function_and_a_module_are_taken_alike():
    module = MultiHeadAttention(6, 6, 3, 0.0, 2)
    for given in (MultiHeadAttention, lambda **sizes: MultiHeadAttention(**sizes), module):
        assert check_weight_split(given)
        assert check_causal(given)
        assert check_shapes(given)
        assert check_rows_sum_to_one(given)
        assert check_same(given, given)
    assert check_weight_split(FusedMultiHeadAttention)  # one projection needs no names


def test_what_is_none_of_them_is_refused_in_words():
    with pytest.raises(TypeError, match="give a module, its class, or a function that makes one"):
        check_causal("MultiHeadAttention")
    for thing in (6, int, "Mine"):
        assert check_weight_split(thing).code == "not.a-class"


def test_a_class_that_cannot_be_made_gets_a_sentence():
    class Broken(nn.Module):
        def __init__(self, d_in):
            super().__init__()
            self.part = nn.Linear(d_in, 1 / 0)

        def forward(self, x):
            return x

    for check in (check_causal, check_shapes, check_rows_sum_to_one):
        verdict = check(Broken)
        assert not verdict
        assert "ZeroDivisionError: division by zero." in verdict.sentence
        assert "It was made with d_in=11." in verdict.sentence
    assert not check_same(Broken, CausalAttention)


def test_names_lead_to_parameters_called_otherwise():
    renamed = write(EINSUM.replace("W_value", "to_v"))
    refused = check_weight_split(renamed)
    assert refused.code == "parameters.missing"
    assert 'names={"W_value": "..."}' in refused.sentence
    assert check_weight_split(renamed, names={"W_value": "to_v"})
    heads = write(STACKED.replace("self.heads", "self.attention_heads"))
    assert not check_stacked_heads(heads)
    assert check_stacked_heads(heads, names={"heads": "attention_heads"})


def test_a_class_without_source_gets_a_sentence_too():
    space = {"nn": nn}
    exec("class Bare(nn.Module):\n    def __init__(self, **sizes): 1 / 0\n", space)
    space["Bare"].forward = lambda self, x: x
    assert "ZeroDivisionError: division by zero." in check_causal_attention(space["Bare"]).sentence
