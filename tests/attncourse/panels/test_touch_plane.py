"""The plane: a query is dragged, and what follows it in a browser is what attnlib computes."""

import math
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect

from attncourse.learning import COUNTRIES, mini_model
from attncourse.panels import PLANE, query_plane
from attncourse.panels.query_plane import hull
from attncourse.panels.states import Panel
from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import INK, PAPER, QUIET
from attncourse.pictures.scene import Box, Item, Line, Scene, Words
from support.pictures import outside, overlapping
from support.shape_comments import reading
from support.touch_tools import box_of, violations, write_page

browser_test = pytest.mark.browser
ORIGIN = 320 * 2.9 / 5, 24 + 320 / 2  # of the keys
SOME = PLANE.states()[:: len(PLANE.states()) // 50][:50]


# The numbers


def by_hand(turned: int, percent: int) -> tuple[list[float], list[float], list[float]]:
    """Return scores, weights and context vector in float64, from the formulas."""
    read = mini_model().read(query_plane.TEXT)
    own, angle = read.queries[-1].tolist(), math.radians(turned)
    query = (
        percent / 100 * (math.cos(angle) * own[0] - math.sin(angle) * own[1]),
        percent / 100 * (math.sin(angle) * own[0] + math.cos(angle) * own[1]),
    )
    keys, values = read.keys.tolist(), read.values.tolist()
    scores = [query[0] * key[0] + query[1] * key[1] for key in keys]
    powers = [math.exp(score / math.sqrt(2)) for score in scores]
    weights = [power / sum(powers) for power in powers]
    context_vec = [sum(w * v[i] for w, v in zip(weights, values, strict=True)) for i in (0, 1)]
    return scores, weights, context_vec


def test_a_hull_has_the_outer_points_only():
    points = [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0), (1.0, 1.0), (1.0, 0.0)]
    assert sorted(hull(points)) == sorted(points[:4])
    assert hull([(1.0, 1.0), (1.0, 1.0)]) == [(1.0, 1.0)]


@pytest.mark.parametrize("state", SOME[::5], ids=lambda s: f"{s['turned']} {s['percent']}")
def test_each_state_is_attention(state):
    data = PLANE.compute(**state)
    made = (data.attn_scores, data.attn_weights, data.context_vec)
    for mine, expected in zip(made, by_hand(**state), strict=True):
        assert mine.tolist() == pytest.approx(expected, abs=1e-5)


def test_at_the_start_it_is_what_the_mini_model_does():
    read, data = mini_model().read(query_plane.TEXT), PLANE.compute(**PLANE.default)
    assert data.tokens == read.tokens
    torch.testing.assert_close(data.query, read.queries[-1])
    torch.testing.assert_close(data.attn_weights, read.weights[-1])
    torch.testing.assert_close(data.context_vec, read.numbers)
    assert data.attn_weights[3] > 0.99
    assert len(data.others) == len(COUNTRIES)
    assert torch.equal(data.others[0], data.values[3])


def test_the_grid_is_fine_and_a_longer_query_looks_harder():
    assert len(PLANE.controls["turned"]) == 72
    assert len(PLANE.controls["percent"]) >= 4
    first = {int(PLANE.compute(**state).attn_weights.argmax()) for state in PLANE.states()}
    assert first == {2, 3, 4}  # the keys of The and capital lie between the others
    largest = [PLANE.compute(turned=180, percent=p).attn_weights.max() for p in (25, 50, 100, 200)]
    assert largest == sorted(largest)
    away = PLANE.compute(turned=180, percent=100)
    assert away.attn_weights[3] < 0.01


def test_its_shape_comments_are_true():
    found = reading(Path(query_plane.__file__))
    sizes = {"num_tokens": 5, "head_dim": 2, "num_countries": 8}
    data = found.run(sizes, lambda: PLANE.compute(turned=90, percent=50))
    found.fields(sizes, data)
    assert found.lies == []
    assert found.unreached() == []


@pytest.mark.parametrize("state", SOME[::7], ids=lambda s: f"{s['turned']} {s['percent']}")
def test_the_picture_fits_and_its_words_stand_apart(state):
    scene = PLANE.draw(PLANE.compute(**state))
    assert outside(scene) == []
    assert overlapping(scene) == []


def test_nothing_covers_the_query_and_the_query_covers_no_name():
    """Strips of paper under names let it through; its tip is a ring."""
    for state in SOME:
        scene = PLANE.draw(PLANE.compute(**state))
        tip = PLANE.handle(PLANE.compute(**state))
        line = next(i for i, item in enumerate(scene.items) if is_query(item, tip))
        later = scene.items[line + 1 :]
        strips = [i for i in later if isinstance(i, Line) and i.stroke == PAPER and not i.fill]
        assert len(strips) == 10
        assert max(strip.opacity for strip in strips) <= 0.6
        assert not any(isinstance(item, Box) and item.fill == PAPER for item in later)
        (ring,) = [item for item in later if isinstance(item, Box) and item.stroke == INK]
        assert ring.fill is None
        assert (ring.x + 8, ring.y + 8) == pytest.approx(tip, abs=0.2)


def is_query(item: Item, tip: tuple[float, float]) -> bool:
    """Return whether an item is a line from the origin of the keys to the tip."""
    ends = [ORIGIN, tip]
    return (
        isinstance(item, Line)
        and len(item.points) == 2
        and ([*item.points] == [pytest.approx(end, abs=0.1) for end in ends])
    )


def test_the_axes_and_the_thinnest_lines_are_seen():
    for state in SOME:
        items = PLANE.draw(PLANE.compute(**state)).items
        lines = [item for item in items if isinstance(item, Line) and item.stroke]
        assert QUIET not in {line.stroke for line in lines}
        assert min(line.width for line in lines) > 0.9


def test_the_context_vector_touches_no_name():
    for state in PLANE.states():
        items = PLANE.draw(PLANE.compute(**state)).items
        marks = [item for item in items if isinstance(item, Line) and item.fill == INK]
        (x, left), y = (marks[1].points[1][0], 378), marks[1].points[0][1]
        for word in items:
            if isinstance(word, Words) and word.x > left and 24 < word.y < 344:
                apart = abs(word.x - x) - text_width(word.text, word.size) / 2, abs(word.y - y) - 5
                assert max(apart[0], 0) + max(apart[1], 0) > 12, (state, word.text)


def test_the_numbers_stand_in_the_picture():
    data = PLANE.compute(turned=90, percent=200)
    said = [item.text for item in PLANE.draw(data).items if isinstance(item, Words) and item.mono]
    expected = []
    for score, weight in zip(data.attn_scores.tolist(), data.attn_weights.tolist(), strict=True):
        expected += [f"{score:.2f}".replace("-", "−"), f"{weight:.3f}"]
    assert said == expected


# What is sent


@pytest.fixture(scope="module")
def sheet() -> dict:
    return PLANE.sheet()


def test_one_picture_is_sent_and_of_the_others_what_changes(sheet):
    states = PLANE.states()
    pages = sheet["pages"]
    assert len(pages) == len(states) == 288
    start = states.index(dict(PLANE.default))
    assert [i for i, page in enumerate(pages) if "picture" in page] == [start]
    assert all(len(page["values"]) == len(sheet["slots"]) for page in pages if "values" in page)
    assert len(str(sheet)) < 500_000


def test_the_handle_stands_at_the_tip_of_the_query(sheet):
    for state, page in zip(PLANE.states(), sheet["pages"], strict=True):
        tip = PLANE.compute(**state).query / 2.5 / 5 * 320
        expected = ORIGIN[0] + tip[0].item(), ORIGIN[1] - tip[1].item()
        assert page["handle"] == pytest.approx(expected, abs=0.1)
        assert all(24 < at < 344 for at in page["handle"][1:])
        assert 0 < page["handle"][0] < 320


def test_pictures_that_differ_in_their_items_cannot_have_a_handle():
    def draw(n: int) -> Scene:
        return Scene(20, 20, "", (Box(0, 0, 5, 5),) * n)

    panel = Panel(
        "uneven", {"n": (1, 2)}, {"n": 1}, lambda n: n, draw, str, handle=lambda n: (n, 0)
    )
    with pytest.raises(ValueError, match="must all have the same items in the same order"):
        panel.sheet()


# In a browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_page(tmp_path_factory.mktemp("plane") / "plane.html", [PLANE])


def places(page: Page) -> list[list[float]]:
    """Return where in the window the handle stands in each of the states chosen."""
    svg = box_of(page, PLANE).locator("svg")
    corner, scale = (
        svg.bounding_box(),
        svg.bounding_box()["width"] / PLANE.draw(PLANE.compute(**PLANE.default)).width,
    )
    found = []
    for state in SOME:
        x, y = PLANE.handle(PLANE.compute(**state))
        found.append([corner["x"] + scale * x, corner["y"] + scale * y])
    return found


@browser_test
def test_fifty_positions_show_what_attnlib_computes(page):
    """The handle is dragged there; the picture, its alt text and the line are attnlib's."""
    box = box_of(page, PLANE)
    handle, picture = (
        box.get_by_role("slider", name="angle and length"),
        box.locator(".attn-picture"),
    )
    held = handle.bounding_box()
    page.mouse.move(held["x"] + held["width"] / 2, held["y"] + held["height"] / 2)
    page.mouse.down()
    for state, place in zip(SOME, places(page), strict=True):
        page.mouse.move(*place)
        data = PLANE.compute(**state)
        assert box.get_by_role("status").text_content() == PLANE.readout(data), state
        svg = PLANE.draw(data).svg()
        same = "([box, svg]) => { const sheet = document.createElement('div'); "
        same += "sheet.innerHTML = svg; return sheet.innerHTML === box.innerHTML; }"
        assert page.evaluate(same, [picture.element_handle(), svg]), state
        for name, value in state.items():
            slider = box.get_by_role("slider", name=name, exact=True)
            assert slider.get_attribute("aria-valuetext") == str(value)
    page.mouse.up()
    page.mouse.move(*places(page)[0])
    assert box.get_by_role("status").text_content() == PLANE.readout(PLANE.compute(**SOME[-1]))


@browser_test
def test_the_handle_by_keyboard(page):
    """It goes round by angle, and ends where the lengths end."""
    handle = box_of(page, PLANE).get_by_role("slider", name="angle and length")
    state = dict(PLANE.default)
    for key, control, value in [
        ("ArrowRight", "turned", 5),
        ("ArrowLeft", "turned", 0),
        ("ArrowUp", "percent", 200),
        ("ArrowUp", "percent", 200),
        ("ArrowDown", "percent", 100),
    ]:
        handle.press(key)
        state[control] = value
        expect(handle).to_have_attribute("aria-valuetext", f"{state['turned']}, {state['percent']}")
    box_of(page, PLANE).get_by_role("slider", name="turned", exact=True).press("Home")
    handle.press("ArrowLeft")
    assert handle.get_attribute("aria-valuetext") == "355, 100"
    assert handle.evaluate("handle => handle === document.activeElement")


@browser_test
def test_a_click_anywhere_brings_the_handle(page):
    box = box_of(page, PLANE)
    for state, place in zip(SOME[:5], places(page), strict=False):
        page.mouse.click(*place)
        said = PLANE.readout(PLANE.compute(**state))
        assert box.get_by_role("status").text_content() == said
        page.mouse.move(0, 0)
        assert box.get_by_role("status").text_content() == said


@browser_test
def test_nothing_in_it_stands_in_the_way_of_anybody(page):
    assert violations(page) == []
