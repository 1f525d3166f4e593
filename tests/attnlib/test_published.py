"""Where the published classes fail: the list that ends docs/contract.md, line by line.

They are in support/published.py. That ours do not fail is tested with each promise.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from support import published
from support.cases import CONTEXT_LENGTH, D_IN, LESSON, B, Case, H, T, name, projected, tokens
from support.published import CLASSES, PublishedHeads, PublishedSplit

EVERY = pytest.mark.parametrize(
    ("case", "cls"), list(zip(LESSON, CLASSES, strict=True)), ids=map(name, LESSON)
)
UNEQUAL = {**LESSON[-1].arguments(), "d_out": 15, "num_heads": 4}


def build(case: Case, cls: type[nn.Module], **changes: object) -> nn.Module:
    torch.manual_seed(1)
    return cls(**case.arguments(**changes))


def sees_the_future(module: nn.Module, x: Tensor) -> bool:
    changed = x.clone()
    changed[:, -1] += 1
    return not torch.equal(module(changed)[:, 0], module(x)[:, 0])


@EVERY
def test_where_all_goes_well_they_are_right(case, cls):
    theirs = build(case, cls, qkv_bias=True)
    torch.testing.assert_close(theirs(tokens()), case.build(qkv_bias=True)(tokens()))
    assert not sees_the_future(theirs, tokens())


@EVERY
def test_the_future_leaks_at_context_length_1(case, cls):
    """The mask, 1 x 1, broadcasts and hides nothing."""
    theirs = build(case, cls, context_length=1)
    assert theirs(tokens()).shape == (B, T, case.width())
    assert sees_the_future(theirs, tokens())


@EVERY
@pytest.mark.parametrize(
    ("x", "words"),
    [
        (torch.ones(B, CONTEXT_LENGTH + 1, D_IN), "size of tensor a"),
        (torch.ones(B, T, 17), "shapes cannot be multiplied"),
        (torch.ones(B, T, D_IN).long(), "(must|to) have the same dtype"),
    ],
    ids=["length", "width", "integers"],
)
def test_errors_are_about_what_the_caller_never_made(case, cls, x, words):
    with pytest.raises(RuntimeError, match=words):
        build(case, cls)(x)


def test_one_text_without_a_batch_passes_or_cannot_be_unpacked():
    *others, split = map(build, LESSON, CLASSES)
    for case, theirs in zip(LESSON, others, strict=False):
        assert theirs(tokens()[0]).shape == (T, case.width())
    with pytest.raises(ValueError, match="not enough values to unpack"):
        split(tokens()[0])


def test_heads_that_do_not_divide_the_width_are_an_assertion_which_python_o_drops():
    with pytest.raises(AssertionError, match=r"^d_out must be divisible by num_heads"):
        PublishedSplit(**UNEQUAL)
    names, text = {"__name__": "published"}, Path(published.__file__).read_text(encoding="utf-8")
    exec(compile(text, published.__file__, "exec", optimize=1), names)
    with pytest.raises(RuntimeError, match="is invalid for input of size"):
        names["PublishedSplit"](**UNEQUAL)(tokens())


@EVERY
@pytest.mark.parametrize(("argument", "value"), [("dropout", torch.nan), ("context_length", 0)])
def test_arguments_that_mean_nothing_are_accepted(case, cls, argument, value):
    assert isinstance(build(case, cls, **{argument: value}), nn.Module)


@EVERY
def test_masks_are_in_the_state_dict_so_that_no_other_context_length_loads_it(case, cls):
    stored = build(case, cls).state_dict()
    assert {
        key for key in stored if key.endswith("mask")
    } == stored.keys() - case.build().state_dict()
    with pytest.raises(RuntimeError, match=r"size mismatch for .*mask"):
        build(case, cls, context_length=29).load_state_dict(stored)


def test_each_head_keeps_a_square_of_floats():
    masks = build(LESSON[1], PublishedHeads, context_length=512).buffers()
    assert sum(mask.untyped_storage().nbytes() for mask in masks) == H * 512 * 512 * 4


@EVERY
@pytest.mark.parametrize("left", [0.0, 1.0])
def test_from_the_meta_device_the_mask_is_garbage(case, cls, left):
    """Memory that to_empty leaves holds anything, for instance zeros: then nothing is hidden."""
    with torch.device("meta"):
        hollow = build(case, cls)
    hollow.to_empty(device="cpu")
    for mask in hollow.buffers():
        nn.init.constant_(mask, left)
    hollow.load_state_dict(case.build().state_dict(), strict=False)
    assert sees_the_future(hollow, tokens()) if left == 0 else hollow(tokens()).isnan().all()


@EVERY
def test_large_scores_in_float16_are_nan(case, cls):
    """They are divided after the product of queries and keys, which is beyond float16 by then."""
    ours, x = case.build(head_dim=16), tokens()
    scores = projected(ours, "W_query", x) @ projected(ours, "W_key", x).mT
    x = x * (1.5 * 65504 / scores.max()).sqrt()
    assert build(case, cls, head_dim=16).half()(x.half()).isnan().any()


@EVERY
def test_a_nan_in_the_future_reaches_the_past(case, cls):
    """In ours too, as the docstring of attention says."""
    x = tokens()
    x[:, -1] = torch.nan
    assert build(case, cls)(x)[:, :-1].isnan().all()
