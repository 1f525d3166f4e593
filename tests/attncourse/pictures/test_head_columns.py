"""The pictures of the weight split: a product in Falk's scheme, blocks joined to their maps."""

import pytest

from attncourse.pictures import (
    blocks_and_maps_picture,
    blocks_beside_maps_picture,
    product_picture,
)
from attncourse.pictures.palette import INK, QUIET, head_color, on_white, tint, weight_color
from attncourse.pictures.scene import Box, Line, Scene
from support.pictures import (
    boxes,
    causal_weights,
    check_readable,
    numbers,
    outside,
    overlapping,
    text_in,
    words,
)

TOKENS = ("Your", "journey", "starts", "with", "one")
NAMES = ("x", "W_query", "queries")


def filled(scene: Scene) -> list[Box]:
    """Return the cells of a product's picture, without the frames."""
    return [cell for cell in boxes(scene, 46, 24) if cell.fill]


LEFT, RIGHT = numbers(5, 3) / 2, numbers(3, 6, seed=3) / 2
MERGED, OUT = numbers(5, 6, seed=4) / 2, numbers(6, 7, seed=5) / 2
COLUMNS = product_picture(LEFT, RIGHT, TOKENS, NAMES, num_heads=3, place=(1, 4))
SUM = product_picture(
    MERGED, OUT, TOKENS, ("merged", "W_out", "result"), num_heads=2, place=(3, 5), inner=True
)
EVERY = {
    "columns": COLUMNS,
    "sum": SUM,
    "one head": blocks_and_maps_picture(numbers(3, 12), causal_weights(1), TOKENS),
    "two heads": blocks_and_maps_picture(numbers(3, 12), causal_weights(2), TOKENS),
    "three heads, moved": blocks_and_maps_picture(
        numbers(3, 12), causal_weights(3), TOKENS, zeroed=7, moved=(0.0, 0.25, 0.0)
    ),
    "twelve heads": blocks_and_maps_picture(numbers(3, 12), causal_weights(12), TOKENS),
}


@pytest.mark.parametrize("scene", EVERY.values(), ids=EVERY)
def test_everything_can_be_read(scene):
    check_readable(scene)


# A product


def test_each_number_of_a_product_lies_where_its_factors_meet():
    cells = filled(COLUMNS)
    product = LEFT @ RIGHT
    expected = [*LEFT.flatten().tolist(), *RIGHT.flatten().tolist(), *product.flatten().tolist()]
    assert [text_in(COLUMNS, cell) for cell in cells] == [f"{number:.2f}" for number in expected]
    left, right, result = cells[:15], cells[15:33], cells[33:]
    assert [cell.x for cell in result] == [cell.x for cell in right[:6]] * 5
    assert [cell.y for cell in result[::6]] == [cell.y for cell in left[::3]]
    assert max(cell.y for cell in right) + 24 < min(cell.y for cell in result)


def test_columns_have_the_colour_of_their_head():
    cells = filled(COLUMNS)
    by_head = [tint(head_color(column // 2), 0.3) for column in range(6)]
    assert [cell.fill for cell in cells] == [QUIET] * 15 + by_head * 3 + by_head * 5


@pytest.mark.parametrize(("scene", "place"), [(COLUMNS, (1, 4)), (SUM, (3, 5))], ids=["1", "2"])
def test_a_row_and_a_column_are_framed_and_the_number_in_which_they_meet(scene, place):
    row, column, number, *more = (
        item for item in scene.items if getattr(item, "stroke", "") == INK
    )
    cells = filled(scene)
    left, right = (LEFT, RIGHT) if scene is COLUMNS else (MERGED, OUT)
    met = cells[left.numel() + right.numel() + place[0] * right.shape[1] + place[1]]
    assert (number.x, number.y) == (met.x, met.y) == (column.x, row.y)
    assert (row.width, column.height) == (left.shape[1] * 46, right.shape[0] * 24)
    assert len(more) == (scene is SUM)
    assert f"Row {place[0]} of " in scene.alt


def test_below_a_sum_stands_what_each_head_adds():
    parts = [(MERGED[3, h : h + 3] @ OUT[h : h + 3, 5]).item() for h in (0, 3)]
    total = (MERGED[3] @ OUT[:, 5]).item()
    lowest = max(item.y for item in words(SUM))
    line = [item.text for item in words(SUM) if item.y == lowest]
    assert line == [f"{parts[0]:.2f}", "+", f"{parts[1]:.2f}", "=", f"{total:.2f}"]
    said = f"It is the sum of {parts[0]:.2f} from head 0 and {parts[1]:.2f} from head 1."
    assert SUM.alt.endswith(said)


def test_in_a_sum_columns_meet_rows_of_their_own_colour():
    cells = filled(SUM)
    by_head = [tint(head_color(column // 3), 0.3) for column in range(6)]
    rows = [fill for fill in by_head for _ in range(7)]
    below = [by_head[0], by_head[3], QUIET]  # what each head adds to one number
    assert [cell.fill for cell in cells][:-3] == by_head * 5 + rows + [QUIET] * 35
    assert [cell.fill for cell in cells][-3:] == below


# Blocks and maps


@pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 6, 12])
def test_each_block_is_joined_to_the_map_below_it(num_heads):
    weight, attn_weights = numbers(3, 12), causal_weights(num_heads)
    scene = blocks_and_maps_picture(weight, attn_weights, TOKENS)
    owners = [column * num_heads // 12 for column in range(12)]
    cells = sorted(boxes(scene, 46, 24), key=lambda cell: (cell.y, cell.x))
    ends = {cell.x + 46 for cell in cells}
    assert len({cell.x for cell in cells} - ends) == num_heads  # a block stands by itself
    assert [text_in(scene, cell) for cell in cells] == [f"{v:.2f}" for v in weight.flatten()]
    assert [cell.fill for cell in cells] == [tint(head_color(h), 0.3) for h in owners] * 3
    firsts = scene.named("map")
    side = 5 * firsts[0].width
    visible = boxes(scene, side / 5, side / 5)
    assert firsts == visible[::15]
    rows = [row[: q + 1] for head in attn_weights.tolist() for q, row in enumerate(head)]
    fills = [weight_color(weight, i // 5) for i, row in enumerate(rows) for weight in row]
    assert [cell.fill for cell in visible] == fills
    bands = [item for item in scene.items if isinstance(item, Line)]
    frames = [box for box in boxes(scene, side, side) if box.stroke]
    assert len(bands) == len(frames) == num_heads
    first_row = [frame for frame in frames if frame.y == frames[0].y]
    for h, (band, frame) in enumerate(zip(bands, frames, strict=True)):
        top, *_, low = sorted({y for _, y in band.points})
        left, right = sorted(x for x, y in band.points if y == top)
        lower_left, lower_right = sorted(x for x, y in band.points if y == low)
        owned = [cell for cell, owner in zip(cells, owners, strict=False) if owner == h]
        assert (left - 2, right + 2) == pytest.approx((owned[0].x, owned[-1].x + 46))
        assert low + 3 == frame.y
        assert (lower_left + lower_right) / 2 == pytest.approx(frame.x + side / 2)
        if frame in first_row:
            assert (lower_left, lower_right) == pytest.approx((frame.x, frame.x + side))
        else:  # it goes between two maps
            beside = [other for other in first_row if other.x < lower_right]
            assert beside[-1].x + side < lower_left
        assert (band.fill, band.opacity) == (head_color(h), 0.18)  # as faint on dark paper


def test_many_small_maps_fill_two_rows_and_say_what_they_are():
    scene = EVERY["twelve heads"]
    side = 5 * scene.named("map")[0].width
    maps = [box for box in boxes(scene, side, side) if box.stroke]
    assert len({frame.y for frame in maps}) == 2
    assert max(frame.y for frame in maps) + side > scene.height - 60
    named = [item for item in words(scene) if item.text in TOKENS]
    assert [item.text for item in named] == ["Your", "starts", "one"] * 2  # a row apart
    (column,), (head,) = ([w for w in words(scene) if w.text == n] for n in ("column", "head"))
    (first, last) = (w for w in words(scene) if w.text == "0")
    assert {column.y, head.y} == {first.y, last.y}
    grid = {cell.stroke for cell in boxes(scene, side / 5, side / 5)}
    assert grid == {on_white(QUIET)}  # pale between pale cells, in the dark too


def test_the_sheet_is_as_large_for_any_number_of_heads():
    sizes = {(EVERY[name].width, EVERY[name].height) for name in EVERY if "head" in name}
    assert len(sizes) == 1
    assert max(sizes)[0] <= 700


def test_what_moved_is_said_below_the_maps():
    scene = EVERY["three heads, moved"]
    said = [item.text for item in words(scene)]
    told = "below each map: the largest change of one of its weights"
    assert said[-9:] == ["0", *TOKENS, "0.25", "0", told]
    (frame,) = [box for box in scene.items if isinstance(box, Box) and box.stroke_width == 2.5]
    assert (frame.width, frame.height) == (46, 3 * 24)
    assert "Column 7 is 0: a weight of head 1 changes by 0.25, no other map changes." in scene.alt


@pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 6, 12])
def test_on_a_phone_each_block_stands_beside_its_map(num_heads):
    """Every number is in its column, in the color of its head; the map begins behind the block."""
    weight, attn_weights = numbers(3, 12), causal_weights(num_heads)
    moved = tuple(0.5 if h == num_heads - 1 else 0.0 for h in range(num_heads))
    scene = blocks_beside_maps_picture(weight, attn_weights, zeroed=11, moved=moved)
    assert (outside(scene), overlapping(scene)) == ([], [])
    firsts = scene.named("map")
    assert len(firsts) == num_heads
    for column in range(12):
        (room,) = scene.named(f"column {column}")
        owner = column * num_heads // 12
        cells = [
            cell
            for cell in boxes(scene, 38, 24)
            if cell.fill and cell.x == room.x and room.y < cell.y < room.y + room.height
        ]
        told = [f"{value:.1f}" for value in weight[:, column]]
        assert [text_in(scene, cell) for cell in cells] == told
        assert {cell.fill for cell in cells} == {tint(head_color(owner), 0.3)}
        assert room.x + room.width < firsts[owner].x
    side = firsts[0].width
    rows = [row[: q + 1] for head in attn_weights.tolist() for q, row in enumerate(head)]
    fills = [weight_color(weight, i // 5) for i, row in enumerate(rows) for weight in row]
    assert [cell.fill for cell in boxes(scene, side, side)] == fills
    frames = [box for box in scene.items if isinstance(box, Box) and box.height == 3 * 24]
    assert {frame.stroke for frame in frames} == {INK}  # around the column that is 0
    told = [item.text for item in words(scene) if item.text in ("0", "0.50")]
    assert told.count("0.50") == 1
