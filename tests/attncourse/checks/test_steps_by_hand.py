"""Checks of attention by hand: what no exercise of the notebooks asks them."""

import pytest
import torch
from torch import nn

from attncourse.checks import (
    check_broken_steps,
    check_scores_row,
    check_weights_row,
    traceable_example,
)
from attncourse.examples import counting, published_steps
from attncourse.tracing import trace
from attnlib import MultiHeadAttention, attention, causal_mask, merge_heads, split_heads

ORIGINS = 10 * torch.arange(5.0)[:, None] + torch.arange(6.0)  # token and column


def test_a_right_class_returns_every_value_to_its_place():
    module, x = traceable_example(MultiHeadAttention)
    output, attn_weights = module(x, return_weights=True)
    assert torch.equal(output[0], ORIGINS)
    torch.testing.assert_close(attn_weights, torch.eye(5).expand(1, 2, 5, 5))
    heads = trace(module, x)["queries"].values @ trace(module, x)["keys"].values.mT
    distance = torch.arange(1.0, 6.0)[:, None] - torch.arange(5.0)
    assert torch.equal(heads[0], torch.stack([-30 * distance**2, -60 * distance**2]))
    assert not module.training


class Bare(nn.Module):
    """No out_proj, and biases."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))
        self.head_dim = d_out // num_heads

    def forward(self, x):
        heads = [split_heads(layer(x), self.head_dim) for layer in self.children()]
        return merge_heads(attention(*heads, causal_mask(x.shape[1]))[0])


def test_a_class_of_ones_own_needs_no_out_proj_and_may_have_biases():
    module, x = traceable_example(Bare)
    assert torch.equal(module(x)[0], ORIGINS)


class OtherNames(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads):
        super().__init__()
        self.q, self.k = nn.Linear(d_in, d_out), nn.Linear(d_in, d_out)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (OtherNames, r"W_query.weight must be \(6, 4\), for .*; the layers are: q, k$"),
        (lambda **_sizes: MultiHeadAttention(5, 6, 5, 0.0, 2), r"W_query.weight must be \(6, 4\)"),
    ],
)
def test_what_cannot_tell_says_what_it_needs(written, words):
    with pytest.raises(TypeError, match=words):
        traceable_example(written)


def test_a_wrong_number_is_named_and_the_right_one_is_not():
    queries, keys = counting().inputs.view(1, 3, 6) / 10, torch.ones(1, 3, 6)
    keys[0, 2, 0] = 3.0
    said = str(check_scores_row([2.1, 2.1, 9.0], queries, keys, head=0, token=1))
    assert said.startswith("You have 9.00 for key 2, which is not right:")
    assert "3.30" not in said


def test_tensors_are_answers_too():
    scores = torch.tensor([1.0, 0.0, 5.0])
    right = torch.softmax(scores[:2] / 3**0.5, dim=-1)
    assert check_weights_row(torch.cat([right, torch.zeros(1)]), scores, 1, 3)


def test_the_broken_steps_are_those_that_do_not_follow():
    """Computed here from the printed matrices, not looked up."""
    theirs = published_steps()
    x = counting().inputs
    pairs = {
        4: (x @ theirs.W_query, theirs.product),
        5: (theirs.product.view(3, 2, 3), theirs.cut),
        6: (theirs.cut[:, 0], theirs.queries),
        7: (theirs.queries @ theirs.keys.T, theirs.scores),
        8: (torch.softmax(theirs.scaled, dim=-1), theirs.weights),
        9: (theirs.weights @ theirs.values, theirs.context[0]),
        10: (theirs.context.transpose(0, 1), theirs.by_token),
        11: (theirs.by_token.reshape(3, 6), theirs.merged),
    }
    broken = {n for n, (one, other) in pairs.items() if not torch.allclose(one, other, atol=5e-3)}
    assert broken == {4, 5, 7, 8, 9}
    assert check_broken_steps(broken - {4, 5})  # the row that is asked for
    row = {
        7: (theirs.scores - pairs[7][0])[1],
        8: (theirs.weights - pairs[8][0])[1],
        9: (theirs.context[0] - pairs[9][0])[1],
    }
    assert all(off.abs().max() > 0.01 for off in row.values())
    divided = theirs.scores / 3**0.5
    seen = theirs.scaled.isfinite()
    assert (divided - theirs.scaled)[seen].abs().max() < 5e-4  # the division follows


def test_no_matrix_gives_the_published_products():
    theirs = published_steps()
    for rows in (theirs.product, theirs.queries):
        assert not torch.allclose(rows[0] + rows[1], 7 * rows[2], atol=1.0)
