"""The broken forwards of the workshop: each stops or runs in a way of its own, and any repair."""

from __future__ import annotations

import pytest
import torch

from attncourse.checks import check_repair, traceable_example
from attncourse.checks.safe_run import NOT_ATTEMPTED
from attncourse.tracing import trace
from attncourse.variants import broken
from attncourse.variants.broken import BROKEN_LINES, WholeAttention, broken_source, in_author_names
from attncourse.variants.changes import compile_class
from attnlib import MultiHeadAttention, attention, causal_mask, merge_heads, split_heads

MESSAGES = {
    "Broken1": "The size of tensor a (2) must match the size of tensor b (5) at non-singleton",
    "Broken2": "The size of tensor a (4) must match the size of tensor b (5) at non-singleton",
    "Broken3": "Expected size for first two dimensions of batch2 tensor to be: [2, 3] but got:",
    "Broken4": "mat1 and mat2 shapes cannot be multiplied (10x3 and 6x6)",
    "Broken5": "view size is not compatible with input tensor's size and stride",
    "Broken6": "shape '[1, -1, 2, 4]' is invalid for input of size 30",
    "Broken9": "mat1 and mat2 shapes cannot be multiplied (10x3 and 6x6)",
}
USES = {**vars(broken), "MultiHeadAttention": MultiHeadAttention}
RUNS = {"Broken7": [40, 41, 42, 3, 4, 5], "Broken8": [20, 23, 21, 24, 22, 25]}


def as_broken(name: str) -> type[MultiHeadAttention]:
    text = f"class {name}(MultiHeadAttention):\n{broken_source(name)}"
    return compile_class(text, name, name, USES)


@pytest.mark.parametrize("name", MESSAGES)
def test_each_stops_with_a_message_of_pytorch(name):
    assert str(trace(*traceable_example(as_broken(name))).failure.error).startswith(MESSAGES[name])


def test_the_same_message_says_which_tensor_by_its_size_alone():
    """A is the scores where they are changed in place, and the mask where they are not."""
    sizes = {}
    for name in ("Broken1", "Broken2"):
        failure = trace(*traceable_example(as_broken(name))).failure
        scores, mask = (in_author_names(name, word) for word in ("attn_scores", "is_future"))
        sizes[name] = failure.shapes[scores][-1], failure.shapes[mask][-1]
        first = 0 if name == "Broken1" else 1
        assert f"tensor a ({sizes[name][first]})" in str(failure.error)


def test_as_many_tokens_as_heads_hide_a_missing_transpose():
    """What notebook 04 says of its first class."""
    module, x = traceable_example(as_broken("Broken1"))
    assert [t for t in range(1, 6) if trace(module, x[:, :t]).failure is None] == [2]


@pytest.mark.parametrize("name", RUNS)
def test_two_run_and_are_wrong(name):
    module, x = traceable_example(as_broken(name))
    result = module(x)
    assert result.shape == (1, 5, 6)
    assert result[0, 2].round().tolist() == RUNS[name]


@pytest.mark.parametrize("name", BROKEN_LINES)
def test_what_is_as_it_was_is_not_attempted_and_ours_is_right(name):
    verdict = check_repair(as_broken(name))
    assert str(verdict) == NOT_ATTEMPTED
    ours = verdict.answer_or_reference()
    assert ours is WholeAttention
    assert check_repair(type(name, (ours,), {}))


@pytest.mark.parametrize("name", BROKEN_LINES)
def test_a_repair_in_any_style_is_right(name):
    def forward(self, x):
        heads = (split_heads(W(x), self.head_dim) for W in (self.W_query, self.W_key, self.W_value))
        return self.out_proj(merge_heads(attention(*heads, causal_mask(x.shape[1]))[0]))

    assert check_repair(type(name, (MultiHeadAttention,), {"forward": forward}))


def test_as_many_texts_as_heads_hide_wrong_axes():
    """The last one stops for one text and for three; for two it runs, and is wrong."""
    module, x = traceable_example(as_broken("Broken9"))
    for b, wide in ((1, "10x3"), (3, "10x9")):
        with pytest.raises(RuntimeError, match=rf"cannot be multiplied \({wide} and 6x6\)"):
            module(x.repeat(b, 1, 1))
    two = module(x.repeat(2, 1, 1))
    assert two.shape == (2, 5, 6)
    right, _ = traceable_example(WholeAttention)
    assert not torch.allclose(two, right(x.repeat(2, 1, 1)), rtol=0, atol=5.0)


def test_a_class_under_another_name_is_told_to_keep_it():
    verdict = check_repair(type("B1", (WholeAttention,), {}))
    said = "B1 is not one of Broken1 to Broken9: leave the class its name."
    assert (str(verdict), verdict.answer_or_reference()) == (said, WholeAttention)
