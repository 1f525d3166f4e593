"""MultiheadAttention is torch.nn.MultiheadAttention: its arguments, its weights, its numbers."""

import inspect
import random
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn, zeros

from attncourse.variants.torch_multihead import MultiheadAttention, apply_mask
from support.cases import nested, refused

B, HEADS, HEAD_DIM, QUERIES, KEYS, KDIM, VDIM = 2, 3, 5, 7, 11, 13, 17  # no two alike
EMBED_DIM = HEADS * HEAD_DIM
X = (B, QUERIES, EMBED_DIM)


def randomised(module: nn.Module, seed: int = 1) -> nn.Module:
    """Give every parameter random values: biases start as zeros, and zeros hide faults."""
    torch.manual_seed(seed)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.2)
    return module


def twins(seed: int = 1, **arguments: Any) -> tuple[nn.MultiheadAttention, MultiheadAttention]:
    arguments = {"embed_dim": EMBED_DIM, "num_heads": HEADS, **arguments}
    theirs = randomised(nn.MultiheadAttention(**arguments), seed)
    ours = MultiheadAttention(**arguments)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return theirs, ours


def three_inputs(kdim: int = EMBED_DIM, vdim: int = EMBED_DIM) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    shapes = ((B, QUERIES, EMBED_DIM), (B, KEYS, kdim), (B, KEYS, vdim))
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def test_its_arguments_are_those_of_pytorchs_class():
    """Names, order and defaults, batch_first=False among them."""
    for method in ("__init__", "forward"):
        theirs, ours = (
            inspect.signature(getattr(cls, method)).parameters.values()
            for cls in (nn.MultiheadAttention, MultiheadAttention)
        )
        expected = [(each.name, each.default, each.kind) for each in theirs]
        assert [(each.name, each.default, each.kind) for each in ours] == expected


# The sweep: all options of constructor and forward, drawn at random

OPTIONS: dict[str, tuple] = {
    "num_heads": (1, 2, 3, 4),
    "head_dim": (1, 2, 5),
    "bias": (True, False),
    "add_bias_kv": (False, True),
    "add_zero_attn": (False, True),
    "kdim": (None, KDIM),
    "vdim": (None, VDIM),
    "layout": ("batch first", "tokens first", "one sequence"),
    "inputs": ("self", "cross", "three"),  # query is key is value; key is value; three tensors
    "attn_mask": (None, "bool", "float", "bool per head", "float per head", "causal"),
    "key_padding_mask": (None, "bool", "float"),
    "need_weights": (True, False),
    "average_attn_weights": (True, False),
    "is_causal": (False, True),
    "mode": ("train", "eval", "eval, no gradients"),
    "dropout": (0.0, 0.3),
}
CONFIGURATIONS, PER_TEST = 160, 40
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5}


def draw(seed: int) -> dict[str, Any]:
    """Choose a value for every option, and take back what contradicts another choice."""
    choose = random.Random(seed).choice
    how = {option: choose(values) for option, values in OPTIONS.items()}
    if how["inputs"] != "three":
        how["kdim"] = how["vdim"] = None if how["inputs"] == "self" else how["kdim"]
    if how["mode"] == "train":
        how["dropout"] = 0.0
    if how["attn_mask"] and how["key_padding_mask"]:  # PyTorch warns when their dtypes differ
        how["key_padding_mask"] = "float" if "float" in how["attn_mask"] else "bool"
    appended = how["add_bias_kv"] or how["add_zero_attn"]
    if how["attn_mask"] != "causal" or (appended and not how["need_weights"]):
        how["is_causal"] = False  # in the second case PyTorch hides the appended position too
    return how


def masks(how: dict[str, Any], sizes: tuple[int, int, int], seed: int, dtype: torch.dtype) -> dict:
    b, num_queries, num_keys = sizes
    generator = torch.Generator().manual_seed(seed)

    def random_mask(kind: str, *shape: int) -> Tensor:
        is_masked = torch.rand(shape, generator=generator) < 0.4
        is_masked[..., 0] = False
        added = torch.randn(shape, generator=generator, dtype=dtype)
        return is_masked if "bool" in kind else added.masked_fill(is_masked, -torch.inf)

    found: dict[str, Tensor | None] = {"attn_mask": None, "key_padding_mask": None}
    if how["attn_mask"] == "causal":
        found["attn_mask"] = torch.ones(num_queries, num_keys).triu(1).bool()
    elif how["attn_mask"]:
        batch = [b * how["num_heads"]] if "per head" in how["attn_mask"] else []
        found["attn_mask"] = random_mask(how["attn_mask"], *batch, num_queries, num_keys)
    if how["key_padding_mask"]:
        batch = [] if how["layout"] == "one sequence" else [b]
        found["key_padding_mask"] = random_mask(how["key_padding_mask"], *batch, num_keys)
    return found


def run(module: nn.Module, tensors: dict[str, Tensor], how: dict[str, Any]) -> dict[str, Tensor]:
    has_gradients = how["mode"] != "eval, no gradients"
    leaves = {
        name: x.clone().requires_grad_(has_gradients and x.is_floating_point())
        for name, x in tensors.items()
    }
    call = dict(leaves)
    call.setdefault("key", call["query"])
    call.setdefault("value", call["key"])
    flags = {flag: how[flag] for flag in ("need_weights", "average_attn_weights", "is_causal")}
    with torch.set_grad_enabled(has_gradients):
        results = module.train(how["mode"] == "train")(**call, **flags)
    found = {
        name: result
        for name, result in zip(("attn_output", "attn_weights"), results, strict=True)
        if result is not None
    }
    if has_gradients:
        wanted = {name: x for name, x in leaves.items() if x.requires_grad}
        wanted |= dict(module.named_parameters())
        loss = sum(
            (result * torch.linspace(-1, 1, result.numel()).view_as(result)).sum()
            for result in found.values()
        )
        slopes = torch.autograd.grad(loss, list(wanted.values()))
        found |= {f"gradient of {name}": x for name, x in zip(wanted, slopes, strict=True)}
    return found


def prepare(how: dict[str, Any], seed: int, dtype: torch.dtype) -> tuple[dict, dict]:
    names = ("num_heads", "bias", "add_bias_kv", "add_zero_attn", "kdim", "vdim", "dropout")
    arguments = {name: how[name] for name in names}
    arguments["embed_dim"] = how["num_heads"] * how["head_dim"]
    arguments["batch_first"] = how["layout"] == "batch first"
    arguments["dtype"] = dtype

    b, num_queries, num_keys = random.Random(seed).sample((1, 2, 3, 5, 7), 3)
    b = 1 if how["layout"] == "one sequence" else b
    num_keys = num_queries if how["inputs"] == "self" else num_keys
    sizes = {
        "query": (num_queries, arguments["embed_dim"]),
        "key": (num_keys, how["kdim"] or arguments["embed_dim"]),
        "value": (num_keys, how["vdim"] or arguments["embed_dim"]),
    }
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name in {"self": ["query"], "cross": ["query", "key"], "three": list(sizes)}[how["inputs"]]:
        num_tokens, width = sizes[name]
        shape = {
            "batch first": (b, num_tokens, width),
            "tokens first": (num_tokens, b, width),
            "one sequence": (num_tokens, width),
        }[how["layout"]]
        tensors[name] = torch.randn(shape, generator=generator, dtype=dtype)
    found = masks(how, (b, num_queries, num_keys), seed, dtype)
    return arguments, tensors | {name: mask for name, mask in found.items() if mask is not None}


@pytest.mark.promise(number=1)
@pytest.mark.parametrize("first", range(0, CONFIGURATIONS, PER_TEST))
def test_agrees_with_pytorch(first):
    """Outputs, weights, and the gradients of inputs, floating masks and parameters."""
    for seed, (dtype, close) in product(range(first, first + PER_TEST), TOLERANCES.items()):
        how = draw(seed)
        arguments, tensors = prepare(how, seed, dtype)
        theirs, ours = twins(seed, **arguments)
        expected, found = run(theirs, tensors, how), run(ours, tensors, how)
        assert found.keys() == expected.keys()
        for name, x in expected.items():
            assert not x.isnan().any()
            report = f"configuration {seed}, {dtype}, {name}\n{how}\n".__add__
            torch.testing.assert_close(found[name], x, atol=close, rtol=close, msg=report)


# Where PyTorch contradicts itself


def test_an_appended_position_is_always_there_to_see():
    _, ours = twins(add_zero_attn=True, batch_first=True)
    x = torch.randn(X)
    result, attn_weights = ours(x, x, x, key_padding_mask=torch.ones(B, QUERIES).bool())
    torch.testing.assert_close(result, ours.out_proj.bias.expand(X))
    assert attn_weights[..., -1].eq(1).all()
    assert attn_weights[..., :-1].eq(0).all()


def test_a_mask_is_applied_to_all_keys_and_to_nothing_else():
    """(num_queries, 1) stands for all keys; the positions after them are left alone."""
    scores = torch.randn(B, HEADS, QUERIES, KEYS + 2)
    hidden = torch.arange(QUERIES)[:, None] % 2 == 0
    for mask, change in ((hidden, -torch.inf), (3.0 * hidden, 3.0)):
        found = apply_mask(scores, mask, num_appended=2)
        expected = scores.clone()
        expected[:, :, ::2, :KEYS] += change
        assert torch.equal(found, expected)
    assert torch.equal(apply_mask(scores, hidden), scores.masked_fill(hidden, -torch.inf))


def test_is_causal_is_a_claim_and_the_mask_decides():
    """Without the weights, PyTorch puts a causal mask of its own in the place of attn_mask."""
    theirs, ours = twins(batch_first=True)
    x = torch.randn(X)
    claim = {"attn_mask": zeros(QUERIES, QUERIES).bool(), "is_causal": True}
    for need_weights in (True, False):
        found, _ = ours(x, x, x, **claim, need_weights=need_weights)
        torch.testing.assert_close(found, theirs(x, x, x)[0])


# Weights


@pytest.mark.parametrize(
    "arguments",
    [
        {"bias": False},
        {"add_bias_kv": True, "add_zero_attn": True},
        {"dtype": torch.float64, "kdim": KDIM, "vdim": VDIM},
    ],
)
def test_the_same_seed_draws_the_same_weights(arguments):
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(EMBED_DIM, HEADS, **arguments)
    state = torch.get_rng_state()
    torch.manual_seed(1)
    ours = MultiheadAttention(EMBED_DIM, HEADS, **arguments)
    assert torch.equal(torch.get_rng_state(), state)
    names = [name for name, _ in theirs.named_parameters()]  # an optimizer counts on their order
    assert [name for name, _ in ours.named_parameters()] == names
    absent = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
    for name in (*absent, "in_proj_bias", "bias_k", "bias_v"):
        assert (getattr(ours, name) is None) == (getattr(theirs, name) is None)
    for name, parameter in theirs.named_parameters():
        assert torch.equal(ours.get_parameter(name), parameter)
        assert ours.get_parameter(name).dtype == parameter.dtype


# Dropout


@pytest.mark.parametrize("need_weights", [True, False])
def test_drops_what_pytorch_drops(need_weights):
    theirs, ours = twins(dropout=0.4, batch_first=True)
    torch.manual_seed(5)
    expected = theirs(*three_inputs(), need_weights=need_weights)
    torch.manual_seed(5)
    torch.testing.assert_close(ours(*three_inputs(), need_weights=need_weights), expected)


@pytest.mark.promise(number=32)
@pytest.mark.parametrize("num_keys", [QUERIES, 0])
def test_a_query_without_a_key_gets_what_pytorch_gives_without_weights(num_keys):
    """A context of 0; with need_weights=True PyTorch gives NaN."""
    theirs, ours = twins(batch_first=True)
    x, mask = torch.randn(B, QUERIES, EMBED_DIM), zeros(QUERIES, num_keys).bool()
    mask[1] = True
    expected, _ = theirs(x, x[:, :num_keys], x[:, :num_keys], attn_mask=mask, need_weights=False)
    for need_weights in (True, False):
        given = (x, x[:, :num_keys], x[:, :num_keys])
        result, attn_weights = ours(*given, attn_mask=mask, need_weights=need_weights)
        torch.testing.assert_close(result, expected)
        assert attn_weights is None or attn_weights[:, 1].eq(0).all()


# Bad arguments


@pytest.mark.promise(number=10)
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"embed_dim": 0}, ValueError, "embed_dim must be a positive int, not 0"),
        ({"num_heads": 4}, ValueError, "embed_dim=15 cannot be split into num_heads=4 heads"),
        ({"vdim": "5"}, TypeError, "vdim must be a positive int, not '5' (str)"),
        ({"dropout": 1.5}, ValueError, "dropout must lie between 0 and 1, not 1.5"),
        ({"bias": None}, TypeError, "bias must be True or False, not None (NoneType)"),
        ({"batch_first": "yes"}, TypeError, "batch_first must be True or False, not 'yes' (str)"),
        ({"dtype": torch.int64}, TypeError, "dtype must be floating, for instance torch.float32"),
    ],
)
def test_bad_arguments_of_the_constructor(arguments, error, words):
    with refused(error, words):
        MultiheadAttention(**{"embed_dim": EMBED_DIM, "num_heads": HEADS, **arguments})


@pytest.mark.promise(number=10)
@pytest.mark.promise(number=23)
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"query": [[1.0]]}, TypeError, "query must be a torch.Tensor, not list"),
        ({"query": nested}, TypeError, "query must not be a nested tensor"),
        ({"value": zeros(2, 11, 17).int()}, TypeError, "not torch.int32; try value.float()"),
        ({"key": zeros(11, 13)}, ValueError, "all 3-d (a batch) or all 2-d (one sequence)"),
        ({"key": zeros(2, 11, 15)}, ValueError, "of key must be kdim=13, not 15: (2, 11, 15)"),
        ({"value": zeros(2, 7, 17)}, ValueError, "(2, 7, 15), (2, 11, 13), (2, 7, 17) do not fit"),
        ({"query": zeros(7, 2, 15)}, ValueError, "do not fit with batch_first=True"),
        ({"query": zeros(2, 7, 15).double()}, TypeError, "are torch.float32; try query.to("),
        ({"attn_mask": [[True]]}, TypeError, "attn_mask must be a torch.Tensor or None, not list"),
        ({"attn_mask": zeros(7, 11).long()}, TypeError, "not torch.int64; try attn_mask.bool()"),
        ({"attn_mask": zeros(11, 7)}, ValueError, "be (7, 11) or (6, 7, 11), not (11, 7)"),
        ({"attn_mask": zeros(7, 11, device="meta")}, ValueError, "attn_mask is on meta, the"),
        ({"key_padding_mask": zeros(2, 7).bool()}, ValueError, "must be (2, 11), not (2, 7)"),
        ({"need_weights": zeros(7, 11)}, TypeError, "need_weights must be True or False"),
        ({"is_causal": True}, ValueError, "but attn_mask is None; try attn_mask=causal_mask(7)"),
    ],
)
def test_bad_arguments_of_forward(arguments, error, words):
    ours = MultiheadAttention(EMBED_DIM, HEADS, kdim=KDIM, vdim=VDIM, batch_first=True)
    good = dict(zip(("query", "key", "value"), three_inputs(KDIM, VDIM), strict=True))
    assert ours(**good)[0].shape == X
    if arguments.get("query") is nested:
        arguments = {"query": nested(EMBED_DIM)}
    with refused(error, words):
        ours(**{**good, **arguments})


@pytest.mark.promise(number=25)
@pytest.mark.parametrize("mask", [(QUERIES, KEYS + 1), (QUERIES, KEYS - 1), (5, KEYS)], ids=str)
def test_a_mask_that_does_not_fit_is_refused_and_never_cropped(mask):
    with refused(ValueError, f"({B}, {HEADS}, {QUERIES}, {KEYS}), not {mask}"):
        apply_mask(zeros(B, HEADS, QUERIES, KEYS), zeros(mask))
