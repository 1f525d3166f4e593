"""Every picture can be read, and says in its alt text the numbers that it shows."""

import itertools
import math
from functools import cache
from types import SimpleNamespace

import pytest
import torch

from attncourse import pictures
from attncourse.pictures.alt_text import format_number
from attncourse.pictures.matrices import (
    HEIGHT,
    NUMBER,
    matrix_picture,
    short_number,
)
from attncourse.pictures.palette import PAPER, QUIET, WRONG, head_color, tint, weight_color
from attncourse.pictures.scene import Scene
from attncourse.pictures.tables import FaultTable, ShapeTable
from attncourse.pictures.weight_blocks import weight_block_pictures
from attnlib import causal_mask
from support.pictures import boxes, check_readable, pixels, text_in, words

TOKENS = ("Your", "journey", "starts", "with", "one")
FUTURE = causal_mask(5)


def numbers(*shape: int, seed: int = 2) -> torch.Tensor:
    """Return random numbers, the same for the same seed."""
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def causal_weights(*heads: int) -> torch.Tensor:
    """Return causal weights, no two alike."""
    return torch.softmax(numbers(*heads, 5, 5).masked_fill(FUTURE, -torch.inf), dim=-1)


def head() -> SimpleNamespace:
    """Return all that a small head computes."""
    x, queries, keys, values = (numbers(5, size, seed=size) for size in (4, 2, 2, 2))
    parts = {"x": x, "queries": queries, "keys": keys, "values": values}
    weights = causal_weights()
    return SimpleNamespace(
        tokens=TOKENS,
        scores=queries @ keys.T,
        weights=weights,
        numbers=values[0],
        after=2 * x[-1],
        **parts,
    )


STEPS = [
    SimpleNamespace(
        name="x", shape=(1, 5, 4), source="def forward(self, x):", values=numbers(1, 5, 4)
    ),
    SimpleNamespace(
        name="queries",
        shape=(1, 2, 5, 3),
        source="queries = self.W_query(x)",
        values=torch.arange(30.0).view(1, 2, 5, 3),
    ),
]
A, B, C = (torch.tensor(v) for v in ([[0.5, 0.5]], [[1.0], [2.0]], [3.0, 0.5]))
PICTURES = {  # with what their alt texts say, among other things
    "weights": (
        lambda: pictures.weights_picture(causal_weights(2), TOKENS, FUTURE),
        ["head 0: ", "head 1: ", format_number(causal_weights(2)[0, 1].max().item()), "is gray"],
    ),
    "weights of other queries": (
        lambda: pictures.weights_picture(
            A[None], ("a", "b"), heads={"one": 3}, queries=["q"], marked=A > 0.4
        ),
        ["one: q attends most to a (0.50)"],
    ),
    "arcs": (
        lambda: pictures.arcs_picture(TOKENS, causal_weights(2), {"L0H1": 0, "L2H3": 1}),
        ["L0H1: ", "L2H3: "],
    ),
    "arcs of one query": (
        lambda: pictures.arcs_picture(TOKENS, causal_weights(), query=4),
        [f"one attends to {TOKENS[int(causal_weights()[4].argmax())]}"],
    ),
    "matrix": (
        lambda: matrix_picture(numbers(5, 4), TOKENS, [0, 0, 1, 1], "result"),
        ["result: 5 rows by 4 columns", ": 2 of head 0, 2 of head 1."],
    ),
    "difference": (
        lambda: pictures.difference_picture(numbers(5, 4).abs().tril(-1), TOKENS, "off"),
        ["off: 1 of 5 rows did not move at all (Your)"],
    ),
    "product": (
        lambda: pictures.matmul_picture(
            numbers(5, 3), numbers(3, 4) / 4, ["abc"] * 5, ("x", "W", "y"), 2, (1, 2)
        ),
        ["x  (5, 3)", "W  (3, 4)", "y  (5, 4)", "Row 1 of x and column 2 of W are framed"],
    ),
    "product of joined heads": (
        lambda: pictures.matmul_picture(A, B, ["t"], ("z", "W_out", "out"), 2, (0, 0), inner=True),
        ["out  (1, 1)", "columns of z, rows of W_out"],
    ),
    "head": (
        lambda: pictures.head_picture(head()),
        ["query of one", f"Your {causal_weights()[4, 0]:.2f}"],
    ),
    "weight block": (
        lambda: weight_block_pictures(numbers(3, 4), causal_weights(2), 3, [0.0, 0.25])[1],
        ["Head 1: 2 columns of W_query", "changes by 0.25"],
    ),
    "ablation": (
        lambda: pictures.ablation_picture(torch.tensor([[0.7, 0.6], [0.2, 0.7]]), 0.7, "Paris"),
        ["4 heads", "Paris", "no head ablated: 0.70", "L1H0: 0.20"],
    ),
    "bars": (
        lambda: pictures.bars_picture({"a": 80.0, "b": 40.0}, "Times, ms", ".0f"),
        ["Times, ms. a: 80; b: 40."],
    ),
    "losses": (
        lambda: pictures.loss_curves_picture({"mine": [2.0, 1.0]}, "Loss", ("guess", 1.5), "steps"),
        ["mine begins at 2.00 and ends at 1.00", "guess 1.500"],
    ),
    "training maps": (
        lambda: pictures.training_heatmaps_picture(
            {"L0H0": torch.tensor([[math.nan, 0.0], [math.nan, 0.7]]), "L0H1": B.expand(2, 2) / 2},
            [0, 20], (0, 1), 0,
        ),
        ["L0H0: at the end 0.70", "L0H1: at the end 1.00"],
    ),
    "rotary": (
        lambda: pictures.rotary_picture((1.0, 0.0), (0.5, 0.0), math.pi / 2, [(7, 7), (3, 1)]),
        ["query at 7, key at 7: product 0.50", "query at 3, key at 1: product -0.50"],
    ),
}  # fmt: skip


@cache
def drawn(name: str) -> pictures.Scene:
    return PICTURES[name][0]()


@pytest.fixture(params=PICTURES)
def shown(request):
    return drawn(request.param), PICTURES[request.param][1]


def test_the_alt_text_says_the_numbers(shown):
    picture, said = shown
    assert picture.alt.endswith(".")
    assert [part for part in said if part not in picture.alt] == []


def test_the_png_is_twice_as_large_as_the_picture_and_not_empty(shown):
    picture, _ = shown
    image = pixels(picture)
    assert abs(image.width - 2 * picture.width) < 2
    assert abs(image.height - 2 * picture.height) < 2
    assert len(image.getcolors(image.width * image.height)) > 10


def test_all_words_stand_on_the_sheet_in_nobodys_way(shown):
    picture, _ = shown
    if isinstance(picture, Scene):
        check_readable(picture)


# What some pictures show


@pytest.mark.parametrize("cell", [40, 24])
def test_weights_stand_in_their_cells(cell):
    """Queries down, keys across; what is masked is gray; a small cell has no number."""
    scene = pictures.weights_picture(causal_weights(3), TOKENS, FUTURE, cell=cell)
    cells = boxes(scene, cell, cell)
    assert scene.boxes_named("map") == cells[::25]
    for box, (h, q, k) in zip(cells, itertools.product(range(3), range(5), range(5)), strict=True):
        first, weight = cells[25 * h], causal_weights(3)[h, q, k].item()
        assert (box.x, box.y) == (first.x + cell * k, first.y + cell * q)
        assert box.fill == (QUIET if k > q else weight_color(weight, h))
        assert text_in(scene, box) == (f"{weight:.2f}" if k <= q and cell == 40 else None)


def test_nan_is_hatched_and_what_is_marked_or_above_one_is_framed():
    weights = torch.tensor([[[math.nan, 0.0], [2.0, 0.5]]])
    marked = torch.tensor([[False, True], [False, False]])
    scene = pictures.weights_picture(weights, TOKENS[:2], marked=marked)
    assert [box.hatched for box in boxes(scene, 40, 40)] == [True, False, False, False]
    assert "Hatched cells are NaN." in scene.alt
    first = scene.boxes_named("map")[0]
    (red,) = (box for box in boxes(scene, 37, 37) if box.stroke == WRONG)
    assert (red.x, red.y) == (first.x + 40 + 1.5, first.y + 1.5)
    assert [box.y > first.y + 40 for box in boxes(scene, 32, 32)] == [True]
    assert "> 1" in [item.text for item in words(scene)]


def test_weights_that_do_not_fit_the_names_are_refused():
    with pytest.raises(ValueError, match=r"attn_weights must be \(2, 3, 3\)"):
        pictures.weights_picture(causal_weights(2), "abc")
    with pytest.raises(ValueError, match=r"got \(5, 5\): pass as many words"):
        pictures.arcs_picture("abc", causal_weights())
    with pytest.raises(ValueError, match="query must be 0 to 4"):
        pictures.arcs_picture(TOKENS, causal_weights(), query=5)


def test_columns_have_the_color_of_their_head():
    scene = drawn("product")
    cells = [box for box in boxes(scene, NUMBER, HEIGHT) if box.fill]
    own = [tint(head_color(h), 0.22) for h in (0, 0, 1, 1)]
    assert [box.fill for box in cells] == [QUIET] * 15 + own * 3 + own * 5  # x, W, their product
    x, w, product = scene.boxes_named("matrix")
    assert (product.x, product.y) == (w.x, x.y)  # a column under that of W, a row beside that of x
    over, under = (drawn("product of joined heads").boxes_named("matrix")[i] for i in (1, 2))
    assert (over.fill, under.fill) == (own[0], QUIET)


def test_an_exact_zero_looks_like_no_other_number():
    scene = pictures.difference_picture(torch.tensor([[0.0, 1e-9, math.nan]]), ["row"], "off")
    zero, tiny, nan = (box for box in scene.items if getattr(box, "fill", None))
    assert zero.fill == "#ffffff" != tiny.fill
    assert (nan.fill, nan.hatched) == (PAPER, True)
    assert [short_number(x) for x in (0.0004, 8.488, 21.27, 640.2)] == [
        "<.01",
        "8.49",
        "21.3",
        "640",
    ]


def test_a_fault_table_strikes_through_what_an_answer_rules_out():
    shows = {
        "scale": {"one head": "sometimes show", "one token": "never show"},
        "mask": {"one head": "always show", "one token": "show as NaN only"},
    }
    answers = {"mine": {"one head": "right", "one token": "wrong"}}
    table = FaultTable(shows, answers, {"scale": "one token"})
    page = table._repr_html_()
    assert "<s>scale</s>" in page
    assert "<s>mask" not in page
    assert page.count("<b>") == 1
    assert "<b>[– never]</b>" in page
    assert repr(table) == "<FaultTable of 2 parts at 2 test inputs>"


def test_a_table_of_shapes_says_where_a_number_is_and_why_a_line_stopped():
    table = ShapeTable(STEPS, {5: "tokens", 4: "d_in"}, "Stopped in f\na < b", followed=24)
    page = table._repr_html_()
    assert "<td>24 at [0, 1, 3, 0]</td>" in page
    assert page.count("24 at") == 1
    assert "<p>Stopped in f<br>a &lt; b</p>" in page
    assert page.count("style='background") == 2 + 2 + 1  # the legend, (1, 5, 4), (1, 2, 5, 3)
    assert repr(table).splitlines() == [
        "x (1, 5, 4)",
        "queries (1, 2, 5, 3)  24 at [0, 1, 3, 0]",
        "Stopped in f",
        "a < b",
    ]
