"""Promise 30: compiled, exported and in ONNX, at every length, equal to eager."""

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from attnlib import FusedMultiHeadAttention
from support.cases import CASES, D_IN, B, name, refused, tokens

LENGTHS = (3, 1, 2, 40, 17)
QUIET = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own


def rotary(layout: str = "half", **changes: object) -> FusedMultiHeadAttention:
    """Return a module with shared heads and rotary positions, in eval."""
    torch.manual_seed(1)
    options = {"num_kv_heads": 2, "rotary_base": 100.0, "rotary_layout": layout, **changes}
    return FusedMultiHeadAttention(D_IN, 24, 41, 0.0, 4, **options).eval()


EVERY = pytest.mark.parametrize(  # every class; the fused one with rotary positions, too
    ("case", "options"),
    [pytest.param(case, {}, id=name(case)) for case in CASES]
    + [
        pytest.param(
            CASES[-1],
            {"head_dim": 6, "rotary_base": 100.0, "rotary_layout": layout},
            id=f"rotary {layout}",
        )
        for layout in ("half", "interleaved")
    ],
)


@pytest.fixture(autouse=True)
def _nothing_compiled_before():
    torch.compiler.reset()


def is_complex(graph: torch.fx.GraphModule) -> bool:
    """Return whether a tensor in a graph holds complex numbers."""
    values = [node.meta.get("example_value") for node in graph.graph.nodes]
    return any(isinstance(value, Tensor) and value.is_complex() for value in values)


class Counted(CompileCounterWithBackend):
    """Count the graphs, and refuse complex numbers in them."""

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Tensor]):
        assert not is_complex(graph)
        return super().__call__(graph, inputs)


@pytest.mark.slow
@pytest.mark.promise(number=30)
@QUIET
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("is_training", [False, True], ids=["eval", "training"])
@EVERY
def test_compiled_once_for_all_lengths(case, options, is_training, dynamic):
    """With no graph break; gradients too. A single token may have a graph of its own."""
    module = case.build(context_length=41, **options).train(is_training)
    counted = Counted("aot_eager")
    compiled = torch.compile(module, fullgraph=True, backend=counted, dynamic=dynamic)
    for length in LENGTHS:
        x = tokens(num_tokens=length)
        results = []
        with torch.set_grad_enabled(is_training):
            for form in (module, compiled):
                module.zero_grad()
                results.append([form(x)])
                if is_training:
                    results[-1][0].square().sum().backward()
                    results[-1] += [weight.grad.clone() for weight in module.parameters()]
        torch.testing.assert_close(results[1], results[0])
    assert counted.frame_count <= 3  # two for the lengths above 1, and one for 1


@pytest.mark.slow
@pytest.mark.promise(number=30)
@QUIET
@torch.no_grad()
def test_a_model_of_four_layers_compiles_twice_at_most():
    layers = [FusedMultiHeadAttention(24, 24, 512, 0.0, 4) for _ in range(4)]
    model, counted = nn.Sequential(*layers), Counted("aot_eager")
    compiled = torch.compile(model, fullgraph=True, backend=counted)
    for length in (16, 32, 17, 64, 128, 511, 512):
        x = tokens(num_tokens=length, d_in=24)
        torch.testing.assert_close(compiled(x), model(x))
    assert counted.frame_count <= 2


@pytest.mark.promise(number=30)
@QUIET
@torch.no_grad()
def test_compiled_token_by_token_with_a_cache():
    module, x = rotary(), tokens(num_tokens=9)
    counted = Counted("aot_eager")
    compiled = torch.compile(module, fullgraph=True, backend=counted)
    cache, pieces = module.new_cache(B, 9), x.split([3, 1, 1, 1, 1, 2], dim=1)
    found = torch.cat([compiled(piece, cache=cache) for piece in pieces], dim=1)
    torch.testing.assert_close(found, module(x))
    assert counted.frame_count <= 5


@pytest.mark.slow
@pytest.mark.promise(number=30)
@QUIET
@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch's own
@EVERY
def test_onnx_of_other_sizes_than_exported(case, options, tmp_path):
    """Through the dynamo exporter, run in onnxruntime."""
    import onnxruntime  # with onnx and onnxscript, for the slow tests alone

    batch, length = torch.export.Dim("b", min=1, max=64), torch.export.Dim("n", min=2, max=41)
    module = case.build(context_length=41, **options).eval()
    program = torch.onnx.export(
        module,
        (tokens(num_tokens=7),),
        dynamo=True,
        verbose=False,
        dynamic_shapes=({0: batch, 1: length},),
    )
    program.save(tmp_path / "module.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "module.onnx")
    for b, num_tokens in ((2, 17), (3, 40)):
        x = tokens(b, num_tokens)
        (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), module(x), atol=1e-5, rtol=1e-5)


class Step(nn.Module):
    """A decode step that owns its cache."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = rotary()
        self.cache = self.attention.new_cache(B, 9)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, cache=self.cache)


@pytest.mark.promise(number=30)
@torch.no_grad()
def test_a_step_with_a_cache_is_not_exported():
    with refused(ValueError, "a step with a cache cannot be exported: the cache counts"):
        torch.export.export(Step(), (tokens(num_tokens=1),))
