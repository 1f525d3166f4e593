"""The exercise checks on many styles of writing: right ones pass, and each slip gets its line."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest
import torch
from torch import nn

from attncourse.checks import (
    Verdict,
    check_causal,
    check_causal_attention,
    check_rows_sum_to_one,
    check_same,
    check_shapes,
    check_stacked_heads,
    check_weight_split,
)
from attncourse.checks.guard import TimeIsUp, time_limit
from attnlib import CausalAttention, FusedMultiHeadAttention, MultiHeadAttention
from support.many_styles import EINSUM, STYLES
from support.odd_classes import HIDDEN_FAULTS, RIGHT
from support.wrong_classes import ONE_HEAD, SPLIT, STACKED, change, write

SLIPS = [
    pytest.param(style, slip, id=f"{name}-{what}")
    for name, style in STYLES.items()
    for what, slip in style.slips.items()
]


def examine(text: str, changes=(), **options) -> Verdict:
    for right, wrong in changes:
        assert right in text
        text = text.replace(right, wrong)
    if "self.heads" in text:
        return check_stacked_heads(write(text), **options)
    several = re.search("num_heads|n_head", text)
    return (check_weight_split if several else check_causal_attention)(write(text), **options)


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_every_style_is_right(style):
    verdict = style.check(write(style.text), **style.options)
    assert verdict.sentence.startswith("Mine is right: ")
    assert verdict


@pytest.mark.parametrize(("style", "slip"), SLIPS)
def test_a_slip_gets_its_cause_and_its_line(style, slip):
    verdict = style.check(change(style.text, slip.right, slip.wrong), **style.options)
    assert not verdict
    assert re.match(slip.code, verdict.code), verdict.sentence
    words = slip.line or (slip.wrong.strip() or "-").splitlines()[-1][:25]
    if slip.line != "-":
        assert verdict.line is not None
        assert " ".join(words.split()) in verdict.line.text
        assert verdict.line.text in verdict.sentence


@pytest.mark.parametrize("name", HIDDEN_FAULTS)
def test_what_one_usual_run_does_not_show(name):
    text, changes, code, words = HIDDEN_FAULTS[name]
    seconds = 1.0 if "endless" in name or "sleeps" in name else 30.0
    verdict = examine(text, changes, seconds=seconds)
    assert not verdict
    assert re.match(code, verdict.code), verdict.sentence
    if words:
        assert verdict.line is not None
        assert words in verdict.line.text


@pytest.mark.parametrize("name", RIGHT)
def test_right_classes_pass_whatever_they_look_like(name):
    text, changes, options = RIGHT[name]
    verdict = examine(text, changes, **options)
    assert verdict.sentence.startswith("Mine is right: ")
    assert verdict
    assert verdict.faults == verdict.not_asked == ()


def test_what_a_class_prints_is_not_shown(capsys):
    assert examine(*RIGHT["prints"][:2])
    assert capsys.readouterr() == ("", "")


def test_settings_are_as_before():
    threads = torch.get_num_threads()
    for name in ("default dtype", "grad off for all"):
        examine(*HIDDEN_FAULTS[name][:2])
        assert torch.get_default_dtype() == torch.float32
        assert torch.is_grad_enabled()
        assert torch.get_num_threads() == threads


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

    import threading

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
    text = SPLIT.replace(" * self.width**-0.5", "").replace("self.drop(scores", "(scores")
    verdict = check_weight_split(write(text))
    assert (verdict.code, verdict.question) == ("scale.none", "scale")
    assert str(verdict.line) == ("Mine.forward, line 6: scores = queries @ keys.transpose(2, 3)")
    assert [fault.code for fault in verdict.faults] == ["scale.none", "dropout.none"]
    assert "whole" in verdict.not_asked
    assert verdict.sentence == f"In {verdict.line} | {verdict.faults[0].cause}"
    assert verdict.notes == ()


def test_a_note_with_a_code_stays_out_of_the_sentence():
    verdict = check_causal_attention(change(ONE_HEAD, "if num_tokens > len(self.mask)", "if False"))
    assert verdict
    assert (verdict.code, verdict.question, verdict.line) == ("", "", None)
    assert "Note" not in verdict.sentence
    assert verdict.notes[0].code == "mask.broadcasts"
    assert "With context_length=1 more than one token passes" in verdict.notes[0]


def test_questions_can_be_left_out():
    wrong = change(SPLIT, "self.drop(scores.softmax(dim=-1))", "scores.softmax(dim=-1)")
    assert check_weight_split(wrong).code == "dropout.none"
    assert check_weight_split(wrong, skip=("dropout in training", "dropout by number"))
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


def test_what_is_none_of_them_is_refused_in_words():
    with pytest.raises(TypeError, match="give a module, its class, or a function that makes one"):
        check_causal("MultiHeadAttention")
    assert check_weight_split(3).code == "not.a-class"


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
    module = renamed(3, 4, 6, 0.0, 2)
    assert check_rows_sum_to_one(module, names={"W_value": "to_v"})
    with pytest.raises(ValueError, match="if it is called otherwise: names="):
        check_rows_sum_to_one(module)


def test_a_name_leads_to_a_list_of_heads_called_otherwise():
    renamed = write(STACKED.replace("self.heads", "self.attention_heads"))
    assert not check_stacked_heads(renamed)
    assert check_stacked_heads(renamed, names={"heads": "attention_heads"})


def test_a_fused_projection_needs_no_names():
    assert check_weight_split(FusedMultiHeadAttention)


def test_a_short_mask_is_no_trouble_for_shapes_that_are_given():
    module = write(ONE_HEAD)(3, 2, 4, 0.0)
    assert not check_shapes(module)
    assert check_shapes(module, torch.ones(1, 4, 3))
