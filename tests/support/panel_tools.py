"""A panel in a browser: its controls moved, and what it shows compared with what attnlib computes.

Serves JupyterLab and the page without a kernel alike. With ATTNLIB_SCREENSHOTS=1 in the
environment, pictures of the panels land in tests/screenshots/, for whoever wants to look.
"""

import html
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    ConsoleMessage,
    ElementHandle,
    Locator,
    Page,
    Request,
    TimeoutError,
    expect,
)

from attncourse.panels.states import MOST_BUTTONS, Panel, spell
from support.cases import ALL_PANELS, sheet

SCREENSHOTS = Path(__file__).parents[1] / "screenshots"
SECONDS = 1000  # Playwright counts in milliseconds

LOOK = """([panel, svg]) => {
    const sheet = document.createElement("div");
    sheet.innerHTML = svg;
    const { x, y, width, height } = panel.getBoundingClientRect();
    const controls = [...panel.querySelectorAll("input, select")].flatMap(control => {
        const room = control.getBoundingClientRect();
        return [room.x - x, room.y - y, room.width];
    });
    return {
        drawn: sheet.innerHTML === panel.querySelector(".attn-picture")?.innerHTML,
        lines: [...panel.querySelectorAll("[role=status]")].map(line => line.textContent),
        alts: [...panel.querySelectorAll("svg")].map(svg => svg.getAttribute("aria-label")),
        pictures: panel.querySelectorAll(".attn-picture > svg").length,
        outputs: panel.closest(".jp-Cell")?.querySelectorAll(".jp-OutputArea-child").length,
        room: [width, height, ...controls],
    };
}"""
IS_DRAWN = f"arg => ({LOOK})(arg).drawn"
SAYS = """control => {
    if (control.matches("[type=range]")) {
        const shown = control.parentElement.querySelector("output");
        return [control.getAttribute("aria-valuetext"), shown.textContent];
    }
    if (control.matches("select"))
        return [...control.selectedOptions].map(option => option.textContent);
    return [...control.querySelectorAll("input:checked")].map(input => input.labels[0].textContent);
}"""

expect.set_options(timeout=20 * SECONDS)


def listen_to(page: Page, home: str) -> list[str]:
    """Return a list to which the page's errors are added, and what it asks of others than home."""
    complaints: list[str] = []

    def listen(line: ConsoleMessage) -> None:
        if line.type == "error":
            complaints.append(f"console: {line.text}")

    def watch(request: Request) -> None:
        if not request.url.startswith((home, "data:", "blob:")):
            complaints.append(f"asks for {request.url}")

    page.on("console", listen)
    page.on("pageerror", lambda error: complaints.append(f"uncaught: {error}"))
    page.on("request", watch)
    return complaints


def move_sliders(
    page: Page, box: Locator, panel: Panel, name: str, *, stops: int | None = None
) -> None:
    """Move each control by keyboard to its last value, its first, and back to its default.

    Args:
        page: where the panel is.
        box: the panel.
        panel: what it must show.
        name: what the names of its screenshots begin with.
        stops: at how many values of each control to look, evenly spread and both ends among them;
            None looks at all.
    """
    state = dict(panel.default)
    shown, before = box.element_handle(), check_shows(page, box, panel, state)
    for control, values in panel.controls.items():
        control_of(box, panel, control, state[control]).focus()  # and the keys keep it there
        speaker = speaker_of(box, panel, control)
        looked_at = spread(values, stops)
        for key, value in moves(values, panel.default[control]):
            page.keyboard.press(key)
            state[control] = value
            if value not in (*looked_at, panel.default[control]):
                continue
            after = check_shows(page, shown, panel, state)
            assert after["outputs"] == before["outputs"], f"{state}: a new output below the panel"
            assert after["room"] == pytest.approx(before["room"], abs=0.1), f"{state}: it jumps"
            assert set(speaker.evaluate(SAYS)) == {spell(value)}
            before = after
            if value in (values[0], values[-1]):
                here = f"{name}.{panel.name}.{control}={spell(value)}"
                photograph(box, here.replace(" ", "-"))


def spread(values: Sequence[Any], stops: int | None) -> list[Any]:
    """Return so many of the values, evenly spread from the first to the last, or all.

    >>> spread("abcdefg", 3), spread("ab", 3)
    (['a', 'd', 'g'], ['a', 'b'])
    """
    if stops is None or stops >= len(values):
        return list(values)
    return [values[round(i * (len(values) - 1) / (stops - 1))] for i in range(stops)]


def control_of(box: Locator, panel: Panel, control: str, value: Any) -> Locator:
    """Return a control as a screen reader finds it; of radio buttons, the one with the value."""
    if not isinstance(value, str):
        return box.get_by_role("slider", name=control, exact=True)
    if len(panel.controls[control]) > MOST_BUTTONS:
        return box.get_by_role("combobox", name=control, exact=True)
    group = box.get_by_role("group", name=control, exact=True)
    return group.get_by_role("radio", name=value, exact=True)


def speaker_of(box: Locator, panel: Panel, control: str) -> ElementHandle:
    """Return what says the value of a control; of radio buttons, all found, it is their group."""
    values = panel.controls[control]
    found = [control_of(box, panel, control, value) for value in values]
    if not isinstance(values[0], str) or len(values) > MOST_BUTTONS:
        return found[0].element_handle()
    for radio in found:
        expect(radio).to_have_count(1)
    return box.get_by_role("group", name=control, exact=True).element_handle()


def drag_slider(page: Page, box: Locator, panel: Panel) -> dict[str, Any]:
    """Press keys faster than pictures can be drawn: return the state that is shown, and stays."""
    control, values = next(iter(panel.controls.items()))
    control_of(box, panel, control, panel.default[control]).focus()
    way = [*moves(values, panel.default[control])]
    keys = (way * (1 + 20 // len(way)))[: max(20, len(way)) - 1]  # ends beside the start
    for key, _ in keys:
        page.keyboard.press(key)
    state = {**panel.default, control: keys[-1][1]}
    check_shows(page, box, panel, state)
    return state


def check_stays(page: Page, box: Locator, panel: Panel, state: dict[str, Any]) -> None:
    """Wait as long as a late picture would take: the panel still shows the last value."""
    page.wait_for_timeout(SECONDS / 2)
    check_shows(page, box, panel, state)


def moves(values: tuple[Any, ...], default: Any) -> Iterator[tuple[str, Any]]:
    """Yield each key to press and the value that it leads to."""
    start, last = values.index(default), len(values) - 1
    places = [*range(start, last), *range(last, 0, -1), *range(start + 1)]
    for here, there in pairwise(places):
        yield "ArrowRight" if there > here else "ArrowLeft", values[there]


@cache
def expected(name: str, state: tuple[Any, ...]) -> tuple[str, str, str]:
    """Return the line, the picture and its alt text that attnlib computes for a state.

    They are in the sheet, as test_panels.py proves.
    """
    (panel,) = (panel for panel in ALL_PANELS if panel.name == name)
    chosen, made = dict(zip(panel.controls, state, strict=True)), sheet(name)
    page = made["pages"][panel.states().index(chosen)]
    svg = picture_in(made, page)
    return page["line"], svg, ET.fromstring(svg).get("aria-label")


def picture_in(sheet: dict[str, Any], page: dict[str, Any], which: int = 0) -> str:
    """Return a scene of a page of a sheet: its parts, in their forms, with their colors."""
    runs, svg = page["scenes"][which]["picture"], ""
    for before, place in zip([0, *runs], runs, strict=False):
        for part in sheet["parts"][before + 1 if place < 0 else place : abs(place) + 1]:
            form, *own = part.split(" ")
            svg += sheet["forms"][int(form)].replace("''", "'{}'").format(*own)
    alt = f" role='img' aria-label='{html.escape(page['alt'])}'"
    svg = svg.replace(" role='img'", alt, 1)
    return re.sub(r"(?<=')~(\d+)(?=')", lambda i: f"light-dark(#{sheet['colors'][int(i[1])]})", svg)


def check_shows(
    page: Page, box: Locator | ElementHandle, panel: Panel, state: dict[str, Any]
) -> dict[str, Any]:
    """Wait until the panel shows the state, one line and one picture; return what it shows."""
    line, svg, alt = expected(panel.name, tuple(state.values()))
    arg = [box.element_handle() if isinstance(box, Locator) else box, svg]
    shown = page.evaluate(LOOK, arg)
    if not shown["drawn"]:  # the kernel draws it, or the browser has not come to it yet
        try:
            page.wait_for_function(IS_DRAWN, arg=arg, timeout=20 * SECONDS, polling=50)
        except TimeoutError:
            pytest.fail(f"{state}: the picture is not the one that attnlib draws")
        shown = page.evaluate(LOOK, arg)
    assert shown["lines"] == [line]
    assert shown["pictures"] == len(shown["alts"]) == 1, f"{state}: drawn twice"
    assert shown["alts"] == [alt]
    return shown


def photograph(box: Locator, name: str) -> None:
    """Save a picture of a part of the page, if pictures are wanted."""
    if os.environ.get("ATTNLIB_SCREENSHOTS") == "1":
        box.screenshot(path=SCREENSHOTS / f"{name}.png")
