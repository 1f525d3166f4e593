"""How differences are told, and drawing from a seed."""

import pytest
import torch

from attncourse.compare import all_gradients, at_most
from attncourse.examples import SEED, seeded

NAN = float("nan")


@pytest.mark.parametrize(
    ("difference", "bound"), [(0.0, 1e-5), (3e-6, 1e-5), (0.03, 0.1), (2.0, 10.0), (NAN, NAN)]
)
def test_differences_are_rounded_up(difference, bound):
    assert at_most(difference, floor=1e-5) == pytest.approx(bound, nan_ok=True)


def test_an_input_that_is_not_used_has_gradients_of_0():
    used, unused = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    assert all_gradients(used, [used, unused]).tolist() == [1, 1, 0, 0, 0]


@pytest.mark.parametrize("seed", [SEED, 3])
def test_draws_from_a_seed_and_leaves_the_generator_as_it_was(seed):
    expected = torch.rand(4, generator=torch.Generator().manual_seed(seed))
    before = torch.get_rng_state()
    with seeded() if seed == SEED else seeded(seed):
        assert torch.rand(4).equal(expected)
    assert torch.get_rng_state().equal(before)
