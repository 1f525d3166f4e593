"""PyTorch's module in twenty lines, and its options as changes of a few: each gives its numbers."""

import pytest
import torch
from torch import nn

from attncourse.variants.torch_options import OPTIONS, CoreAttention, Option

each_option = pytest.mark.parametrize("option", OPTIONS.values(), ids=list(OPTIONS))


def test_the_core_is_pytorch_s_module_without_options():
    torch.manual_seed(5)
    theirs = nn.MultiheadAttention(6, 3, bias=False, batch_first=True).double()
    core = CoreAttention(6, 3).double()
    core.load_state_dict(theirs.state_dict(), strict=True)
    query, key, value = (torch.randn(2, n, 6).double() for n in (5, 7, 7))
    mask = torch.rand(5, 7) < 0.4
    mask[:, 0] = False
    for attn_mask in (None, mask):
        expected = theirs(query, key, value, attn_mask=attn_mask, average_attn_weights=False)
        for mine, right in zip(core(query, key, value, attn_mask), expected, strict=True):
            torch.testing.assert_close(mine, right)


@each_option
def test_the_option_gives_pytorch_s_numbers(option):
    weights = "and no weights" if option.name == "need_weights" else "Same output and same weights"
    assert weights in option.compare_with_pytorch()


@each_option
def test_a_notebook_shows_the_lines_that_ran(option):
    shown = repr(option).splitlines()
    assert shown[-1] == option.compare_with_pytorch()
    new = [line[2:] for line in shown[:-1] if line.startswith("+ ")]
    assert new
    assert all(line in option.text.splitlines() for line in new)
    assert option.compare_with_pytorch().replace("'", "&#x27;") in option._repr_html_()


def test_a_difference_that_is_wrong_does_not_compare():
    average = OPTIONS["average_attn_weights"]
    ((old, new),) = average.changes.items()
    first = Option(
        average.name, {old: new.replace(".mean(dim=1)", "[:, 0]")}, {}, average.called_with
    )
    with pytest.raises(AssertionError, match="Tensor-likes are not close"):
        first.compare_with_pytorch()


def test_comparing_leaves_the_readers_random_numbers_alone():
    torch.manual_seed(4)
    before = torch.get_rng_state()
    for option in OPTIONS.values():
        option.compare_with_pytorch()
    assert torch.equal(torch.get_rng_state(), before)
