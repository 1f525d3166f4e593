"""Models that write, and models without a mask."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from attncourse.learning import (
    AttentionModel,
    UnmaskedAttention,
    train,
    walk,
    without_mask,
    write,
    writing,
)
from attncourse.learning.training import mean_loss
from support.shape_comments import reading


def model(vocabulary: int = 7, context_length: int = 11) -> AttentionModel:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return AttentionModel(vocabulary, context_length, 10, num_heads=2, num_layers=2)


def test_without_a_mask_the_parameters_are_the_same_and_the_original_is_left_alone():
    masked = model()
    before = {name: tensor.clone() for name, tensor in masked.state_dict().items()}
    unmasked = without_mask(masked)
    for name, tensor in unmasked.state_dict().items():
        assert torch.equal(tensor, before[name])
        assert tensor.data_ptr() != masked.state_dict()[name].data_ptr()
    assert all(isinstance(layer, UnmaskedAttention) for layer in unmasked.layers)
    assert not any(isinstance(layer, UnmaskedAttention) for layer in masked.layers)


def test_without_a_mask_the_last_token_sees_what_it_saw_and_the_first_sees_more():
    masked = model()
    tokens = torch.tensor([[3, 5, 0, 6, 2]])
    seen, weights = without_mask(masked)(tokens, return_weights=True)
    _, causal = masked(tokens, return_weights=True)
    torch.testing.assert_close(weights[:, 0, :, -1], causal[:, 0, :, -1])
    assert weights.gt(0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones_like(weights.sum(dim=-1)))
    assert not torch.allclose(seen[:, 0], masked(tokens)[:, 0])


def test_with_one_token_there_is_nothing_to_hide():
    masked, token = model(), torch.tensor([[4], [2]])
    torch.testing.assert_close(without_mask(masked)(token), masked(token))


def test_what_is_written_goes_on_from_the_beginning_as_the_seed_decides():
    beginnings = torch.tensor([[3, 5], [0, 6], [2, 2]])
    torch.manual_seed(1)
    texts = write(model(), beginnings, num_tokens=11, seed=1)
    assert texts.shape == (3, 11)
    assert torch.equal(texts[:, :2], beginnings)
    torch.manual_seed(2)
    assert torch.equal(write(model(), beginnings, num_tokens=11, seed=1), texts)
    assert not torch.equal(write(model(), beginnings, num_tokens=11, seed=2), texts)


def test_tokens_are_drawn_as_the_model_expects_them():
    sure = model()
    with torch.no_grad():
        sure.read_out.weight.zero_()
        sure.read_out.bias.copy_(torch.tensor([-50.0, 0, -50, -50, 0, -50, -50]))
    written = write(sure, torch.zeros(300, 1, dtype=torch.int64), num_tokens=4, seed=2)[:, 1:]
    assert set(written.flatten().tolist()) == {1, 4}
    assert 0.4 < written.eq(4).float().mean() < 0.6


def test_what_cannot_be_written_is_refused():
    with pytest.raises(ValueError, match="beginnings are empty: give at least one token"):
        write(model(), torch.zeros(2, 0, dtype=torch.int64), 5, seed=0)
    with pytest.raises(ValueError, match="num_tokens=12, more than context_length=11"):
        write(model(), torch.zeros(2, 1, dtype=torch.int64), 12, seed=0)


def test_only_the_model_without_a_mask_is_better_than_the_coin():
    """The losses that notebook 01 shows: log 2 is the least that the past allows."""
    torch.manual_seed(1)
    masked = AttentionModel(12, 16, width=32, num_heads=1)
    unmasked = without_mask(masked)
    for trained in (masked, unmasked):
        train(trained, walk(), steps=150, seed=1, learning_rate=1e-2)
    batch = walk()(1000, torch.Generator().manual_seed(2))
    assert 0.68 < mean_loss(masked, batch) < 0.8
    assert mean_loss(unmasked, batch) < 0.05


def test_its_shape_comments_are_true():
    found = reading(Path(writing.__file__))
    sizes = {"b": 3, "num_tokens": 5, "d_out": 10, "vocabulary": 7}
    unmasked = without_mask(model())
    found.run(sizes, lambda: unmasked.layers[0](torch.ones(3, 5, 10)))
    found.run(sizes, lambda: write(model(), torch.ones(3, 4, dtype=torch.long), 5, seed=1))
    assert found.lies == []
    assert found.unreached() == []
