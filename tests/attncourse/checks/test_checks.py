"""Each check says yes to what is right, and says where it is wrong to what is not."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
import torch
from torch import nn

from attncourse.checks import Finding
from attncourse.checks.module_checks import Verdict, check_causal
from attncourse.checks.verdict import NO, OPEN, STOPPED, YES
from attncourse.pictures.palette import contrast
from attncourse.tracing.operations import SourceLine
from support.cases import CASES, T, name, tokens


def test_a_verdict_is_a_truth_and_a_sentence():
    assert Verdict(True, "Yes.")
    assert not Verdict(False, "No.")
    assert repr(Verdict(False, "No.")) == "No."


LINE = SourceLine("forward", 5, "y = x @ x < 2")
CRASH = Verdict(
    False, "...", (Finding("error.shapes", LINE),), more="x (2, 3)", cause="The last axis."
)


@pytest.mark.parametrize(
    ("verdict", "sign", "said"),
    [
        (Verdict(True, "Right: <all>."), "✓", "Yes Right: <all>."),
        (Verdict(False, "Is it twice?"), "✗", "Not yet Is it twice?"),
        (Verdict(False, "not attempted yet", (Finding("stub"),)), "○", "Not attempted yet"),
        (CRASH, "■", "Stopped forward, line 5 y = x @ x < 2 The last axis. More x (2, 3)"),
        (replace(CRASH, faults=(Finding("scale.none", LINE),)), "✗", "Not yet forward, line 5"),
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


def test_four_kinds_of_verdict_have_four_colors():
    assert len({look[2] for look in (YES, NO, STOPPED, OPEN)}) == 4


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


@pytest.mark.parametrize(
    ("output", "token", "cut"), [(0, 1, 0), (0, 6, 0), (3, 6, 3), (5, 6, 5), (2, 3, 2)]
)
def test_a_module_that_looks_ahead_is_not_causal(output, token, cut):
    verdict = check_causal(LooksAhead(output, token), torch.ones(2, T, 3))
    assert not verdict
    assert verdict.sentence == (
        f"Not causal: when the tokens after position {cut} changed, output {output} moved by 0.5."
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


@pytest.mark.parametrize("n", [0, 1])
def test_one_token_has_no_future(n):
    with pytest.raises(ValueError, match=f"x has {n} token; a future needs at least 2"):
        check_causal(nn.Identity(), torch.ones(2, n, 3))
