"""Numbers that published lessons print come out of our classes, to the character."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import attnlib
from attncourse.examples import SEED, counting, journey, published_steps, three_rows
from attncourse.panels import OnePiece
from attncourse.tracing import trace
from support.notebook_tools import ROOT, code_cells, markdown_cells, read
from support.notebook_tools import text_of as text_shown

FOLDER = Path(__file__).parents[1] / "golden"
PRINTED = json.loads((FOLDER / "printed_tensors.json").read_text(encoding="utf-8"))
WORKED = json.loads((FOLDER / "worked_example.json").read_text(encoding="utf-8"))
OURS = ("stacked_heads_2", "stacked_heads_3", "weight_split")
LINE = 80  # torch breaks a tensor's text before its grad_fn where a line would be longer


def text_of(numbers: list, grad_fn: str) -> str:
    """Write a 3-dimensional tensor as torch prints it, in plain Python.

    >>> print(text_of([[[1.0, -0.5]], [[0.25, 0.0]]], "CatBackward0"))
    tensor([[[ 1.0000, -0.5000]],
    <BLANKLINE>
            [[ 0.2500,  0.0000]]], grad_fn=<CatBackward0>)
    """
    rows = [[", ".join(f"{number:7.4f}" for number in row) for row in item] for item in numbers]
    items = [(",\n" + " " * 9).join(f"[{row}]" for row in item) for item in rows]
    text = "tensor([" + (",\n\n" + " " * 8).join(f"[{item}]" for item in items) + "],"
    ending = f"grad_fn=<{grad_fn}>)"
    fits = len(text.splitlines()[-1]) + 1 + len(ending) <= LINE
    return text + (" " if fits else "\n       ") + ending


def shown(tensor: Tensor) -> list:
    """Return a tensor's numbers to the four decimals that are printed."""
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


@pytest.mark.parametrize("which", OURS)
def test_the_lessons_print_the_published_tensors(which):
    name = "03_weight_split" if which == "weight_split" else "02_stacked_heads"
    lesson = read(ROOT / "notebooks" / f"{name}.ipynb")
    printed = [text_shown(output) for _, cell in code_cells(lesson) for output in cell["outputs"]]
    first, second = PRINTED[which]["printed"]  # of one text twice; the lesson prints it once
    numbers = [f"{x:.4f}" for row in first for x in row]
    texts = [text.partition("grad_fn")[0] for text in printed]
    assert numbers in [re.findall(r"-?\d\.\d{4}", text) for text in texts]
    assert first == second


@pytest.mark.parametrize("which", OURS)
def test_the_examples_by_name_are_the_published_inputs(which):
    golden = PRINTED[which]
    example = three_rows() if which == "weight_split" else journey()
    assert torch.equal(example.inputs, torch.tensor(golden["inputs"]))
    assert torch.equal(example.batch(), torch.tensor([golden["inputs"]] * 2))
    assert list(example.tokens) == golden.get("tokens", list(example.tokens))
    assert len(example.tokens) == len(golden["inputs"])
    assert golden["seed"] == SEED


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
        attnlib.split_heads(x @ weight.T, num_heads=2)
        for x, weight in zip((x_query, x_key, x_value), projections, strict=True)
    )
    context_vec, attn_weights = attnlib.attention(queries, keys, values, is_future)
    ours = attnlib.merge_heads(context_vec) @ theirs.out_proj.weight.T
    assert shown(ours) == golden["result"]
    assert shown(attn_weights.mean(dim=1)) == golden["weights_averaged_over_heads"]
    assert shown(attn_weights[0, 0, :6]) == golden["weights_head_0_first_six_rows"]


def test_the_lesson_on_shapes_has_the_nine_published_shapes():
    """As the lesson lists them, folded, and as our class makes them."""
    lesson = read(ROOT / "notebooks" / "04_shapes_and_numbers.ipynb")
    (text,) = [text for _, text in markdown_cells(lesson) if "*Wait, no!*" in text]
    listed = re.findall(r"^\| [a-z ]+ \| (\(.*?\)) \|$", text, re.MULTILINE)
    module = OnePiece(6, 6, context_length=3, dropout=0.0, num_heads=2)
    once = {"queries", "keys", "scaled", "attn_weights"}  # of a shape that is there already
    made = [
        str(step.shape)
        for step in trace(module, three_rows().inputs[None]).steps
        if step.name not in once and step.change != "in place"
    ]
    assert listed == made
    assert len(made) == 9


def test_the_worked_example_does_not_multiply_out():
    """Its last key says where; these are the numbers of head 1."""
    reasons = WORKED["where_it_does_not_multiply_out"]
    queries, keys, values = (torch.tensor(WORKED[f"{which}_by_head"][0]) for which in "QKV")
    scores = shown(queries @ keys.T)
    (given,) = re.findall(r"\[\[.*?\]\]", reasons["step 7, scores"])
    assert scores == json.loads(given)
    assert scores != WORKED["scores_printed"][0]

    scaled = torch.tensor(WORKED["scores_printed"][0][1][:2]) / WORKED["head_dim"] ** 0.5
    assert shown(torch.softmax(scaled, dim=0)) == [0.0528, 0.9472]
    assert "(0.0528, 0.9472), not (0.0724, 0.9276)" in reasons["step 8, softmax"]
    assert WORKED["weights_printed"][0][1][:2] == [0.0724, 0.9276]

    context_vec = shown(torch.tensor(WORKED["weights_printed"][0]) @ values)
    assert context_vec[1][0] == 0.7681
    assert "= 0.7681, not 0.8036" in reasons["step 9, context"]
    assert WORKED["context_printed"][0][1][0] == 0.8036


def test_the_worked_example_is_shown_to_the_digit():
    theirs = published_steps()
    assert counting().inputs.tolist() == WORKED["X"]
    for name, letter in (("queries", "Q"), ("keys", "K"), ("values", "V")):
        assert shown(getattr(theirs, name)) == WORKED[f"{letter}_by_head"][0]
    assert shown(theirs.cut.transpose(0, 1)) == WORKED["Q_by_head"]
    assert shown(theirs.scores) == WORKED["scores_printed"][0]
    assert shown(theirs.weights) == WORKED["weights_printed"][0]
    assert shown(theirs.context) == WORKED["context_printed"]
    assert shown(theirs.by_token.transpose(0, 1)) == WORKED["context_printed"]
    assert shown(theirs.merged) == WORKED["context_flattened_printed"]
    computed = WORKED["where_it_does_not_multiply_out"]["step 4, X @ W_q"]
    (given,) = re.findall(r"\[\[.*?\]\]", computed)
    difference = counting().inputs @ theirs.W_query - torch.tensor(json.loads(given))
    assert difference.abs().max() < 6e-5
    assert computed.endswith(
        f"prints {theirs.product[0, 0]:.4f}, {theirs.product[0, 1]:.4f}, ... instead"
    )
