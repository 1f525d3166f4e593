"""Where the published classes fail the contract, and ours hold: both sides of each.

The published ones are in published.py: a stored float mask, no checks of what comes in.
"""

# ruff: noqa: E501  # tables: one case on a line

from pathlib import Path

import pytest
import torch
from torch import nn

from attnlib import validate
from support import published
from support.cases import CONTEXT_LENGTH, D_IN, LESSON, B, H, T, name, projected, refused, tokens
from support.published import CLASSES, PublishedHeads, PublishedSplit

BOTH = pytest.mark.parametrize(
    ("case", "lesson"), list(zip(LESSON, CLASSES, strict=True)), ids=map(name, LESSON)
)
SPLIT = LESSON[-1]


def twins(case, lesson, **changes):
    theirs = lesson(**case.arguments(**changes))
    ours = case.build(**changes)
    theirs.load_state_dict(ours.state_dict(), strict=False)
    return theirs, ours


def sees_the_future(module, x):
    changed = x.clone()
    changed[:, -1] += 1
    return not torch.equal(module(changed)[:, 0], module(x)[:, 0])


@BOTH
def test_published_class_and_ours_agree_where_all_goes_well(case, lesson):
    theirs, ours = twins(case, lesson, qkv_bias=True)
    torch.testing.assert_close(theirs(tokens()), ours(tokens()))
    assert not sees_the_future(theirs, tokens())


# The mask of one token


@BOTH
def test_published_class_leaks_the_future_at_context_length_1_and_ours_refuses(case, lesson):
    """Its 1 x 1 mask broadcasts and hides nothing."""
    theirs, ours = twins(case, lesson, context_length=1)
    assert theirs(tokens()).shape == (B, T, case.width())
    assert sees_the_future(theirs, tokens())
    with refused(ValueError, f"x has {T} tokens, more than context_length=1"):
        ours(tokens())


# Cryptic errors


@BOTH
@pytest.mark.parametrize(
    ("x", "theirs_says", "error", "ours_says"),
    [
        (torch.ones(B, CONTEXT_LENGTH + 1, D_IN), "size of tensor a", ValueError, f"x has {CONTEXT_LENGTH + 1} tokens, more than context_length="),
        (torch.ones(B, T, 17), "shapes cannot be multiplied", ValueError, f"the last dimension of x must be d_in={D_IN}, not 17"),
        (
            torch.ones(B, T, D_IN).long(),
            "to have the same dtype|must have the same dtype",
            TypeError,
            "x must hold floating-point numbers, not torch.int64; try x.float()",
        ),
    ],
    ids=["length", "width", "integers"],
)  # fmt: skip
def test_published_class_speaks_of_mat1_and_ours_of_x(
    case, lesson, x, theirs_says, error, ours_says
):
    theirs, ours = twins(case, lesson)
    with pytest.raises(RuntimeError, match=theirs_says):
        theirs(x)
    with refused(error, ours_says):
        ours(x)


def test_published_head_takes_one_sequence_for_a_batch_and_ours_refuses():
    """Without a batch dimension theirs answers all the same, or cannot unpack the shape."""
    x = tokens()[0]
    words = f"x must be (b, num_tokens, d_in), not 2-d, ({T}, {D_IN}); for one sequence try"
    for case, lesson in zip(LESSON, CLASSES, strict=True):
        theirs, ours = twins(case, lesson)
        if lesson is PublishedSplit:
            with pytest.raises(ValueError, match="not enough values to unpack"):
                theirs(x)
        else:
            assert theirs(x).shape == (T, case.width())
        with refused(ValueError, words):
            ours(x)


UNEQUAL = {**SPLIT.arguments(), "d_out": 15, "num_heads": 4}


def test_published_class_asserts_that_heads_divide_d_out_and_ours_names_those_that_do():
    with pytest.raises(AssertionError, match=r"^d_out must be divisible by num_heads"):
        PublishedSplit(**UNEQUAL)
    with refused(ValueError, "the nearest head counts that divide 15: 3 and 5"):
        SPLIT.cls(**UNEQUAL)


def without_asserts(module):
    path = Path(module.__file__)
    names = {"__name__": module.__name__}
    exec(compile(path.read_text(encoding="utf-8"), path, "exec", optimize=1), names)
    return names


def test_published_assertion_is_gone_under_python_o_and_our_check_stays():
    """An assert is a comment there: the class is built, and forward fails in a view."""
    theirs = without_asserts(published)["PublishedSplit"](**UNEQUAL)
    with pytest.raises(RuntimeError, match="is invalid for input of size"):
        theirs(tokens())
    with refused(ValueError, "d_out=15 cannot be split into num_heads=4 heads of equal width"):
        without_asserts(validate)["require_equal_heads"](15, 4)


@BOTH
@pytest.mark.parametrize(
    ("argument", "value"), [("dropout", float("nan")), ("dropout", True), ("context_length", 0)]
)
def test_published_class_takes_an_argument_that_means_nothing_and_ours_refuses(
    case, lesson, argument, value
):
    assert isinstance(lesson(**case.arguments(**{argument: value})), nn.Module)
    with pytest.raises((TypeError, ValueError), match=f"^{argument} must .*, not {value}"):
        case.build(**{argument: value})


# The mask in the state_dict, and in memory


@BOTH
def test_published_state_dict_holds_masks_and_ours_only_weights(case, lesson):
    theirs, ours = twins(case, lesson)
    extra = theirs.state_dict().keys() - ours.state_dict().keys()
    assert extra
    assert all(key.endswith("mask") for key in extra)
    assert ours.state_dict().keys() == dict(ours.named_parameters()).keys()


@BOTH
def test_published_class_cannot_change_its_context_length_and_ours_can(case, lesson):
    """Weights saved at one length, loaded at another; ours takes the published file too."""
    theirs, ours = twins(case, lesson)
    longer = lesson(**case.arguments(context_length=29))
    with pytest.raises(RuntimeError, match=r"size mismatch for .*mask"):
        longer.load_state_dict(theirs.state_dict())
    for entries in (ours.state_dict(), theirs.state_dict()):
        again = case.build(seed=7, context_length=29)
        again.load_state_dict(entries, strict=True)
        assert torch.equal(again(tokens()), ours(tokens()))


def test_published_heads_keep_a_square_of_floats_each_and_ours_keep_none():
    """At 8192 tokens it is 268 MB a head; here the same count at 512."""
    case, length = LESSON[1], 512
    theirs, ours = (
        cls(**case.arguments(context_length=length)) for cls in (PublishedHeads, case.cls)
    )
    weights, masks = (
        sum(tensor.untyped_storage().nbytes() for tensor in found)
        for found in (theirs.parameters(), theirs.buffers())
    )
    assert masks == H * length * length * 4
    assert weights == sum(weight.untyped_storage().nbytes() for weight in ours.parameters())
    assert list(ours.buffers()) == []


# The meta device


@BOTH
@pytest.mark.parametrize("left", [0.0, 1.0])
def test_published_mask_is_garbage_after_the_meta_device_and_ours_is_made_anew(case, lesson, left):
    """Memory that to_empty leaves holds anything, for instance zeros: then nothing is hidden."""
    weights, x = case.build().state_dict(), tokens()
    results = []
    for cls in (lesson, case.cls):
        with torch.device("meta"):
            hollow = cls(**case.arguments())
        hollow.to_empty(device="cpu")
        for tensor in (*hollow.parameters(), *hollow.buffers()):
            nn.init.constant_(tensor, left)
        missing, _ = hollow.load_state_dict(weights, strict=False)
        results.append((hollow, missing))
    (theirs, missing), (ours, none_missing) = results
    assert missing
    assert all(key.endswith("mask") for key in missing)
    assert not none_missing
    assert sees_the_future(theirs, x) if left == 0 else theirs(x).isnan().all()
    assert torch.equal(ours(x), case.build()(x))


# NaN


@BOTH
def test_published_class_overflows_to_nan_in_half_precision_and_ours_stays_finite(case, lesson):
    """It divides after the product of queries and keys, which is beyond float16 by then."""
    theirs, ours = twins(case, lesson, head_dim=16)
    x = tokens()
    scores = projected(ours, "W_query", x) @ projected(ours, "W_key", x).mT
    x = (x * (1.5 * 65504 / scores.max()).sqrt()).half()
    assert theirs.half()(x).isnan().any()
    assert ours.half()(x).isfinite().all()


@BOTH
def test_a_nan_in_the_future_reaches_the_past_in_both_and_ours_says_so(case, lesson):
    """0 * NaN is NaN. The docstring of attention tells it; nothing else is promised."""
    theirs, ours = twins(case, lesson)
    x = tokens()
    x[:, -1] = torch.nan
    for module in (theirs, ours):
        assert module(x)[:, :-1].isnan().all()
    _, attn_weights = ours(x, return_weights=True)
    assert (attn_weights[..., :-1, -1] == 0).all()
