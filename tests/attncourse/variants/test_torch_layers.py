"""The rebuilt MultiheadAttention inside the layers of torch.nn."""

import pytest
import torch
from torch import Tensor, nn

from attncourse.variants.torch_multihead import MultiheadAttention
from attnlib import causal_mask

B, SOURCE, TARGET, HEADS, WIDTH, HIDDEN = 3, 7, 5, 2, 22, 13
LAYERS = nn.modules.transformer
BATCH_FIRST = pytest.mark.parametrize("batch_first", [True, False])
CLOSE = {"atol": 1e-12, "rtol": 0.0}


def attentions(module: nn.Module) -> set[type]:
    kinds = (nn.MultiheadAttention, MultiheadAttention)
    return {type(part) for part in module.modules() if isinstance(part, kinds)}


def twins(kind: str, monkeypatch: pytest.MonkeyPatch, **options) -> tuple[nn.Module, nn.Module]:
    def built() -> nn.Module:
        how = {"dropout": 0.0, "dtype": torch.float64, **options}
        if kind == "Transformer":
            return nn.Transformer(WIDTH, HEADS, 2, 2, HIDDEN, **how)
        layer = getattr(nn, f"Transformer{kind.removesuffix('Layer')}Layer")
        one = layer(WIDTH, HEADS, HIDDEN, **how)
        return one if kind.endswith("Layer") else getattr(nn, f"Transformer{kind}")(one, 2)

    theirs = built()
    with monkeypatch.context() as patched:
        patched.setattr(LAYERS, "MultiheadAttention", MultiheadAttention)
        found = built()
    assert attentions(theirs) == {nn.MultiheadAttention}
    assert attentions(found) == {MultiheadAttention}
    torch.manual_seed(1)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.2)
    found.load_state_dict(theirs.state_dict(), strict=True)
    return theirs, found


def text(num_tokens: int, batch_first: bool, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (B, num_tokens, WIDTH) if batch_first else (num_tokens, B, WIDTH)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def padding(num_tokens: int) -> Tensor:
    """Return which tokens are only padding, (b, num_tokens): some at the end of each text."""
    lengths = torch.tensor([num_tokens, num_tokens - 1, num_tokens - 3])
    return torch.arange(num_tokens) >= lengths[:, None]


def call(kind: str, batch_first: bool, how: str) -> tuple[list[Tensor], dict]:
    source, target = text(SOURCE, batch_first, 2), text(TARGET, batch_first, 3)
    masks: dict = {}
    if kind == "Transformer":
        inputs, of = [source, target], {"src": SOURCE, "tgt": TARGET}
    elif kind.startswith("Decoder"):
        inputs, of = [target, source], {"tgt": TARGET, "memory": SOURCE}
    else:
        inputs, of = [source], {"src": SOURCE}
    for name, num_tokens in of.items():
        if "padding" in how:
            masks[f"{name}_key_padding_mask"] = padding(num_tokens)
        if "causal" in how and name != "memory":
            is_own_name = kind == "Encoder"  # nn.TransformerEncoder calls it mask
            masks["mask" if is_own_name else f"{name}_mask"] = causal_mask(num_tokens)
            prefix = "" if kind.startswith("Encoder") else f"{name}_"
            masks[f"{prefix}is_causal"] = True
    return inputs, masks


KINDS = pytest.mark.parametrize(
    "kind", ["EncoderLayer", "DecoderLayer", "Encoder", "Decoder", "Transformer"]
)


@pytest.mark.promise(number=23)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@KINDS
@BATCH_FIRST
@pytest.mark.parametrize("how", ["", "causal and padding"])
def test_equals_pytorch(kind, batch_first, how, monkeypatch):
    """Outputs and gradients in training; outputs in eval, with gradients and without."""
    theirs, ours = twins(kind, monkeypatch, batch_first=batch_first)
    inputs, masks = call(kind, batch_first, how)
    results = []
    for module in (theirs, ours):
        given = [x.clone().requires_grad_() for x in inputs]
        out = module(*given, **masks)
        out.square().sum().backward()
        gradients = [parameter.grad for parameter in module.parameters()]
        module.eval()
        with torch.no_grad():
            fast = module(*given, **masks)
        results.append([out, *gradients, *(x.grad for x in given), module(*given, **masks), fast])
    torch.testing.assert_close(results[1], results[0], **CLOSE)


@pytest.mark.promise(number=32)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@BATCH_FIRST
def test_two_layers_with_padding_on_the_left_in_training(batch_first, monkeypatch):
    """The first tokens of two sequences may attend to nothing, and poison no other token."""
    theirs, ours = twins("Encoder", monkeypatch, batch_first=batch_first)
    masks = {"mask": causal_mask(SOURCE), "src_key_padding_mask": padding(SOURCE).flip(1)}
    results = []
    for module in (theirs, ours):
        x = text(SOURCE, batch_first, 2).requires_grad_()
        out = module(x, **masks)
        out.square().sum().backward()
        results.append([out, x.grad, *(parameter.grad for parameter in module.parameters())])
    assert results[0][0].isfinite().all()
    torch.testing.assert_close(results[1], results[0], **CLOSE)


def layer(**changes) -> nn.TransformerEncoderLayer:
    torch.manual_seed(1)
    built = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, 0.0, batch_first=True)
    built.self_attn = MultiheadAttention(WIDTH, HEADS, batch_first=True, **changes)
    return built.eval()


class Counted(MultiheadAttention):
    def forward(self, *inputs, **options):
        self.calls = getattr(self, "calls", 0) + 1
        return super().forward(*inputs, **options)


def test_pytorchs_kernel_is_used_only_where_the_parameters_are_all(monkeypatch):
    """A forward of one's own, or another out_proj, must never be passed over."""
    taken, kernel = [], torch._transformer_encoder_layer_fwd
    spy = lambda *inputs: taken.append(1) or kernel(*inputs)  # noqa: E731
    monkeypatch.setattr(torch, "_transformer_encoder_layer_fwd", spy)
    x = torch.randn(B, SOURCE, WIDTH)
    with torch.no_grad():
        plain = layer()
        by_kernel = plain(x)
        assert taken == [1]
        plain.self_attn.__class__ = Counted
        torch.testing.assert_close(plain(x), by_kernel)
        assert (plain.self_attn.calls, taken) == (1, [1])
        plain.self_attn.__class__ = MultiheadAttention
        plain.self_attn.out_proj = nn.Sequential(plain.self_attn.out_proj, nn.ReLU())
        assert (plain(x) - by_kernel).abs().max() > 1e-3
        assert layer(kdim=WIDTH, bias=False)(x).shape == x.shape
    assert taken == [1]


# The module alone: where its result lies in memory, its sizes


@pytest.mark.promise(number=23)
@BATCH_FIRST
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("b", [None, 1, B])
def test_the_result_lies_in_memory_as_pytorchs(batch_first, need_weights, b):
    shape = {None: (SOURCE, WIDTH), True: (b, SOURCE, WIDTH), False: (SOURCE, b, WIDTH)}
    x = torch.randn(shape[None if b is None else batch_first])
    modules = [
        cls(WIDTH, HEADS, batch_first=batch_first)
        for cls in (nn.MultiheadAttention, MultiheadAttention)
    ]
    modules[1].load_state_dict(modules[0].state_dict())
    outputs = [module(x, x, x, need_weights=need_weights) for module in modules]
    (theirs, their_weights), (ours, weights) = outputs
    torch.testing.assert_close(ours, theirs)
    assert ours.stride() == theirs.stride()
    if need_weights:
        assert weights.stride() == their_weights.stride()
    if not batch_first:
        assert ours.view(-1, WIDTH).shape == (SOURCE * (b or 1), WIDTH)
