"""Numbers that published lessons print come out of our classes, to the character."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import attnlib
from attncourse.examples import SEED, journey

FOLDER = Path(__file__).parents[1] / "golden"
PRINTED = json.loads((FOLDER / "printed_tensors.json").read_text(encoding="utf-8"))
OURS = ("stacked_heads_2", "stacked_heads_3", "weight_split")
LINE = 80  # torch breaks a tensor's text before its grad_fn where a line would be longer


def text_of(numbers: list, grad_fn: str) -> str:
    """Write a 3-dimensional tensor as torch prints it, in plain Python."""
    rows = [[", ".join(f"{number:7.4f}" for number in row) for row in item] for item in numbers]
    items = [(",\n" + " " * 9).join(f"[{row}]" for row in item) for item in rows]
    text = "tensor([" + (",\n\n" + " " * 8).join(f"[{item}]" for item in items) + "],"
    ending = f"grad_fn=<{grad_fn}>)"
    fits = len(text.splitlines()[-1]) + 1 + len(ending) <= LINE
    return text + (" " if fits else "\n       ") + ending


def shown(tensor: Tensor) -> list:
    return [shown(part) if part.ndim else round(part.item(), 4) + 0.0 for part in tensor.detach()]


@pytest.mark.parametrize("which", OURS)
def test_our_classes_print_the_published_tensors(which):
    golden = PRINTED[which]
    inputs = torch.tensor(golden["inputs"])
    batch = torch.stack((inputs, inputs), dim=0)
    torch.manual_seed(golden["seed"])
    module = getattr(attnlib, golden["class"])(**golden["args"])
    context_vec = module(batch)
    assert str(context_vec) == text_of(golden["printed"], golden["grad_fn"])
    assert list(context_vec.shape) == golden["shape"]


def test_one_head_prints_the_first_two_columns():
    golden = PRINTED["stacked_heads_2"]
    torch.manual_seed(SEED)
    head = attnlib.CausalAttention(3, 2, context_length=6, dropout=0.0)
    columns = [[row[:2] for row in item] for item in golden["printed"]]
    assert str(head(journey().batch())) == text_of(columns, "UnsafeViewBackward0")


def test_the_published_results_of_torchs_own_module():
    """nn.MultiheadAttention as published, and our function with its weights copied in."""
    golden = PRINTED["torch_multihead_attention"]
    torch.manual_seed(golden["seed"])
    x_query, x_key, x_value = (torch.rand(1, 8, 4) for _ in range(3))
    torch.manual_seed(golden["seed"])
    theirs = nn.MultiheadAttention(**golden["args"])
    assert shown(theirs.in_proj_weight) == golden["in_proj_weight"]
    assert shown(theirs.out_proj.weight) == golden["out_proj_weight"]
    is_future = attnlib.causal_mask(8)
    result, mean = theirs(x_query, x_key, x_value, attn_mask=is_future)
    assert shown(result) == golden["result"]
    assert shown(mean) == golden["weights_averaged_over_heads"]

    projections = theirs.in_proj_weight.chunk(3)
    queries, keys, values = (
        attnlib.split_heads(x @ weight.T, head_dim=2)
        for x, weight in zip((x_query, x_key, x_value), projections, strict=True)
    )
    context_vec, attn_weights = attnlib.attention(queries, keys, values, is_future)
    ours = attnlib.merge_heads(context_vec) @ theirs.out_proj.weight.T
    assert shown(ours) == golden["result"]
    assert shown(attn_weights.mean(dim=1)) == golden["weights_averaged_over_heads"]
    assert shown(attn_weights[0, 0, :6]) == golden["weights_head_0_first_six_rows"]
