"""Every bad argument is refused at the earliest point, in words that name value and rule."""

import re

import numpy as np
import pytest
import torch

from attnlib.validate import require_positive_int, require_probability
from support.cases import CASES, D_IN, SEVERAL_HEADS, T, name, nested, refused, tokens

ALL = pytest.mark.parametrize("case", CASES, ids=name)
ONE_WIDTH_FOR_ALL = [case for case in SEVERAL_HEADS if case.d_out_is_total]


# Arguments of the constructors


@pytest.mark.promise(number=10)
@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (np.int64(0), ValueError, "n must be a positive int, not 0"),
        (2.0, TypeError, "n must be a positive int, not 2.0 (float)"),
        (True, TypeError, "n must be a positive int, not True (bool)"),
        ("3", TypeError, "n must be a positive int, not '3' (str)"),
        (np.float64(2.0), TypeError, "n must be a positive int, not np.float64(2.0) (float64)"),
        (np.bool_(True), TypeError, "n must be a positive int, not np.True_ (bool)"),
    ],
)
def test_what_is_not_a_size(value, error, words):
    with refused(error, words):
        require_positive_int("n", value)


@pytest.mark.promise(number=10)
@ALL
@pytest.mark.parametrize(
    ("argument", "value", "error", "rule"),
    [
        ("d_in", 0, ValueError, "be a positive int"),
        ("d_out", 0, ValueError, "be a positive int"),
        ("context_length", 0, ValueError, "be a positive int"),
        ("dropout", 1.5, ValueError, "lie between 0 and 1"),
        ("qkv_bias", 1, TypeError, "be True or False"),
        ("dtype", "float32", TypeError, "be floating, for instance torch.float32"),
        ("dtype", torch.int64, TypeError, "be floating, for instance torch.float32"),
    ],
)
def test_arguments_of_every_class(case, argument, value, error, rule):
    with refused(error, f"{argument} must {rule}, not {value!r}"):
        case.build(**{argument: value})


@pytest.mark.promise(number=10)
@pytest.mark.parametrize("case", ONE_WIDTH_FOR_ALL, ids=name)
@pytest.mark.parametrize(
    ("d_out", "num_heads", "nearest"),
    [
        (15, 2, "divide 15: 1 and 3"),
        (12, 5, "divide 12: 4 and 6"),
        (13, 7, "divide 13: 1 and 13"),
        (6, 12, "divide 6: 6"),
    ],
)
def test_d_out_that_the_heads_do_not_divide(case, d_out, num_heads, nearest):
    message = (
        f"d_out={d_out} cannot be split into num_heads={num_heads} heads of equal width; "
        f"the nearest head counts that {nearest}"
    )
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        case.cls(**{**case.arguments(), "d_out": d_out, "num_heads": num_heads})


@pytest.mark.promise(number=10)
@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (-0.1, ValueError, "dropout must lie between 0 and 1, not -0.1"),
        (1.5, ValueError, "dropout must lie between 0 and 1, not 1.5"),
        (np.float32("nan"), ValueError, "dropout must lie between 0 and 1, not nan"),
        ("0.1", TypeError, "dropout must be a number from 0 to 1, not '0.1'"),
        (True, TypeError, "dropout must be a number from 0 to 1, not True"),
        (np.bool_(True), TypeError, "dropout must be a number from 0 to 1, not np.True_"),
    ],
)
def test_what_is_not_a_probability(value, error, words):
    with refused(error, words):
        require_probability("dropout", value)


# The input of forward


@pytest.mark.promise(number=10)
@ALL
@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        ([[1.0]], TypeError, "x must be a torch.Tensor, not list; try torch.tensor(x)"),
        (torch.ones(2, T, D_IN).long(), TypeError, "numbers, not torch.int64; try x.float()"),
        (torch.ones(T, D_IN), ValueError, f"not 2-d, ({T}, {D_IN}); for one sequence try"),
        (torch.ones(2, 3, T, D_IN), ValueError, f"not 4-d, (2, 3, {T}, {D_IN})"),
        (torch.ones(2, T, 17), ValueError, f"of x must be d_in={D_IN}, not 17: (2, {T}, 17)"),
        (
            torch.ones(2, 14, D_IN),
            ValueError,
            "x has 14 tokens, more than context_length=13; try x[:",
        ),
        (torch.ones(2, T, D_IN).double(), TypeError, "the weights are torch.float32; try x.to("),
        (torch.ones(2, T, D_IN, device="meta"), ValueError, "the weights are on cpu; try x.to("),
        (nested, TypeError, "x must not be a nested tensor; try torch.nested.to_padded_tensor(x"),
    ],
)
def test_bad_input_is_refused_before_anything_is_computed(case, x, error, words):
    module, ran = case.build(), []
    for part in module.modules():
        if isinstance(part, torch.nn.Linear):
            part.register_forward_pre_hook(lambda part, inputs: ran.append(part))
    with refused(error, words):
        module(x(D_IN) if x is nested else x)
    assert ran == []
    module(tokens())
    assert ran


@pytest.mark.promise(number=10)
@ALL
def test_on_the_meta_device_another_dtype_is_refused_too(case):
    """Where no autocast is known."""
    module = case.build(device="meta")
    with refused(TypeError, "x is torch.float64, the weights are torch.float32; try x.to("):
        module(torch.ones(2, T, D_IN, dtype=torch.float64, device="meta"))
    assert module(torch.ones(2, T, D_IN, device="meta")).is_meta


@pytest.mark.promise(number=10)
@ALL
def test_more_tokens_than_context_length_1(case):
    """Where a stored 1 x 1 mask would broadcast and let the future through."""
    module = case.build(context_length=1)
    assert module(tokens(num_tokens=1)).shape == (2, 1, case.width())
    with refused(ValueError, "x has 2 tokens, more than context_length=1; try x[:, -1:]"):
        module(tokens(num_tokens=2))


@ALL
def test_autocast_takes_what_it_casts(case):
    """Under autocast the input need not have the dtype of the weights."""
    module, x = case.build(), tokens(dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        context_vec = module(x)
    assert context_vec.dtype == torch.bfloat16
    torch.testing.assert_close(context_vec.float(), module(x.float()), atol=0.05, rtol=0.05)
    with refused(TypeError, "x is torch.bfloat16, the weights are torch.float32"):
        module(x)


# Numbers of NumPy are numbers


@pytest.mark.parametrize("size", [np.int64, np.int16, np.uint8])
@pytest.mark.parametrize("rate", [np.float64, np.float32, np.float16])
@ALL
def test_sizes_and_rates_of_numpy(case, size, rate):
    """They are kept as Python's: sums of uint8 would overflow, and no compiler takes the rest."""
    given = {key: size(value) for key, value in case.arguments().items()}
    torch.manual_seed(1)
    module = case.cls(**{**given, "dropout": rate(0.5)})
    plain = case.build(dropout=0.5)
    assert repr(module) == repr(plain)
    for part in module.modules():
        assert not any(isinstance(value, np.generic) for value in vars(part).values())
    torch.testing.assert_close(module.eval()(tokens()), plain.eval()(tokens()))
