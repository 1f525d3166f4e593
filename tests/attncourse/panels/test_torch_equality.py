"""The panel that compares PyTorch's MultiheadAttention with ours."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from attncourse.examples import journey
from attncourse.panels.torch_equality import CALLS, CELL, TORCH_EQUALITY, WIDER
from attncourse.pictures.palette import FAINT, HATCH, QUIET, head_color
from attncourse.pictures.scene import Box, Line, Scene
from attncourse.variants.torch_multihead import MultiheadAttention
from support.pictures import boxes, extents, outside, text_in, words

NAMES = ("outputs", "weights", "gradients")
each_state = pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 6])
each_break = pytest.mark.parametrize("call", CALLS[1:])


def both(num_heads: int) -> tuple[Tensor, nn.MultiheadAttention, MultiheadAttention]:
    """Return the panel's tokens, (1, 6, 12), PyTorch's module, and ours with its weights."""
    torch.manual_seed(123)
    x = journey().inputs[None] @ (2 * torch.randn(3, 12))
    theirs = nn.MultiheadAttention(12, num_heads, batch_first=True)
    ours = MultiheadAttention(12, num_heads, batch_first=True)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.2)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return x, theirs, ours


def run(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    x = x.clone().requires_grad_()
    is_future = torch.ones(6, 6).triu(1).bool()
    outputs, weights = module(x, x, x, attn_mask=is_future, average_attn_weights=False)
    outputs.pow(2).mean().backward()
    gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
    return outputs.detach(), weights.detach(), {"x": x.grad, **gradients}


def reach(scene: Scene) -> dict[str, str]:
    """Return for each dot the number of the axis under its middle."""
    numbers = {item.text: item.x for item in words(scene)}
    dots = [item for item in scene.items if isinstance(item, Box) and item.fill == FAINT]
    rows = {item.y: item.text for item in words(scene) if item.text in NAMES}
    return {
        rows[dot.y + dot.height / 2]: tick
        for dot in dots
        for tick, x in numbers.items()
        if tick.startswith("1e") and x == pytest.approx(dot.x + dot.width / 2)
    }


def bounds(scene: Scene) -> dict[str, str]:
    rows = {item.y: item.text for item in words(scene) if item.text in NAMES}
    return {rows[item.y]: item.text for item in words(scene) if item.text.startswith("<= ")}


@each_state
def test_its_numbers_are_those_of_the_two_modules(num_heads):
    x, theirs, ours = both(num_heads)
    outputs, weights, gradients = run(theirs, x)
    our_outputs, our_weights, our_gradients = run(ours, x)
    data = TORCH_EQUALITY.compute(num_heads=num_heads)
    assert data.tokens == journey().tokens
    assert data.num_heads == num_heads
    assert data.outputs == (outputs - our_outputs).abs().max()
    assert data.weights == (weights - our_weights).abs().max()
    assert set(gradients) == {"x", *dict(theirs.named_parameters())}
    assert data.gradients == max(
        (gradients[name] - our_gradients[name]).abs().max() for name in gradients
    )
    assert torch.equal(data.attn_weights, our_weights[0])


def test_the_weights_compared_are_neither_even_nor_decided():
    for num_heads in TORCH_EQUALITY.controls["num_heads"]:
        data = TORCH_EQUALITY.compute(num_heads=num_heads)
        last = data.attn_weights[:, -1]  # of the query that sees all six
        assert (last.amax(dim=-1) - last.amin(dim=-1)).max() > 0.05
        assert last.max() < 0.9


@each_state
def test_every_state_shows_its_bounds_and_its_heads(num_heads):
    data = TORCH_EQUALITY.compute(num_heads=num_heads)
    scene = TORCH_EQUALITY.draw(data)
    assert reach(scene) == dict.fromkeys(NAMES, "1e-06")
    assert bounds(scene) == dict.fromkeys(NAMES, "<= 1e-06")
    cell = CELL if num_heads == 6 else WIDER
    strips = {text_in(scene, box): box.fill for box in boxes(scene, 6 * cell, 18)}
    assert strips == {f"head {h}": head_color(h) for h in range(num_heads)}
    gray = [cell.fill == QUIET for cell in boxes(scene, cell, cell)]
    assert gray == torch.ones(6, 6).triu(1).bool().flatten().tolist() * num_heads
    assert TORCH_EQUALITY.readout(data) == (
        f"{num_heads} head{'s' if num_heads > 1 else ''} of width {12 // num_heads}, "
        "as it should be. Largest differences from ours: "
        "outputs <= 1e−06, weights <= 1e−06, gradients <= 1e−06."
    )


def broken(call: str, num_heads: int) -> tuple[Tensor, Tensor]:
    """Return the outputs and weights of PyTorch's module when the call goes wrong, by hand."""
    x, theirs, _ = both(num_heads)
    is_future = torch.ones(6, 6).triu(1).bool()
    if call == "mask inverted":
        made = theirs(x, x, x, attn_mask=~is_future, average_attn_weights=False)
    elif call == "batch_first forgotten":  # six texts of one token
        alone = x[0, :, None]
        outputs, _ = theirs(alone, alone, alone, average_attn_weights=False)
        return outputs[:, 0].detach(), torch.eye(6).expand(num_heads, 6, 6)
    else:
        for name, parameter in theirs.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
        made = theirs(x, x, x, attn_mask=is_future, average_attn_weights=False)
    return made[0][0].detach(), made[1][0].detach()


@each_state
@each_break
def test_a_call_that_goes_wrong_sends_the_dots_to_the_right(call, num_heads):
    data = TORCH_EQUALITY.compute(num_heads=num_heads, call=call)
    outputs, weights = broken(call, num_heads)
    right = run(both(num_heads)[1], both(num_heads)[0])[0][0]
    torch.testing.assert_close(data.their_weights, weights, equal_nan=True)
    apart = (outputs - right).abs().max()
    torch.testing.assert_close(torch.tensor(data.outputs), apart, equal_nan=True, atol=1e-6, rtol=0)
    scene = TORCH_EQUALITY.draw(data)
    if call == "mask inverted":  # the last token sees nothing
        assert data.their_weights[:, -1].isnan().all()
        assert "outputs NaN, weights NaN, gradients NaN" in TORCH_EQUALITY.readout(data)
    else:
        assert min(data.outputs, data.weights, data.gradients) > 1e-3
    if call == "mask inverted":  # no dot, but a hatched box behind the axis
        assert reach(scene) == {}
        no_values = [box for box in boxes(scene, 12, 12) if box.hatched]
        rows = [item.y for item in words(scene) if item.text in NAMES]
        assert [box.y + 6 for box in no_values] == rows
        end = next(item.x for item in words(scene) if item.text == "1e+00")
        assert all(box.x > end for box in no_values)
    else:
        assert reach(scene)["outputs"] == "1e+00"
    whole = TORCH_EQUALITY.compute(num_heads=num_heads)
    assert torch.equal(data.attn_weights, whole.attn_weights)  # ours is as ever


def test_the_dashed_line_stands_at_float32_eps():
    scene = TORCH_EQUALITY.draw(TORCH_EQUALITY.compute(**TORCH_EQUALITY.default))
    dashed = [item for item in scene.items if isinstance(item, Line) and item.dashed]
    assert len(dashed) == 1
    places = {item.text: item.x for item in words(scene)}
    share = (dashed[0].points[0][0] - places["1e-08"]) / (places["1e-06"] - places["1e-08"])
    assert 1e-8 * 100**share == pytest.approx(2**-23)
    assert "float32 eps 1.2e-07" in places
    (said,) = (item for item in words(scene) if item.text == "float32 eps 1.2e-07")
    assert dashed[0].points[0][1] > extents(said)[1][1] + 2  # below the letters
    lines = [item for item in scene.items if isinstance(item, Line) and not item.dashed]
    grid = {line.stroke for line in lines} - {FAINT}  # the steps of the maps
    assert grid == {HATCH}  # which is seen on dark paper too


@each_state
def test_names_of_keys_stand_apart(num_heads):
    scene = TORCH_EQUALITY.draw(TORCH_EQUALITY.compute(num_heads=num_heads))
    names = [extents(item) for item in words(scene) if item.angle]
    assert len(names) == 6 * num_heads
    sides = sorted(across for across, _ in names)
    assert min(b[0] - a[1] for a, b in itertools.pairwise(sides)) >= 3


def test_it_leaves_the_reader_s_gradients_alone():
    with torch.no_grad():  # as in the notebook
        data = TORCH_EQUALITY.compute(num_heads=3)
        assert not torch.is_grad_enabled()
    assert not data.attn_weights.requires_grad


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("difference", "tick", "bound"),
    [
        (0.0, "1e-06", "<= 1e-06"),
        (3e-5, "1e-04", "<= 1e-04"),
        (1e-4, "1e-04", "<= 1e-04"),
        (0.003, "1e-02", "<= 1e-02"),
        (0.5, "1e+00", "<= 1e+00"),
        (70.0, "1e+00", "<= 1e+02"),  # past the end of the axis
    ],
)
def test_a_dot_lies_as_far_as_its_difference(name, difference, tick, bound):
    data = TORCH_EQUALITY.compute(num_heads=2)._replace(**{name: difference})
    scene = TORCH_EQUALITY.draw(data)
    assert outside(scene) == []
    assert reach(scene) == {**dict.fromkeys(NAMES, "1e-06"), name: tick}
    assert bounds(scene) == {**dict.fromkeys(NAMES, "<= 1e-06"), name: bound}
    assert f"{name} {bound.replace('-', '−')}" in TORCH_EQUALITY.readout(data)
    assert f"{name} at most {bound.removeprefix('<= ')}" in scene.alt
