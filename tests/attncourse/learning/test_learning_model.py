"""The small model, and muting one of its heads."""

from pathlib import Path

import pytest
import torch

import head_patterns
from attncourse.learning import model as models
from attncourse.learning import patterns
from attncourse.learning.model import AttentionModel, ablate_head, ov_circuit
from head_patterns import k_back, score, score_by_position, two_letters
from support.shape_comments import reading

SIZES = {"b": 2, "num_tokens": 7, "width": 15, "num_heads": 3, "num_answers": 5, "vocabulary": 17}


def model(num_layers: int = 2) -> AttentionModel:
    torch.manual_seed(1)
    return AttentionModel(17, 11, 15, 3, num_layers, num_answers=5).double()


def some_tokens(b: int = 2, num_tokens: int = 7) -> torch.Tensor:
    return torch.randint(17, (b, num_tokens), generator=torch.Generator().manual_seed(2))


def by_hand(module: AttentionModel, tokens: torch.Tensor, ablated: tuple = ()) -> torch.Tensor:
    """Return the logits, head by head; heads in `ablated`, (layer, head), add nothing."""
    weights = module.state_dict()
    x = weights["token_embedding.weight"][tokens]
    x = x + weights["position_embedding.weight"][: tokens.shape[1]]
    for i in range(len(module.layers)):
        matrix = {
            name: weights[f"layers.{i}.{name}.weight"]
            for name in ("W_query", "W_key", "W_value", "out_proj")
        }
        added = weights[f"layers.{i}.out_proj.bias"].expand_as(x).clone()
        for h in range(3):
            own = slice(5 * h, 5 * h + 5)
            queries, keys, values = (
                x @ matrix[name][own].T for name in ("W_query", "W_key", "W_value")
            )
            scores = queries @ keys.transpose(1, 2) / 5**0.5
            future = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
            context = scores.masked_fill(future, -torch.inf).softmax(-1) @ values
            if (i, h) not in ablated:
                added += context @ matrix["out_proj"][:, own].T
        x = x + added
    logits = x @ weights["read_out.weight"].T + weights["read_out.bias"]
    return logits.unflatten(-1, (5, 17))


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_it_is_the_sum_of_its_heads(num_layers):
    module = model(num_layers)
    torch.testing.assert_close(module(some_tokens()), by_hand(module, some_tokens()))


def test_too_many_tokens_are_refused():
    with pytest.raises(ValueError, match="12 tokens, but context_length=11"):
        model()(some_tokens(num_tokens=12))


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (0, 2), (1, 1)])
def test_a_ablated_head_adds_nothing(layer, head):
    module = model()
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    ablated = ablate_head(module, layer, head)
    expected = by_hand(module, some_tokens(), ablated=((layer, head),))
    torch.testing.assert_close(ablated(some_tokens()), expected)
    assert not torch.allclose(ablated(some_tokens()), module(some_tokens()))
    assert all(torch.equal(weight, before[name]) for name, weight in module.state_dict().items())
    assert ablated.layers[layer].out_proj.weight.requires_grad


def test_a_head_that_is_not_there_cannot_be_ablated():
    for layer, head, said in (
        (2, 0, "layer=2, but the model has layers 0 to 1"),
        (0, -1, "head=-1, but layer 0 has heads 0 to 2"),
    ):
        with pytest.raises(ValueError, match=said):
            ablate_head(model(), layer, head)


def test_shape_comments_are_true():
    found = reading(Path(models.__file__), Path(patterns.__file__), Path(head_patterns.__file__))
    module, tokens = model(), some_tokens()
    _, attn_weights = found.run(SIZES, lambda: module(tokens, return_weights=True))
    found.run(SIZES, lambda: patterns.is_ambiguous(tokens))
    found.run(SIZES, lambda: score(attn_weights[:, 0], k_back(tokens, 1)))
    found.run(SIZES, lambda: score_by_position(attn_weights, two_letters(tokens)))
    sizes = SIZES | {"head_dim": 5}
    found.run(sizes, lambda: ablate_head(module, 1, 2)(tokens))
    one_answer = AttentionModel(17, 11, 15, 3)
    found.run(sizes, lambda: ov_circuit(one_answer, 0, 1))
    assert found.lies == found.unreached() == []


def test_a_head_is_ablated_at_some_places_only():
    module, tokens = model(), some_tokens()
    ablated = ablate_head(module, 1, 2, positions=slice(2, 4))
    whole, silent = module.layers[1], ablate_head(module, 1, 2).layers[1]
    x = torch.randn(3, tokens.shape[1], whole.W_query.in_features).double()
    some = ablated.layers[1](x)
    torch.testing.assert_close(some[:, 2:4], silent(x)[:, 2:4])
    torch.testing.assert_close(some[:, :2], whole(x)[:, :2])
    torch.testing.assert_close(some[:, 4:], whole(x)[:, 4:])
    assert not torch.allclose(some[:, 2:4], whole(x)[:, 2:4])


def test_what_a_head_writes_is_what_it_adds_to_the_scores():
    """A head that looks at one token alone adds that row of the table."""
    torch.manual_seed(5)
    module = AttentionModel(vocabulary=5, context_length=3, width=6, num_heads=2)
    module.position_embedding.weight.data.zero_()
    tokens = torch.arange(5)[:, None]  # one token each, which looks at itself
    added = module(tokens) - ablate_head(module, 0, 1)(tokens)
    torch.testing.assert_close(added[:, 0, 0], ov_circuit(module, 0, 1))
