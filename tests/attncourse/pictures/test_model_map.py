"""The map of a model: a curve for each clear look of its last word, one of them in color."""

import pytest
import torch

from attncourse.pictures.model_map import SEEN, model_map
from attncourse.pictures.palette import head_color
from attncourse.pictures.scene import BOOK, Box, Line, Scene
from support.pictures import outside, overlapping, words

TOKENS = ("Your", "journey", "starts", "with", "one")
LAYERS, HEADS, HEAD = 7, 3, (4, 2)


def weights_of(seed: int) -> torch.Tensor:
    scores = 3 * torch.randn(LAYERS, HEADS, 5, 5, generator=torch.Generator().manual_seed(seed))
    future = torch.ones(5, 5).triu(1).bool()
    weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
    weights[(*HEAD, 4)] = torch.tensor([0.1, 0.1, 0.1, 0.6, 0.1])
    return weights


def curves(scene: Scene) -> list[Line]:
    return [item for item in scene.items if isinstance(item, Line) and len(item.points) > 2]


@pytest.mark.parametrize("width", [BOOK, 332.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_curve_for_each_clear_look_and_the_chosen_head_in_color(seed, width):
    weights = weights_of(seed)
    scene = model_map(TOKENS, weights, HEAD, "step", width)
    drawn = curves(scene)
    clear = [
        weight
        for layer in weights.tolist()
        for head in layer
        for weight in head[-1][1:-1]
        if weight >= SEEN
    ]
    assert len(drawn) == len(clear)
    (chosen,) = [curve for curve in drawn if curve.stroke == head_color(0)]
    lines = [item for item in scene.items if isinstance(item, Line) and len(item.points) == 2]
    heights = [line.points[0][1] for line in lines[: len(TOKENS)]]
    assert (chosen.points[0][1], chosen.points[-1][1]) == (heights[3], heights[4])
    others = sorted(curve.opacity for curve in drawn if curve is not chosen)
    clear.remove(weights[(*HEAD, 4, 3)].item())
    assert others == pytest.approx(sorted(clear))
    squares = [box for box in scene.items if isinstance(box, Box) and box.width < 6]
    assert len(squares) == LAYERS * len(TOKENS)
    told = [item.text for item in words(scene)]
    assert {*TOKENS, "step", "L4H2", "7 layers: attention, then an MLP"} <= {*told}
    assert ("embedding" in told) == (width == BOOK)
    assert (outside(scene), overlapping(scene)) == ([], [])
    assert scene.width == width
    assert f"{len(drawn) - 1} pale curves" in scene.alt
