"""The lessons and their examples have the numbers that published lessons print."""

import json
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attncourse.examples import SEED, counting, journey, published_steps, three_rows
from attncourse.tracing import trace
from attncourse.variants import InlinedAttention
from support.notebook_tools import ROOT, code_cells, markdown_cells, read
from support.notebook_tools import text_of as text_shown

NOTEBOOKS = ROOT / "notebooks"
FOLDER = Path(__file__).parents[1] / "golden"
PRINTED = json.loads((FOLDER / "printed_tensors.json").read_text(encoding="utf-8"))
WORKED = json.loads((FOLDER / "worked_example.json").read_text(encoding="utf-8"))
OURS = ("stacked_heads_2", "stacked_heads_3", "weight_split")


def shown(tensor: Tensor) -> list:
    """Return a tensor's numbers to the four decimals that are printed."""
    return [shown(part) if part.ndim else round(part.item(), 4) + 0.0 for part in tensor.detach()]


@pytest.mark.parametrize(
    ("lesson", "which", "columns"),
    [
        ("01_causal_attention", "stacked_heads_2", 2),
        ("02_stacked_heads", "stacked_heads_2", None),
        ("02_stacked_heads", "stacked_heads_3", None),
        ("03_weight_split", "weight_split", None),
    ],
)
def test_a_lesson_prints_the_published_tensor(lesson, which, columns):
    """The lesson on one head prints its columns alone."""
    first, second = PRINTED[which]["printed"]  # the batch holds one text twice
    assert first == second
    outputs = [o for _, c in code_cells(read(NOTEBOOKS / f"{lesson}.ipynb")) for o in c["outputs"]]
    printed = [text_shown(output).partition("grad_fn")[0] for output in outputs]
    numbers = [f"{x:.4f}" for row in first for x in row[:columns]]
    assert numbers in [re.findall(r"-?\d\.\d{4}", text) for text in printed]


@pytest.mark.parametrize("which", OURS)
def test_the_examples_by_name_are_the_published_inputs(which):
    golden = PRINTED[which]
    example = three_rows() if which == "weight_split" else journey()
    assert torch.equal(example.inputs, torch.tensor(golden["inputs"]))
    assert torch.equal(example.batch(), torch.tensor([golden["inputs"]] * 2))
    assert list(example.tokens) == golden.get("tokens", list(example.tokens))
    assert len(example.tokens) == len(golden["inputs"])
    assert golden["seed"] == SEED


def test_the_appendix_has_the_nine_published_shapes():
    """As the appendix lists them, and as our class makes them."""
    lesson = read(NOTEBOOKS / "a1_worked_examples.ipynb")
    (text,) = [text for _, text in markdown_cells(lesson) if "*Wait, no!*" in text]
    listed = re.findall(r"^\| [a-z ]+ \| (\(.*?\)) \|$", text, re.MULTILINE)
    module = InlinedAttention(6, 6, context_length=3, dropout=0.0, num_heads=2)
    once = {"queries", "keys", "scaled", "attn_weights"}  # of a shape that is there already
    made = [
        str(step.shape)
        for step in trace(module, three_rows().inputs[None]).steps
        if step.name not in once and step.change != "in place"
    ]
    assert listed == made
    assert len(made) == 9


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
