"""Pictures of shapes and moves: every size, every number, and where the followed one is."""

import pytest
import torch
from torch import nn

from attncourse.checks import telling
from attncourse.panels import OnePiece
from attncourse.pictures import moves_picture, shapes_picture
from attncourse.pictures.moves import HIGH, SIZE_BOX, WIDE
from attncourse.pictures.palette import QUIET, head_color, tint
from attncourse.pictures.scene import BOOK, Box
from attncourse.tracing import trace
from support.pictures import boxes, check_readable, text_in, words

MEANINGS = {1: "text", 2: "heads", 3: "head_dim", 4: "d_in", 5: "tokens", 6: "d_out"}
FLAT = torch.arange(5.0)[:, None] * 10 + torch.arange(6.0)
BY_TOKEN = FLAT.view(1, 5, 2, 3)
STAGES = [
    (FLAT[None], ("b", "num_tokens", "d_out")),
    (BY_TOKEN, ("b", "num_tokens", "num_heads", "head_dim")),
    (BY_TOKEN.transpose(1, 2), ("b", "num_heads", "num_tokens", "head_dim")),
]


def traced():
    module, x = telling(OnePiece)
    with torch.no_grad():
        return trace(module, x)


EVERY = {
    "shapes": shapes_picture(traced().steps, MEANINGS),
    "stopped": shapes_picture(traced().steps[:3], MEANINGS, "Stopped in f, line 7: x\nError: no."),
    "there": moves_picture(STAGES, ("view", "transpose"), 24),
    "back": moves_picture(STAGES[::-1], ("transpose", "contiguous view"), 24),
}


@pytest.mark.parametrize("scene", EVERY.values(), ids=EVERY)
def test_everything_fits_and_can_be_read(scene):
    check_readable(scene)
    assert scene.width <= BOOK


def test_every_line_has_its_shape_in_boxes():
    scene = EVERY["shapes"]
    found = boxes(scene, SIZE_BOX, 22)
    rows: dict[float, list[Box]] = {}
    for box in found:
        rows.setdefault(box.y, []).append(box)
    legend, *lines = (rows[y] for y in sorted(rows))
    assert [text_in(scene, box) for box in legend] == ["1", "2", "3", "4", "5", "6"]
    for boxes_of_line, step in zip(lines, traced().steps, strict=True):
        assert tuple(int(text_in(scene, box)) for box in boxes_of_line) == step.shape
        assert step.source in [item.text for item in words(scene)]
    assert "then values (1, 5, 6), then values (1, 5, 2, 3), then values (1, 2, 5, 3)," in scene.alt


def test_a_size_has_one_color_and_each_size_another():
    scene = EVERY["shapes"]
    colors: dict[str, set[str | None]] = {}
    for box in boxes(scene, SIZE_BOX, 22):
        colors.setdefault(text_in(scene, box), set()).add(box.fill)
    assert all(len(fills) == 1 for fills in colors.values())
    assert len(set.union(*colors.values())) == 6
    assert colors["1"] == {QUIET}
    heads = {tint(head_color(head), 0.3) for head in (0, 1)}  # as moves_picture has them
    assert not heads & set.union(*colors.values())


def test_a_line_that_stops_is_told():
    scene = EVERY["stopped"]
    assert scene.alt.endswith("Stopped in f, line 7: x Error: no.")
    assert {"Stopped in f, line 7: x", "Error: no."} <= {item.text for item in words(scene)}


def test_a_long_statement_goes_on_below():
    class Long(nn.Module):
        def forward(self, x):
            y = x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x
            return y

    scene = shapes_picture(trace(Long(), torch.ones(2)).steps, {2: "two"})
    check_readable(scene)


def test_a_followed_number_stands_beside_each_row_that_has_it():
    class Moves(nn.Module):
        def forward(self, x):
            is_large = x > 20
            y = x.T
            return y + is_large.sum()

    scene = shapes_picture(trace(Moves(), torch.tensor([[10.0, 24.0]])).steps, {1: "one"}, "", 24)
    check_readable(scene)
    said = [item.text for item in words(scene) if item.text.startswith("24 at")]
    assert said == ["24 at [0, 1]", "24 at [1, 0]"]
    assert scene.alt.endswith("is_large (1, 2), then y (2, 1), 24 at [1, 0], then return (2, 1).")


@pytest.mark.parametrize(("name", "order"), [("there", 1), ("back", -1)])
def test_the_followed_number_is_framed_in_every_stage(name, order):
    scene = EVERY[name]
    cells = boxes(scene, WIDE, HIGH)
    frames = [cell for cell in cells if cell.stroke_width > 2]
    assert [text_in(scene, frame) for frame in frames] == ["24"] * 3
    places = ["24 at [0, 2, 4]", "24 at [0, 2, 1, 1]", "24 at [0, 1, 2, 1]"][::order]
    line = [item for item in words(scene) if item.y == 30]
    assert "".join(item.text for item in line).replace(" ", "") == "".join(places).replace(" ", "")
    assert [item.text for item in line if item.bold] == ["2, 1,", "1, 2,"][::order]
    assert all(place in scene.alt for place in places)


def test_every_number_has_the_color_of_its_head():
    scene = EVERY["there"]
    cells = [cell for cell in boxes(scene, WIDE, HIGH) if cell.stroke_width < 2]
    assert len(cells) == 90
    for cell in cells:
        head = int(text_in(scene, cell)) % 10 // 3
        assert cell.fill == tint(head_color(head), 0.3)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="followed must be in every stage, and 99 is not in"):
        moves_picture(STAGES, ("view", "transpose"), 99)
