"""The exercise checks: right classes pass, wrong ones get the sentence that names their line."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from attncourse.checks.attempt import REMEDIES, describe
from attncourse.checks.exercises import (
    check_causal_attention,
    check_stacked_heads,
    check_weight_split,
)
from attncourse.checks.mistakes import OnePageAttention
from attncourse.tracing.tracer import locate
from attnlib import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper
from support.wrong_classes import (
    CASES,
    ONE_HEAD,
    SDPA,
    SPLIT,
    STACKED,
    WITHOUT_MASK,
    WRONG_HEADS,
    change,
    write,
)

# Right classes

PARTS = "is right: no token sees a later one, outputs and gradients are those of attnlib's"
END = ", and in training dropout falls on single attention weights."


@pytest.mark.parametrize(
    ("check", "cls", "sentence"),
    [
        (
            check_causal_attention,
            CausalAttention,
            f"CausalAttention {PARTS} CausalAttention{END}",
        ),
        (
            check_stacked_heads,
            MultiHeadAttentionWrapper,
            f"MultiHeadAttentionWrapper {PARTS} MultiHeadAttentionWrapper{END}",
        ),
        (
            check_weight_split,
            OnePageAttention,
            f"OnePageAttention {PARTS} MultiHeadAttention{END}",
        ),
    ],
)
def test_our_classes_pass(check, cls, sentence):
    verdict = check(cls)
    assert verdict
    assert verdict.sentence == sentence


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (check_causal_attention, ONE_HEAD),
        (check_causal_attention, WITHOUT_MASK),
        (check_stacked_heads, STACKED),
        (check_weight_split, SPLIT),
        (check_weight_split, SDPA),
    ],
    ids=["one head", "without a mask", "stacked", "split", "SDPA"],
)
def test_classes_with_other_private_parts_pass(check, text):
    verdict = check(write(text))
    assert verdict.sentence.startswith("Mine is right: ")
    assert verdict


def test_the_check_passes_under_another_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        verdict = check_weight_split(MultiHeadAttention)
    finally:
        torch.set_default_dtype(torch.float32)
    assert verdict


def test_the_check_passes_where_gradients_are_off():
    with torch.no_grad():
        assert check_causal_attention(CausalAttention)


# What the checks leave alone


@pytest.mark.parametrize("text", [SPLIT, SPLIT.replace("triu(1)", "triu(0)")])
def test_no_global_randomness_is_used(text):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = check_weight_split(write(text)).sentence
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert check_weight_split(write(text)).sentence == first


def test_gradients_stay_on_or_off_and_the_default_device_stays():
    check_causal_attention(CausalAttention)
    assert torch.is_grad_enabled()
    assert torch.get_default_device() == torch.device("cpu")


# Stubs

SIGNATURE = "self, d_in, d_out, context_length, dropout, num_heads=1, qkv_bias=False"
STUBS = {
    "a class that says pass": "class Mine(nn.Module):\n    pass",
    "a forward that says pass": f"""\
class Mine(nn.Module):
    def __init__({SIGNATURE}):
        super().__init__()

    def forward(self, x):
        pass
""",
    "a forward that says ...": ONE_HEAD[: ONE_HEAD.index("    def forward")].replace(
        "dropout, qkv_bias", "dropout, num_heads=1, qkv_bias"
    )
    + "    def forward(self, x):\n        ...\n",
    "a forward that raises": f"""\
class Mine(nn.Module):
    def __init__({SIGNATURE}):
        super().__init__()

    def forward(self, x):
        raise NotImplementedError
""",
    "an __init__ that raises": f"""\
class Mine(nn.Module):
    def __init__({SIGNATURE}):
        raise NotImplementedError

    def forward(self, x):
        return x
""",
}


@pytest.mark.parametrize("check", [check_causal_attention, check_stacked_heads, check_weight_split])
@pytest.mark.parametrize("stub", [None, *STUBS.values()], ids=["None", *STUBS])
def test_a_stub_is_not_attempted_yet(check, stub):
    verdict = check(write(stub) if stub else None)
    assert not verdict
    assert repr(verdict) == "not attempted yet"


def test_an_empty_init_is_not_attempted_either():
    stub = f"class Mine(nn.Module):\n    def __init__({SIGNATURE}): pass\n"
    verdict = check_causal_attention(write(stub + "    def forward(self, x): pass\n"))
    assert verdict.sentence == "not attempted yet: __init__ does not call super().__init__()"


def test_an_error_with_words_is_no_stub():
    stub = STUBS["an __init__ that raises"]
    verdict = check_causal_attention(write(stub.replace("Error\n", 'Error("no mask yet")\n')))
    assert "NotImplementedError: no mask yet." in verdict.sentence


def test_a_missing_return_is_told_from_a_stub():
    verdict = check_causal_attention(change(ONE_HEAD, "        return context\n", ""))
    assert verdict.code == "result.none"
    assert verdict.sentence == (
        f"In {verdict.line} | Forward makes context and returns None: end with return."
    )
    assert "context = " in verdict.line.text


def test_a_beginning_without_a_return_is_not_attempted_yet():
    begun = ONE_HEAD[: ONE_HEAD.index("        keys, queries")] + "        keys = self.W_key(x)\n"
    assert check_causal_attention(write(begun)).sentence == (
        "not attempted yet: forward makes keys and returns None. Is the return missing?"
    )


NO_NAME = STACKED.replace("return torch", "torch")


def test_a_forward_that_names_nothing_lacks_its_return_too():
    verdict = check_stacked_heads(write(NO_NAME))
    assert verdict.code == "result.none"
    assert verdict.sentence == (
        "In Mine.forward, line 2: torch.cat([head(x) for head in self.heads], dim=-1) | "
        "Forward returns None: end with return."
    )


def test_a_helper_that_lacks_its_return_is_asked_for():
    text = NO_NAME.replace("def forward", "def join").rstrip()
    text += "\n\n    def forward(self, x):\n        return self.join(x)\n"
    assert check_stacked_heads(write(text)).sentence.endswith(
        "| Forward returns None: does what it calls lack a return?"
    )


def test_one_named_tensor_is_all_that_a_stack_needs():
    verdict = check_stacked_heads(write(NO_NAME.replace("torch.cat", "joined = torch.cat")))
    assert verdict.sentence.endswith("| Forward makes joined and returns None: end with return.")


def test_lines_that_stop_at_the_line_of_the_stub():
    verdict = check_causal_attention(
        change(ONE_HEAD, "        return context\n", "        raise NotImplementedError\n")
    )
    assert verdict.code == "stub.raise"
    assert verdict.sentence == (
        f"In {verdict.line} | Your lines stop at `raise NotImplementedError`: delete that line."
    )
    lines = STACKED.splitlines(keepends=True)
    raised = "        raise NotImplementedError\n"
    in_init = "".join([*lines[:4], raised, *lines[4:]])
    assert check_stacked_heads(write(in_init)).code == "stub.raise"
    untouched = "".join([*lines[:3], raised, *lines[5:]])
    assert check_stacked_heads(write(untouched)).sentence == "not attempted yet"


def test_what_is_no_class_is_refused_in_words():
    for thing, kind in ((6, "int"), (int, "type"), ("Mine", "str")):
        sentence = check_weight_split(thing).sentence
        assert sentence == (
            "Give the class itself, a subclass of nn.Module, or a function that makes one, not "
            f"{kind}."
        )


# Wrong classes


@pytest.mark.parametrize(
    ("check", "text", "right", "wrong", "sentence"),
    [(check, text, *case) for check, text, _, *case in CASES],
    ids=[what for _, _, what, *_ in CASES],
)
def test_the_sentence_names_the_line(check, text, right, wrong, sentence):
    verdict = check(change(text, right, wrong))
    assert not verdict
    assert verdict.faults[0].cause.startswith(sentence)
    if verdict.code != "init.error":
        assert verdict.line is not None
        assert verdict.line.text in verdict.sentence


@pytest.mark.parametrize(
    "what", ["mask inverted", "no root", "over the queries", "weights @ keys", "none"]
)
def test_a_wrong_head_gets_the_same_sentence_in_a_stack(what):
    right, wrong, sentence = WRONG_HEADS[what]
    verdict = check_stacked_heads(write(STACKED, head=change(ONE_HEAD, right, wrong)))
    assert not verdict
    assert verdict.faults[0].cause.startswith(sentence)


def test_a_remedy_follows_the_error_where_one_is_known():
    minus_1e9 = check_causal_attention(change(ONE_HEAD, "-torch.inf", "-1e9"))
    assert minus_1e9
    assert minus_1e9.sentence.endswith("like -1e9 does not fit: fill with -torch.inf.")
    a_float = check_weight_split(change(SPLIT, "d_out // num_heads", "d_out / num_heads")).sentence
    assert a_float.endswith("A size must be an int: // divides to an int, / to a float.")
    float32 = check_weight_split(change(SPLIT, ", dtype=x.dtype", "")).sentence
    assert float32.endswith("make every new tensor with dtype=x.dtype and device=x.device.")


# Remedies are chosen by torch's and Python's own words, which may change with a version. For each
# alternative of a pattern, code that raises an error with these words.

X = torch.ones(2, 3)


class NoSuper(nn.Module):
    def __init__(self):
        self.part = nn.ReLU()


def endless() -> None:
    endless()


RAISES = {
    r"softmax\(\) missing": lambda: X.softmax(),
    r"__init__\(\) [gmt]": lambda: CausalAttention(3, 2, 6, 0.0, num_heads=2),
    r"forward\(\) [gmt]": lambda: CausalAttention(3, 2, 6, 0.0)(),
    "recursion depth": endless,
    "before Module.__init__": NoSuper,
    "view size is not compatible": lambda: X.T.view(6),
    "is invalid for input of size": lambda: X.view(2, 2),
    "but got float": lambda: X.view(2, 3.0),
    "float' object cannot be interpreted": lambda: range(3.0),
    "of type float": lambda: nn.Linear(3, 2.0),
    "without overflow": lambda: X.half().masked_fill(X > 0, -1e9),
    "same dtype": lambda: X @ X.T.double(),
    "expected scalar type": lambda: X[None] @ X.T[None].double(),
    "must have the same": lambda: nn.Linear(3, 2)(X.double()),
    r"t\(\) expects a tensor with <= 2": lambda: X[None].t(),
    "Dimension out of range": lambda: X.transpose(1, 2),
    "Tensors, not generator": lambda: torch.cat(row for row in X),
    "Tensors, not map": lambda: torch.cat(map(torch.relu, X)),
    "cannot be multiplied": lambda: X @ X,
    "Expected size": lambda: X[None] @ X[None],
    "must match": lambda: X + X.T,
}


def test_every_remedy_has_an_error_that_asks_for_it():
    assert list(RAISES) == [words for pattern in REMEDIES for words in pattern.split("|")]


@pytest.mark.parametrize("words", RAISES)
def test_torch_still_uses_the_words_that_choose_a_remedy(words):
    (remedy,) = (remedy for pattern, remedy in REMEDIES.items() if words in pattern.split("|"))
    with pytest.raises(Exception, match=words) as caught:
        RAISES[words]()
    assert describe(locate(caught.value)).endswith(f" {remedy}")


# Weights handed back

WITH_WEIGHTS = SPLIT.replace("forward(self, x)", "forward(self, x, return_weights=False)").replace(
    "return self.out_proj(context)",
    "context = self.out_proj(context)\n"
    "        return (context, weights) if return_weights else context",
)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("(context, weights)", "Mine is right: "),
        (
            "(context, weights.mean(dim=1))",
            "return_weights=True gives attn_weights as (b, num_tokens, num_tokens) = (2, 5, 5) "
            "where (b, num_heads, num_tokens, num_tokens) = (2, 3, 5, 5) is right.",
        ),
        ("(context, scores)", "return_weights=True gives another attn_weights than the one used."),
        (
            "weights",
            "forward(x, return_weights=True) must return two tensors: context_vec, attn_weights.",
        ),
    ],
)
def test_weights_that_are_returned_are_compared(wrong, sentence):
    verdict = check_weight_split(change(WITH_WEIGHTS, "(context, weights)", wrong))
    assert verdict.sentence.startswith(sentence)
    assert verdict.holds == sentence.startswith("Mine is right")


# Where an exception is placed


def test_the_line_is_in_the_learners_own_helper():
    text = SDPA.replace("(self.n, -1)).transpose(1, 2)", "(self.n + 1, -1)).transpose(1, 2)")
    sentence = check_weight_split(write(text)).sentence
    assert sentence.startswith(
        "Stopped in Mine.cut, line 2: return part.unflatten(-1, (self.n + 1, -1)).transpose(1, 2) |"
    )
    assert "| Shapes there: part (b, num_tokens, d_out) = (2, 5, 21)." in sentence


def test_a_class_without_source_gets_a_sentence_too():
    space = {"nn": nn}
    exec("class Bare(nn.Module):\n    def __init__(self, **sizes): 1 / 0\n", space)
    space["Bare"].forward = lambda self, x: x
    sentence = check_causal_attention(space["Bare"]).sentence
    assert "ZeroDivisionError: division by zero." in sentence
    assert sentence.startswith("Stopped ")
