"""Models without a mask, and how they are asked where nothing lies ahead."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from attncourse.learning import (
    AttentionModel,
    UnmaskedAttention,
    losses_of_prefixes,
    unmasked,
    without_mask,
)
from attncourse.learning.tasks import Batch
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


def test_a_text_that_is_cut_has_nothing_ahead():
    """Each loss is that of the first tokens alone, and with a mask that of the whole text."""
    batch = Batch(torch.tensor([[3, 5, 0], [2, 2, 6]]), torch.tensor([[[5], [0], [1]]] * 2))
    masked = model()
    logits = masked(batch.tokens)[:, :, 0]
    expected = [F.cross_entropy(logits[:, i], batch.answers[:, i, 0]).item() for i in range(3)]
    assert losses_of_prefixes(masked, batch) == pytest.approx(expected, abs=1e-6)
    unmasked = without_mask(masked)
    cut = losses_of_prefixes(unmasked, batch)
    alone = unmasked(batch.tokens[:, :2])[:, 1, 0]
    assert cut[1] == pytest.approx(F.cross_entropy(alone, batch.answers[:, 1, 0]).item(), abs=1e-6)
    whole = unmasked(batch.tokens)[:, 1, 0]
    assert cut[1] != pytest.approx(F.cross_entropy(whole, batch.answers[:, 1, 0]).item(), abs=1e-4)


def test_its_shape_comments_are_true():
    found = reading(Path(unmasked.__file__))
    sizes = {"b": 3, "num_tokens": 5, "d_out": 10}
    copied = without_mask(model())
    found.run(sizes, lambda: copied.layers[0](torch.ones(3, 5, 10)))
    assert found.lies == found.unreached() == []
