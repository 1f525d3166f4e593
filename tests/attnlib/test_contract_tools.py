"""The contract, item 19: tools that take modules apart."""

import shutil

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from support.cases import CONTEXT_LENGTH, CONTRACT, B, T, both_ways, name

ALL = pytest.mark.parametrize("case", CONTRACT, ids=name)
IN_KERNEL = [case for case in CONTRACT if case.in_kernel]
WAYS = pytest.mark.parametrize(
    ("case", "way"),
    [(case, 1) for case in CONTRACT] + [(case, 0) for case in IN_KERNEL],
    ids=lambda part: ("alone", "with weights")[part] if isinstance(part, int) else name(part),
)
TRACES = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",  # torch.jit is
    "ignore::FutureWarning",  # not supported from Python 3.14 on, it says; it works
    "ignore::torch.jit.TracerWarning",  # the checks of shapes are not recorded
)
COMPILES = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own


@pytest.mark.promise(number=19)
@ALL
def test_asking_for_the_weights_does_not_change_the_result(case):
    """Bit by bit, in eval and in training; up to rounding where a kernel gives no weights."""
    module, x = case.build(dropout=0.4), case.tokens()
    for mode in (True, False):
        module.train(mode)
        torch.manual_seed(3)
        alone = module(x)
        torch.manual_seed(3)
        context_vec, _ = module(x, return_weights=True)
        torch.testing.assert_close(context_vec, alone)
        assert case.in_kernel or torch.equal(context_vec, alone)


@pytest.mark.promise(number=19)
@WAYS
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # the kernel, item by item
def test_vmap_and_gradients_per_sample(case, way):
    """Each sample's gradient, and their sum is the gradient of the batch."""
    module, x = case.build(), case.tokens()
    weights = {key: weight.detach() for key, weight in module.named_parameters()}

    def run(weights: dict, x: Tensor) -> Tensor:
        result = functional_call(module, weights, (x, bool(way)))
        return result[0] if way else result

    def loss(weights: dict, item: Tensor) -> Tensor:
        return run(weights, item[None]).square().sum()

    torch.testing.assert_close(vmap(lambda item: run(weights, item[None])[0])(x), module(x))
    per_sample = vmap(grad(loss), in_dims=(None, 0))(weights, x)
    whole = torch.autograd.grad(both_ways(module, x)[way].square().sum(), module.parameters())
    for (key, slopes), expected in zip(per_sample.items(), whole, strict=True):
        assert slopes.shape == (B, *weights[key].shape)
        torch.testing.assert_close(slopes.sum(dim=0), expected)


@pytest.mark.promise(number=19)
@ALL
def test_hooks_fire(case):
    """On every part, once per forward."""
    module, x = case.build(), case.tokens()
    parts = [part for part in module.modules() if not isinstance(part, nn.ModuleList)]
    fired = []
    for part in parts:
        part.register_forward_hook(lambda part, inputs, output: fired.append(part))
    module(x, return_weights=True)  # a kernel alone never calls the nn.Dropout
    assert len(fired) == len(parts)
    assert set(fired) == set(parts)


@pytest.mark.promise(number=19)
@WAYS
@COMPILES
def test_compiles_as_one_graph(case, way):
    """With fullgraph=True; equals eager, gradients too. This backend needs no C++ compiler."""
    torch.compiler.reset()
    module, x = case.build(), case.tokens()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    results, slopes = [], []
    for form in (module, compiled):
        module.zero_grad()
        result = form(x, return_weights=True) if way else (form(x),)
        result[0].square().sum().backward()
        results.append(result)
        slopes.append([weight.grad.clone() for weight in module.parameters()])
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(slopes[1], slopes[0])


@pytest.mark.promise(number=19)
@COMPILES
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize("case", IN_KERNEL, ids=name)
def test_compiled_to_machine_code_it_equals_eager(case):
    """By torch's own backend. Only the kernel's way: the others take minutes to compile."""
    torch.compiler.reset()
    module, x = case.build(), case.tokens()
    with torch.no_grad():
        found = torch.compile(module, fullgraph=True)(x)
        torch.testing.assert_close(found, module(x))


@pytest.mark.promise(number=19)
@WAYS
@COMPILES
def test_exports_for_any_length(case, way):
    """By torch.export, the number of tokens left open."""
    module, x = case.build(), case.tokens(num_tokens=CONTEXT_LENGTH)
    num_tokens = torch.export.Dim("num_tokens", min=2, max=CONTEXT_LENGTH)
    given = (x, True) if way else (x,)
    shapes = ({1: num_tokens}, None)[: len(given)]
    exported = torch.export.export(module, given, dynamic_shapes=shapes).module()
    for length in (2, T, CONTEXT_LENGTH):
        short = (x[:, :length], *given[1:])
        torch.testing.assert_close(exported(*short), module(*short))


@pytest.mark.promise(number=19)
@TRACES
@ALL
@pytest.mark.parametrize("recorded", [1, 7])
def test_a_recorded_module_takes_other_sizes(case, recorded):
    """Recorded with few tokens or many, it computes the same for all lengths that fit."""
    module = case.build().eval()
    traced = torch.jit.trace(module, (case.tokens(num_tokens=recorded),))
    for b, num_tokens in ((2, 7), (3, 1), (1, 13)):
        x = case.tokens(b, num_tokens, seed=num_tokens)
        torch.testing.assert_close(traced(x), module(x))
