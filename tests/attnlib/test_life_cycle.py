"""What happens to a module besides running: copied, stored, loaded, moved, printed, built large."""

import copy
import io
import pickle
import re

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnlib import MultiHeadAttention, MultiHeadAttentionWrapper
from support.cases import (
    CASES,
    CONTEXT_LENGTH,
    CONTRACT,
    D_IN,
    LESSON,
    Case,
    H,
    LargestTensor,
    name,
    tokens,
)

ALL = pytest.mark.parametrize("case", CASES, ids=name)
CONTRACTED = pytest.mark.parametrize("case", CONTRACT, ids=name)


def stored(thing: object, weights_only: bool = True) -> object:
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


@pytest.mark.promise(number=16)
@CONTRACTED
@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda module: pickle.loads(pickle.dumps(module)),
        lambda module: stored(module, weights_only=False),
    ],
    ids=["deepcopy", "pickle", "save"],
)
def test_a_copy_is_equal_and_independent(case, copied):
    module, x = case.build(dropout=0.3, qkv_bias=True).eval(), case.tokens()
    before = module(x).detach()
    twin = copied(module)
    assert torch.equal(twin(x), before)
    assert repr(twin) == repr(module)
    with torch.no_grad():
        for weight in twin.parameters():
            weight.zero_()
    assert torch.equal(module(x), before)


@pytest.mark.promise(number=16)
@ALL
def test_repr_shows_the_arguments(case):
    arguments = case.arguments(dropout=0.25, qkv_bias=True)
    text = repr(case.cls(**arguments))
    sizes = {key: arguments[key] for key in ("d_in", "d_out", "context_length")}
    for key, value in {**sizes, **case.arguments()}.items():
        if key != "dropout":
            assert f"{key}={value}" in text.splitlines()[1]
    assert "Dropout(p=0.25" in text
    assert f"in_features={D_IN}" in text
    assert "bias=True" in text


@pytest.mark.promise(number=13)
@ALL
def test_device_and_dtype_are_arguments(case):
    """What is made there is what the default dtype makes."""
    module = case.build(qkv_bias=True, device="meta", dtype=torch.bfloat16)
    assert all(weight.is_meta and weight.dtype == torch.bfloat16 for weight in module.parameters())
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        expected = case.build(qkv_bias=True).state_dict()
    finally:
        torch.set_default_dtype(before)
    found = case.build(qkv_bias=True, device="cpu", dtype=torch.float64).state_dict()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


# State dicts


def test_the_names_in_the_state_dict_are_those_of_the_field():
    single, stacked, split = (set(case.build(qkv_bias=True).state_dict()) for case in LESSON)
    in_kernel = [case for case in CASES if case.in_kernel]
    projections = {
        f"W_{which}.{part}" for which in ("query", "key", "value") for part in ("weight", "bias")
    }
    assert single == projections
    assert stacked == {f"heads.{h}.{key}" for h in range(H) for key in projections}
    out_proj = {"out_proj.weight", "out_proj.bias"}
    assert split == projections | out_proj
    for case in in_kernel:
        fused = set(case.build(qkv_bias=True).state_dict())
        assert fused == {"W_qkv.weight", "W_qkv.bias"} | out_proj


@pytest.mark.promise(number=16)
@CONTRACTED
@pytest.mark.parametrize("context_length", [7, 13, 29])
def test_saved_weights_load_at_another_context_length(case, context_length):
    module = case.build(seed=1, qkv_bias=True)
    other = case.build(seed=2, qkv_bias=True, context_length=context_length)
    x = case.tokens()
    assert not torch.equal(other(x), module(x))
    assert not any(other.load_state_dict(stored(module.state_dict()), strict=True))
    assert torch.equal(other(x), module(x))


@pytest.mark.promise(number=26)
@ALL
def test_a_subclass_saves_and_loads_a_buffer_of_its_own(case):
    class Counting(case.cls):
        def __init__(self, **arguments) -> None:
            super().__init__(**arguments)
            self.register_buffer("count", torch.zeros(3))

    module, other = Counting(**case.arguments()), Counting(**case.arguments())
    module.count += 3
    assert not any(other.load_state_dict(stored(module.state_dict()), strict=True))
    assert torch.equal(other.count, module.count)
    assert torch.equal(other(tokens()), module(tokens()))


LESSONS = pytest.mark.parametrize("case", LESSON, ids=name)


def with_masks(case: Case, mask: torch.Tensor) -> tuple[list[str], dict[str, torch.Tensor]]:
    """Return weights beside the masks that published classes store, and the masks' names."""
    stacked = case.cls is MultiHeadAttentionWrapper
    names = [f"heads.{h}.mask" for h in range(H)] if stacked else ["mask"]
    return names, case.build(seed=1).state_dict() | dict.fromkeys(names, mask)


@pytest.mark.promise(number=16)
@LESSONS
@pytest.mark.parametrize("context_length", [13, 29])
def test_a_published_state_dict_loads(case, context_length):
    """With strict=True, at any context_length."""
    _, entries = with_masks(case, torch.ones(13, 13).triu(1))
    before = list(entries)
    module = case.build(seed=2, context_length=context_length)
    assert not any(module.load_state_dict(stored(entries), strict=True))
    module.load_state_dict(entries, strict=True)
    assert list(entries) == before  # the caller keeps the masks
    assert torch.equal(module(tokens()), case.build(seed=1)(tokens()))
    with torch.device("meta"):  # a mask without numbers cannot be judged; it is left out as well
        hollow = {key: torch.empty_like(entry, device="meta") for key, entry in entries.items()}
        module = case.cls(**case.arguments())
    assert not any(module.load_state_dict(hollow, strict=True, assign=True))


@pytest.mark.promise(number=16)
@LESSONS
@pytest.mark.parametrize(
    "mask",
    [
        torch.ones(13, 13).triu(0),  # a token may not see itself
        torch.ones(13, 13).triu(2),  # a token may see the next one
        torch.ones(13, 13).tril(),  # True means: may attend
        torch.zeros(13, 13),
        torch.ones(13, 7).triu(1),
        torch.ones(2, 13, 13).triu(1),
        torch.tensor(1.0),
    ],
    ids=["diagonal 0", "2", "flipped", "none", "not square", "two", "0-d"],
)
def test_a_mask_that_is_not_causal_is_refused(case, mask):
    """It would change the result: with strict=True it is an error, else told."""
    names, theirs = with_masks(case, torch.ones(13, 13).triu(1))
    last = names[-1]
    words = f"the entry '{last}', {tuple(mask.shape)}, is not the causal mask"
    entries = {**theirs, last: mask}
    with (
        pytest.warns(UserWarning, match=re.escape(words)),
        pytest.raises(RuntimeError, match=re.escape(f'Unexpected key(s) in state_dict: "{last}"')),
    ):
        case.build().load_state_dict(entries)
    module = case.build()
    with pytest.warns(UserWarning, match=re.escape(words)):
        missing, unexpected = module.load_state_dict(entries, strict=False)
    assert (missing, unexpected) == ([], [last])
    assert all(torch.equal(weight, theirs[key]) for key, weight in module.state_dict().items())


class Masked(MultiHeadAttention):
    def __init__(self, *sizes, **options) -> None:
        super().__init__(*sizes, **options)
        self.register_buffer("mask", torch.ones(self.context_length, self.context_length).triu(2))


@pytest.mark.promise(number=26)
def test_a_subclass_saves_and_loads_a_mask_of_its_own():
    """Whatever is in it; one that is not saved is not missed, and one not its own is dropped."""
    arguments = LESSON[-1].arguments()
    module, other = Masked(**arguments), Masked(**arguments)
    module.mask += 3
    assert "mask" in module.state_dict()
    assert not any(other.load_state_dict(stored(module.state_dict()), strict=True))
    assert torch.equal(other.mask, module.mask)
    other.register_buffer("mask", None)
    published = MultiHeadAttention(**arguments).state_dict() | {"mask": torch.ones(5, 5).triu(1)}
    assert not any(other.load_state_dict(published, strict=True))
    outer = torch.nn.Sequential(Masked(**arguments))
    assert not any(outer.load_state_dict({f"0.{k}": e for k, e in module.state_dict().items()}))


@LESSONS
def test_a_causal_mask_of_any_kind_is_accepted(case):
    """Bool, float or -inf above the diagonal, with leading dimensions of 1 as in GPT-2."""
    names, entries = with_masks(case, torch.ones(13, 13).triu(1))
    module = case.build()
    for mask in (
        torch.ones(5, 5, dtype=torch.bool).triu(1),
        torch.full((5, 5), -torch.inf).triu(1),
        torch.ones(31, 31, dtype=torch.float64).triu(1),
        torch.ones(1, 1, 13, 13).triu(1),
        torch.zeros(1, 1),
        torch.zeros(0, 0),
    ):
        assert not any(module.load_state_dict({**entries, **dict.fromkeys(names, mask)}))


# Memory and devices


@pytest.mark.promise(number=17)
@ALL
@pytest.mark.parametrize("context_length", [1, 13, 8192])
def test_context_length_costs_no_memory(case, context_length):
    """Nothing that a module holds or makes, in a buffer or outside of one, grows with it."""
    with LargestTensor() as made:
        module = case.build(context_length=context_length)
    assert made.numbers == max(weight.numel() for weight in module.parameters())
    held = [thing for part in module.modules() for thing in vars(part).values()]
    assert not any(isinstance(thing, torch.Tensor) for thing in held)
    tensors = [*module.parameters(), *module.buffers()]
    expected = [weight.nbytes for weight in case.build().parameters()]
    assert [tensor.untyped_storage().nbytes() for tensor in tensors] == expected


@pytest.mark.promise(number=18)
@CONTRACTED
def test_from_the_meta_device(case):
    """Meta, to_empty, load_state_dict: nothing is left uninitialized."""
    module, x = case.build(qkv_bias=True), case.tokens()
    with torch.device("meta"):
        hollow = case.cls(**case.arguments(qkv_bias=True))
    assert all(weight.is_meta for weight in hollow.parameters())
    hollow.to_empty(device="cpu")
    for weight in hollow.parameters():
        nn.init.constant_(weight, torch.nan)  # what to_empty leaves is anything
    hollow.load_state_dict(module.state_dict())
    assert torch.equal(hollow(x), module(x))


class OneDevice(TorchDispatchMode):
    """Refuse to combine tensors of two devices; meta lets a mask of the CPU pass."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = [part for part in tree_leaves((args, kwargs)) if isinstance(part, torch.Tensor)]
        assert len({tensor.device for tensor in given}) <= 1, f"{func} is given two devices"
        return func(*args, **(kwargs or {}))


@ALL
def test_everything_is_made_where_the_input_is(case):
    """On a machine without a second device: meta has shapes and no numbers."""
    module, x = case.build().to("meta"), tokens().to("meta")
    with OneDevice(), torch.no_grad():
        assert module(x).is_meta
        assert all(result.is_meta for result in module(x, return_weights=True))
        if case.in_kernel:
            cache = module.new_cache(len(x), CONTEXT_LENGTH)
            for piece, return_weights in zip(x.split(3, dim=1), (False, False, True), strict=True):
                result = module(piece, return_weights, cache)
            assert all(part.is_meta for part in (*result, cache.keys, cache.values))
