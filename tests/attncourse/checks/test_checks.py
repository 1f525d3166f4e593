"""Each check says yes to what is right, and says where it is wrong to what is not."""

import inspect
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
import torch
from torch import nn

from attncourse.checks import Finding, Kind
from attncourse.checks.module_checks import Verdict, check_causal, check_equal, check_weights
from attncourse.pictures.palette import contrast
from attncourse.tracing.operations import SourceLine
from support.cases import CASES, T, name, tokens

DEFAULT = inspect.signature(check_equal).parameters["tolerance"].default


LINE = SourceLine("forward", 5, "y = x @ x < 2")
CRASH = Verdict(
    False, "...", (Finding(Kind.ERROR_WIDTHS, LINE),), more="x (2, 3)", cause="The last axis."
)


@pytest.mark.parametrize(
    ("verdict", "sign", "said"),
    [
        (Verdict(True, "Right: <all>."), "✓", "Yes Right: <all>."),
        (Verdict(False, "Is it twice?"), "✗", "Not yet Is it twice?"),
        (Verdict(False, "not attempted yet", (Finding(Kind.STUB),)), "○", "Not attempted yet"),
        (CRASH, "■", "Stopped forward, line 5 y = x @ x < 2 The last axis. More x (2, 3)"),
        (replace(CRASH, faults=(Finding(Kind.SCALE_NONE, LINE),)), "✗", "Not yet forward, line 5"),
    ],
)
def test_a_verdict_is_seen_at_a_glance_and_heard(verdict, sign, said):
    """A sign, a word and a color of its own; the line as code; what is folded behind."""
    root = ET.fromstring(verdict._repr_html_())
    hidden = [node for node in root.iter() if node.get("aria-hidden")]
    assert [node.text.strip() for node in hidden] == [sign]
    heard = " ".join(text for text in root.itertext() if text.strip() != sign)
    assert " ".join(heard.split()).startswith(said)
    badge = next(root.iter("b")).get("style")
    assert contrast("#ffffff", badge.split("background: ")[1]) >= 5
    assert [code.text for code in root.iter("code")] == [LINE.text] * bool(verdict.line)
    assert len(list(root.iter("details"))) == bool(verdict.more)


# check_equal


@pytest.mark.parametrize(
    ("difference", "tolerance", "sentence"),
    [
        (0.0, 1e-6, "Equal within 1e-06: the largest difference is at most 1e-07."),
        (3e-9, 1e-6, "Equal within 1e-06: the largest difference is at most 1e-07."),
        (3e-7, 1e-6, "Equal within 1e-06: the largest difference is at most 1e-06."),
        (2.0**-10, 1e-2, "Equal within 1e-02: the largest difference is at most 1e-03."),
        (-(2.0**-8), 1e-2, "Equal within 1e-02: the largest difference is at most 1e-02."),
        (1e-13, 1e-12, "Equal within 1e-12: the largest difference is at most 1e-13."),
    ],
)
def test_equal_within_the_tolerance(difference, tolerance, sentence):
    a = torch.zeros(2, 3, dtype=torch.float64)
    b = a.clone()
    b[1, 2] += difference
    for verdict in (check_equal(a, b, tolerance), check_equal(b, a, tolerance)):
        assert verdict
        assert verdict.sentence == sentence


def test_the_tolerance_if_none_is_given():
    """Wide enough for float32 on any machine, too narrow for a mistake."""
    assert 1e-7 < DEFAULT < 1e-4
    zero = torch.zeros(1, dtype=torch.float64)
    assert check_equal(zero, zero + 0.99 * DEFAULT)
    assert not check_equal(zero, zero + 1.01 * DEFAULT)


@pytest.mark.parametrize("sign", [1, -1])
def test_not_equal_names_the_place(sign):
    a, b = torch.zeros(2, 3), torch.zeros(2, 3)
    b[0, 1], b[1, 2] = 0.25, 0.5
    verdict = check_equal(a, sign * b)
    assert not verdict
    assert verdict.sentence == "Not equal: the largest difference is 0.5, at (1, 2)."


def test_not_equal_in_shape():
    verdict = check_equal(torch.zeros(2, 3), torch.zeros(1, 3))
    assert not verdict
    assert verdict.sentence == "Not equal: the shapes differ, (2, 3) and (1, 3)."


def test_nan_is_not_equal_to_anything():
    nan, infinite = (torch.tensor([1.0, bad]) for bad in (torch.nan, torch.inf))
    one = torch.ones(2)
    for a, b, off in ((nan, nan, "nan"), (nan, one, "nan"), (infinite, one, "inf")):
        verdict = check_equal(a, b)
        assert not verdict
        assert verdict.sentence == f"Not equal: the largest difference is {off}, at (1,)."


def test_nothing_equals_nothing():
    assert check_equal(torch.zeros(0, 3), torch.zeros(0, 3))


# check_causal


@pytest.mark.parametrize("case", CASES, ids=name)
def test_our_classes_are_causal(case):
    x = tokens()
    kept = x.clone()
    verdict = check_causal(case.build(), x)
    assert verdict
    assert verdict.sentence == (
        "Causal: no output moved by a single bit when later tokens changed (6 cuts tried)."
    )
    assert torch.equal(x, kept)
    two = check_causal(case.build(), tokens(num_tokens=2))
    assert two.sentence.endswith("(1 cut tried).")


class LooksAhead(nn.Module):
    """Add to one output a token that comes after it."""

    def __init__(self, output: int, token: int, share: float = 0.5, item=slice(None)) -> None:
        super().__init__()
        self.output, self.token, self.share, self.item = output, token, share, item

    def forward(self, x):
        out = x.clone()
        out[self.item, self.output] += self.share * x[self.item, self.token]
        return out


@pytest.mark.parametrize(("output", "token"), [(0, 1), (0, 6), (3, 6), (5, 6), (2, 3)])
def test_a_module_that_looks_ahead_is_not_causal(output, token):
    verdict = check_causal(LooksAhead(output, token), torch.ones(2, T, 3))
    assert not verdict
    assert verdict.sentence == (
        f"Not causal: when the tokens after position {output} changed, "
        f"output {output} moved by 0.5."
    )


@pytest.mark.parametrize(
    ("leak", "moved"), [({"share": 2.0**-23}, "1.192e-07"), ({"item": 1}, "0.5")]
)
def test_one_bit_counts_and_so_does_one_sequence_of_the_batch(leak, moved):
    verdict = check_causal(LooksAhead(0, 1, **leak), torch.ones(2, T, 3))
    assert verdict.sentence.endswith(f"output 0 moved by {moved}.")


@pytest.mark.parametrize(("output", "token"), [(1, 0), (6, 5), (4, 4)])
def test_a_module_that_looks_back_is_causal(output, token):
    assert check_causal(LooksAhead(output, token), torch.ones(2, T, 3))


@pytest.mark.parametrize("num_tokens", [0, 1])
def test_one_token_has_no_future_nor_has_none(num_tokens):
    with pytest.raises(ValueError, match=f"x has {num_tokens} token; a future needs at least 2"):
        check_causal(nn.Identity(), torch.ones(2, num_tokens, 3))


# check_weights


@pytest.mark.parametrize("case", CASES, ids=name)
def test_our_weights_pass(case):
    _, attn_weights = case.build()(tokens(), return_weights=True)
    verdict = check_weights(attn_weights)
    assert verdict
    assert verdict.sentence == (
        f"Weights: none negative, every row sums to 1 within {DEFAULT:.0e}, "
        "exactly 0 above the diagonal."
    )


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([[1.0, 0.0], [1.25, -0.25]], "A weight is negative: -0.25."),
        ([[1.0, 0.0], [0.5, 0.25]], "A row's sum is off from 1 by 0.25."),
        ([[1.5, 0.0], [0.5, 0.5]], "A row's sum is off from 1 by 0.5."),
        ([[0.75, 0.25], [0.5, 0.5]], "A weight above the diagonal is 0.25, not 0."),
        ([[1.0, 1e-9], [0.5, 0.5]], "A weight above the diagonal is 1e-09, not 0."),
        ([[1.0, 0.0], [torch.nan, 0.5]], "A row's sum is off from 1 by nan."),
    ],
)
def test_weights_that_are_no_causal_average(weights, sentence):
    bad, good = torch.tensor(weights), torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    for verdict in (check_weights(bad), check_weights(torch.stack((good, bad)))):
        assert not verdict
        assert verdict.sentence == sentence


def test_the_tolerance_of_a_row_sum():
    weights = torch.tensor([[1.0, 0.0], [0.5, 0.501]])
    assert not check_weights(weights)
    assert check_weights(weights, tolerance=1e-2).sentence.startswith(
        "Weights: none negative, every row sums to 1 within 1e-02,"
    )
