"""What the sliders show, without any slider: states, numbers, picture.

A panel is plain data: a few controls with a few values each, a pure function from those values to
numbers, and two more from the numbers to a picture and to a line of text. Nothing here needs a
kernel or a browser, so every state can be computed, tested and drawn in advance.
"""

from __future__ import annotations

import base64
import html
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attncourse.panels.touch import Touch
from attncourse.pictures.palette import line_color
from attncourse.pictures.scene import Scene, caption, in_rows

MOST_PAGES = 100  # as many states are drawn ahead, even while the kernel is busy
PHONE = 332.0  # pixels that a panel has on a phone
MOST_BUTTONS = 6  # more words than these are a list
THEMED = re.compile(r"(?<=')light-dark\(#([^)]*)\)(?=')")
ALT = re.compile(' aria-label="([^"]*)"')
OWN = re.compile("(?<= [xy]=')[^' ]*(?=')|(?<= fill=')[^' ]*(?=')")
PART_ENDS = re.compile("(?<=>)(?=<(?!/text>))")  # of a picture as SVG; a text may be empty

Page = dict[str, Any]


@dataclass(frozen=True)
class Panel:
    """Controls, and the three pure functions behind them."""

    name: str
    controls: Mapping[str, tuple[Any, ...]]  # all the values that each can take
    default: Mapping[str, Any]  # the value of each control at the start
    compute: Callable[..., Any]  # from the controls' values, as keywords, to the numbers shown
    draw: Callable[[Any], Scene]
    readout: Callable[[Any], str]  # what it shows, in a few sentences
    draw_narrow: Callable[[Any], Scene] | None = None  # the same for a phone, PHONE wide at most
    time: str | None = None  # the control that can be played; it starts at its first value
    # the states that a page without a kernel shows, side by side; None: one control, that of the
    # time or the one with the most values, at its first, middle and last value
    telling: tuple[Mapping[str, Any], ...] | None = None
    touch: Callable[[Any, Scene], Touch] | None = None  # what can be touched in the picture
    # of a list, what is written above the values that belong together
    groups: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)

    def states(self) -> list[dict[str, Any]]:
        """Return every state that the controls can reach."""
        values = itertools.product(*self.controls.values())
        return [dict(zip(self.controls, state, strict=True)) for state in values]

    def page(self, state: Mapping[str, Any]) -> Page:
        """Return what a state shows: its line of text, what can be touched, and its scenes.

        The first scene is the wide one. Each has its picture as SVG; what a click chooses there;
        and where the maps are that can be touched.
        """
        page, _ = self._drawn(state)
        return page

    def _drawn(self, state: Mapping[str, Any]) -> tuple[Page, list[Scene]]:
        data = self.compute(**state)
        scenes = [draw(data) for draw in (self.draw, self.draw_narrow) if draw is not None]
        page: Page = {"line": self.readout(data), "scenes": [*map(self._in_page, scenes)]}
        if self.touch is not None:
            for shown, scene in zip(page["scenes"], scenes, strict=True):
                touch = self.touch(data, scene)
                shown["places"] = [[map.x, map.y, map.cell] for map in touch.maps]
            page["touch"] = _in_json(touch)
        return page, scenes

    def _in_page(self, scene: Scene) -> Page:
        """Return a scene as SVG; a click on a box with the name of a value chooses it."""
        choices = [
            [control, place, [box.x, box.y, box.width, box.height]]
            for control, values in self.controls.items()
            for place, value in enumerate(values)
            for box in scene.named(spell(value))
        ]
        return {"picture": scene.svg(), **({"choices": choices} if choices else {})}

    def sheet(self) -> dict[str, Any]:
        """Return all that a page in a browser needs, in the types of JSON.

        Returns:
            The name; the controls, each with its kind (number, words, list or time), the words
            of its values and the place of its default; a page for each state, in the order of
            states(), or None where more than MOST_PAGES would have to be drawn; of the wide
            scenes, and of the narrow ones if there are any, the width and height that hold each of
            them; and the parts of the pictures, their forms and colors, the choices and the maps
            that can be touched, since most stand in many places: there, their numbers.
        """
        controls = [
            {
                "name": name,
                "kind": self._kind(name),
                "words": [spell(value) for value in values],
                "start": values.index(self.default[name]),
                "groups": [*map(self.groups[name], values)] if name in self.groups else [],
            }
            for name, values in self.controls.items()
        ]
        states = self.states()
        ahead = len(states) <= MOST_PAGES
        pages: list[Page | None] = []
        sizes: list[list[int]] = []
        for state in states:
            if not ahead and state != dict(self.default):
                pages.append(None)
                continue
            page, scenes = self._drawn(state)
            pages.append(page)
            sizes = sizes or [[0, 0] for _ in scenes]
            for size, scene in zip(sizes, scenes, strict=True):
                size[:] = map(max, size, (math.ceil(scene.width), math.ceil(scene.height)))
        sheet = {"name": self.name, "controls": controls, "pages": pages, "sizes": sizes}
        sheet["parts"] = parts = _share_parts(pages)
        sheet["colors"] = _share_colors(parts)
        sheet["forms"] = _share_forms(parts)
        sheet["choices"], sheet["maps"] = _share_choices_and_maps(pages)
        return sheet

    def telling_states(self) -> list[dict[str, Any]]:
        """Return the states that a page without a kernel shows."""
        if self.telling is not None:
            return [{**self.default, **state} for state in self.telling]
        control = self.time or max(self.controls, key=lambda name: len(self.controls[name]))
        values = self.controls[control]
        places = sorted({0, len(values) // 2, len(values) - 1})
        return [{**self.default, control: values[place]} for place in places]

    def _kind(self, control: str) -> str:
        """Return how a control is shown."""
        if control == self.time:
            return "time"
        values = self.controls[control]
        if not isinstance(values[0], str):
            return "number"
        return "words" if len(values) <= MOST_BUTTONS else "list"


def _in_json(touch: Touch) -> dict[str, Any]:
    """Return what can be touched, in the types of JSON; where it is differs from scene to scene."""
    maps = [
        {
            "name": shown.name,
            "color": line_color(shown.color),
            "numbers": shown.numbers,
            "values": list(shown.values),
        }
        for shown in touch.maps
    ]
    return {"tokens": list(touch.tokens), "maps": maps, "arcs": touch.arcs, "above": touch.above}


def _share_parts(pages: Sequence[Page | None]) -> list[str]:
    """Put into the scenes, for each part of a picture, its place in the list that is returned.

    The alt text, which all scenes of a page have in common, is the page's.
    """
    places: dict[str, int] = {}
    for page in filter(None, pages):
        page["alt"] = html.unescape(ALT.search(page["scenes"][0]["picture"])[1])  # type: ignore[index]
        for scene in page["scenes"]:
            bare = ALT.sub("", scene["picture"])
            parts = PART_ENDS.split(bare.replace('"', "'"))  # JSON escapes the former
            scene["picture"] = _in_runs(places.setdefault(part, len(places)) for part in parts)
    return list(places)


def _in_runs(places: Iterable[int]) -> list[int]:
    """Return numbers; of those that follow one another only the first, and minus the last.

    >>> _in_runs([0, 1, 2, 7, 5, 6])
    [0, -2, 7, 5, -6]
    """
    runs: list[int] = []
    for place in places:
        if not runs or place != abs(runs[-1]) + 1:
            runs.append(place)
        elif runs[-1] < 0:
            runs[-1] = -place
        else:
            runs.append(-place)
    return runs


def _share_colors(parts: list[str]) -> list[str]:
    """Put into the parts, for each color that turns with the page, its place in the list returned.

    >>> parts = ["<rect fill='light-dark(#fff,#000)'/>"]
    >>> _share_colors(parts), parts
    (['fff,#000'], ["<rect fill='~0'/>"])
    """
    places: dict[str, int] = {}
    for i, part in enumerate(parts):
        parts[i] = THEMED.sub(lambda color: f"~{places.setdefault(color[1], len(places))}", part)
    return list(places)


def _share_forms(parts: list[str]) -> list[str]:
    """Leave of the parts their x, y and fill, behind the place of their form in the list returned.

    >>> parts = ["<rect x='1' y='2' fill='~0'/>", "<rect x='3' y='2' fill='~1'/>"]
    >>> _share_forms(parts), parts
    (["<rect x='' y='' fill=''/>"], ['0 1 2 ~0', '0 3 2 ~1'])
    """
    places: dict[str, int] = {}
    for i, part in enumerate(parts):
        form = places.setdefault(OWN.sub("", part), len(places))
        parts[i] = " ".join([str(form), *OWN.findall(part)])
    return list(places)


def _share_choices_and_maps(pages: Sequence[Page | None]) -> tuple[list[Any], list[Any]]:
    """Put into the pages, for what a click chooses and for maps, the place in these lists."""
    choices: dict[str, int] = {}
    maps: dict[str, int] = {}
    for page in filter(None, pages):
        for scene in page["scenes"]:
            if "choices" in scene:
                scene["choices"] = choices.setdefault(json.dumps(scene["choices"]), len(choices))
        if "touch" in page:
            told = map(json.dumps, page["touch"]["maps"])
            page["touch"]["maps"] = [maps.setdefault(words, len(maps)) for words in told]
    return [*map(json.loads, choices)], [*map(json.loads, maps)]


def make_bundle(panel: Panel) -> dict[str, str]:
    """Return what stays of a panel where no kernel runs: its telling states in one picture.

    Returns:
        The parts of a mimebundle: text/html, the key that brings the panel and an <img> whose alt
        text says what each state shows, and image/png.
    """
    return bundle_of(draw_telling(panel))


def bundle_of(scene: Scene) -> dict[str, str]:
    """Return a picture as the parts of a mimebundle."""
    png, _ = scene._repr_png_()
    html = f"<p>▶ Run this cell with Shift+Enter to move it.</p>{scene._repr_html_()}"
    return {"text/html": html, "image/png": base64.b64encode(png).decode("ascii")}


def draw_telling(panel: Panel) -> Scene:
    """Return the telling states of a panel in one picture, each under its line of text."""
    shown = [panel.compute(**state) for state in panel.telling_states()]
    return in_rows(*(caption(panel.draw(data), panel.readout(data)) for data in shown))


def spell(value: Any) -> str:
    """Return the value of a control as a slider shows it: numbers in short form, words as they are.

    >>> spell(3), spell(0.5), spell("half")
    ('3', '0.5', 'half')
    """
    return value if isinstance(value, str) else f"{value:g}"
