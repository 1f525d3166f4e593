"""Every class can be recorded by torch.jit.trace, which older deployments still use."""

import pytest
import torch

from support.cases import CONTRACT, Case, name

TRACES = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",  # torch.jit is
    "ignore::FutureWarning",  # not supported from Python 3.14 on, it says; it works
    "ignore::torch.jit.TracerWarning",  # the checks of shapes are not recorded
)


@TRACES
@pytest.mark.parametrize("case", CONTRACT, ids=name)
@pytest.mark.parametrize("recorded", [1, 7])
def test_a_recorded_module_takes_other_sizes(case: Case, recorded):
    """Recorded with few tokens or many, it computes the same for all lengths that fit."""
    module = case.build().eval()
    traced = torch.jit.trace(module, (case.tokens(num_tokens=recorded),))
    for b, num_tokens in ((2, 7), (3, 1), (1, 13)):
        x = case.tokens(b, num_tokens, seed=num_tokens)
        torch.testing.assert_close(traced(x), module(x))
