"""Pictures of shapes: one line after the other, and what view and transpose do to the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from torch import Tensor

from attncourse.pictures.cells import Cell, grid
from attncourse.pictures.letters import text_width, wrap
from attncourse.pictures.palette import (
    FAINT,
    HEAD_COLORS,
    INK,
    PAPER,
    QUIET,
    WRONG,
    head_color,
    text_color,
    tint,
)
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words

ROW, SIZE_BOX, STATEMENT, PLACE = 27.0, 32.0, 158.0, 130.0  # of shapes_picture: pixels
WIDE, HIGH = 23.0, 22.0  # of a cell of moves_picture
NAMES, ARROW = 56.0, 100.0  # room for the names of rows, and for an arrow
EDGE = 1.0  # so that a border at the edge is drawn whole
# Of sizes, the smallest first: none is the hue of head 0 or 1 in a picture of moves.
SIZE_COLORS = (QUIET, *(tint(HEAD_COLORS[hue], 0.45) for hue in (3, 4, 5, 2, 6)))


class Made(Protocol):
    """A tensor that a line made: a step of a trace."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def source(self) -> str: ...
    @property
    def values(self) -> Tensor: ...


def shapes_picture(
    steps: Iterable[Made],
    meanings: Mapping[int, str],
    stopped: str = "",
    followed: int | None = None,
) -> Scene:
    """Draw the shape after every line, each size as a box in a color of its own.

    Args:
        steps: of a trace, such as trace(module, x).steps.
        meanings: what each size is, the legend; sizes that are not in it are white.
        stopped: the line that raised, and why, if one did.
        followed: a number; where a tensor has it, its place stands at the end of the row.

    Returns:
        A Scene: a row for each step, its shape on the left, the statement that made it beside it.
    """
    colors = {
        size: SIZE_COLORS[place % len(SIZE_COLORS)] for place, size in enumerate(sorted(meanings))
    }
    items: list[Item] = []
    x, y = EDGE, EDGE
    for size, meaning in sorted(meanings.items()):
        wide = SIZE_BOX + 8 + text_width(meaning) + 16
        if x + wide > BOOK:
            x, y = EDGE, y + ROW
        items += _size(x, y, size, colors)
        items.append(Words(x + SIZE_BOX + 6, y + 11, meaning, "start"))
        x += wide
    y += ROW + 20
    items.append(Line(((0, y - 10), (BOOK, y - 10)), QUIET, 1.0))
    said = []
    for step in steps:
        for place, size in enumerate(step.shape):
            items += _size(EDGE + place * (SIZE_BOX + 4), y, size, colors)
        where = _where(step.values, followed)
        if where:
            items.append(Words(BOOK - 4, y + 11, where, "end", bold=True))
        lines = wrap(step.source, BOOK - STATEMENT - (PLACE if where else 0), mono=True)
        for i, line in enumerate(lines):
            items.append(Words(STATEMENT, y + 11 + i * 18, line, "start", mono=True))
        said.append(f"{step.name} {step.shape}{where and f', {where}'}")
        y += ROW + (len(lines) - 1) * 18
    if stopped:
        lines = [part for line in stopped.splitlines() for part in wrap(line, BOOK - 24)]
        items.append(Box(1, y + 4, BOOK - 2, 18.0 * len(lines) + 12, PAPER, WRONG, 2.0))
        items += [Words(12, y + 19 + i * 18, line, "start") for i, line in enumerate(lines)]
        y += 18.0 * len(lines) + 22
    alt = f"The shape after each line: {', then '.join(said)}."
    alt += f" {' '.join(stopped.split())}" if stopped else ""
    return Scene(BOOK, y, alt, tuple(items))


def _where(values: Tensor, followed: int | None) -> str:
    """Return the first place of a number, nothing where a tensor lacks it."""
    if followed is None or not values.is_floating_point():
        return ""
    found = (values.round() == followed).nonzero().tolist()
    return f"{followed} at {found[0]}" if found else ""


def _size(x: float, y: float, size: int, colors: Mapping[int, str]) -> list[Item]:
    """Return the box of one size of a shape."""
    fill = colors.get(size, PAPER)
    words = Words(x + SIZE_BOX / 2, y + 11, str(size), color=text_color(fill), bold=True)
    return [Box(x, y, SIZE_BOX, 22, fill, HEAD_COLORS[7], radius=3.0), words]


Stage = tuple[Tensor, Sequence[str]]


def moves_picture(stages: Sequence[Stage], moves: Sequence[str], followed: int) -> Scene:
    """Draw tensors before and after each move, and frame one number in all of them.

    Args:
        stages: tensors of one text with whole numbers in them, each with the names of its
            dimensions: (b, num_tokens, d_out), (b, num_tokens, num_heads, head_dim) or
            (b, num_heads, num_tokens, head_dim), as shape comments have them. One of them at
            least has num_heads.
        moves: what leads from each stage to the next.
        followed: the number that is framed.

    Returns:
        A Scene: the stages from left to right, every cell in the color of its head, blocks below
        each other where a stage has them; above each its shape and the place of the number.

    Raises:
        ValueError: a stage lacks the number.
    """
    heads = next(
        values.shape[tuple(dims).index("num_heads")] for values, dims in stages if len(dims) == 4
    )
    items: list[Item] = []
    said = []
    x = bottom = 0.0
    for number, (values, dims) in enumerate(stages):
        found = (values[0].round() == followed).nonzero().tolist()
        if not found:
            raise ValueError(f"followed must be in every stage, and {followed} is not in {dims}")
        place, shape = found[0], tuple(values.shape)
        left = x + NAMES + (0 if number else 6)
        items.append(Words(left, 10, str(shape), "start", bold=True))
        at = f"{followed} at {[0, *place]}"
        items += _address(left, 30, followed, place, "transpose" in moves)
        block_items, wide, high = _stage(values[0], dims, heads, place, left, 48)
        items += block_items
        said.append(f"{shape}, {at}")
        x, bottom = left + wide, max(bottom, high)
        if number < len(moves):
            items += _arrow(x + 10, 48 + 4 * HIGH, moves[number])
            x += ARROW
    alt = f"{said[0]}; " + "; ".join(
        f"after {move}: {text}" for move, text in zip(moves, said[1:], strict=True)
    )
    return Scene(max(x + 4, left + text_width(at) + 4), bottom + 4, f"{alt}.", tuple(items))


def _stage(
    values: Tensor, dims: Sequence[str], heads: int, place: Sequence[int], left: float, top: float
) -> tuple[list[Item], float, float]:
    """Return a tensor as blocks below each other; its width, and where it ends."""
    flat, by_head = values.ndim == 2, values.ndim == 3 and dims[1] == "num_heads"
    blocks, place = (values[None], [0, *place]) if flat else (values, place)
    _, num_rows, num_columns = blocks.shape
    wide, tall, gap = num_columns * WIDE, num_rows * HIGH, 20.0 if by_head else 8.0
    items: list[Item] = []
    for b, block in enumerate(blocks):
        y = top + b * (tall + gap)

        def look(value: float, row: int, column: int, b: int = b) -> Cell:
            head = column * heads // num_columns if flat else b if by_head else row
            here = [b, row, column] == [*place]
            return Cell(tint(head_color(head), 0.3), f"{value:.0f}", bold=here)

        if flat:
            for row in range(num_rows):
                items.append(Words(left - 8, y + (row + 0.5) * HIGH, f"token {row}", "end"))
        else:
            name = f"head {b}" if by_head else f"token {b}"
            items.append(Words(left - 8, y + tall / 2, name, "end", bold=by_head))
        items += grid(left, y, block, look, WIDE, HIGH, Words(WIDE / 2, HIGH / 2, ""))
    block, row, column = place
    corner = (left + column * WIDE, top + block * (tall + gap) + row * HIGH)
    items.append(Box(*corner, WIDE, HIGH, stroke=INK, stroke_width=2.5))
    return items, wide, top + len(blocks) * (tall + gap) - gap


def _arrow(x: float, y: float, move: str) -> list[Item]:
    """Return an arrow to the right, with what it does above it."""
    end = x + ARROW - 20
    items: list[Item] = [
        Line(((x, y), (end - 7, y)), FAINT, 1.5),
        Line(((end - 8, y - 5), (end, y), (end - 8, y + 5)), FAINT, 1.0, FAINT),
    ]
    words = move.split()
    for number, word in enumerate(words):
        height = y - 12 - 17 * (len(words) - 1 - number)
        items.append(Words((x + end) / 2, height, word, bold=True))
    return items


def _address(x: float, y: float, number: int, place: Sequence[int], swapped: bool) -> list[Item]:
    """Return where a number is; of four indices the two that a transpose swaps may be bold."""
    first, *rest = place
    parts = [(f"{number} at {[0, *place]}", False)]
    if swapped and len(rest) == 2:
        swap = f"{first}, {rest[0]},"
        parts = [(f"{number} at [0,", False), (swap, True), (f"{rest[1]}]", False)]
    items: list[Item] = []
    for text, bold in parts:
        items.append(Words(x, y, text, "start", bold=bold))
        x += text_width(f"{text} ", bold=bold)
    return items
