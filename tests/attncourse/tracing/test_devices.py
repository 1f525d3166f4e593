"""A tensor that is not made beside the given ones is noticed, whoever makes it."""

import pytest
import torch
from torch import nn

from attncourse.tracing.devices import Origins

X, OTHER = torch.ones(2, 3), torch.ones(3)

BESIDE = {
    "derived": lambda x: (x @ x.mT).softmax(dim=-1),
    "made with its device": lambda x: x + torch.ones(3, device=x.device),
    "made like it": lambda x: x.new_zeros(3) + torch.zeros_like(x),
    "brought": lambda x: x.to(x.device) + x.to(torch.float64),
    "a list": lambda x: torch.einsum("ij,kj->ik", *[torch.cat([x, x])] * 2),
}
APART = {
    "from outside": lambda x: x + OTHER,
    "made without a device": lambda x: x + torch.ones(3),
    "made on the CPU": lambda x: x + torch.ones(3, device="cpu"),
    "made on a device of the CPU": lambda x: x + torch.ones(3, device=torch.device("cpu")),
    "made like it, on the CPU": lambda x: x.new_zeros(3, device="cpu") + x,
    "with the device of another": lambda x: x + torch.ones(3, device=OTHER.device),
    "brought to the CPU": lambda x: x.to("cpu"),
    "left": lambda x: x.cpu(),
    "of another, in a list": lambda x: torch.cat([x, OTHER[None]]),
    "a new layer": lambda x: nn.Linear(3, 3)(x),
}


@pytest.mark.parametrize("name", BESIDE)
def test_all_stays_on_one_device(name):
    with Origins([X]) as origins:
        BESIDE[name](X)
    assert not origins.elsewhere
    assert BESIDE[name](X.to("meta")).is_meta


@pytest.mark.parametrize("name", APART)
def test_what_comes_from_elsewhere_is_noticed(name):
    with Origins([X]) as origins:
        APART[name](X)
    assert origins.elsewhere
