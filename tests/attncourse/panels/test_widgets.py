"""A panel as a widget: all that the browser gets, and the answers of the kernel."""

import base64
import dataclasses
import html
import io
import json
import zlib
from typing import Any

import pytest
from PIL import Image

from attncourse.panels.heads import STACKED_HEADS
from attncourse.panels.running_softmax import TILES
from attncourse.panels.states import MOST_PAGES, Panel, draw_telling, spell
from attncourse.panels.widgets import PanelBox
from attncourse.pictures.scene import Scene
from sliders import FORMER, IN_NOTEBOOK
from support.cases import ALL_PANELS, sheet


@pytest.fixture(scope="module", params=ALL_PANELS, ids=lambda panel: panel.name)
def panel(request: pytest.FixtureRequest) -> Panel:
    return request.param


@pytest.fixture(scope="module")
def box(panel: Panel) -> PanelBox:
    drawn = sheet(panel.name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Panel, "sheet", lambda panel: drawn)
        return PanelBox(panel)


def watched(panel: Panel) -> tuple[Panel, list[dict[str, Any]]]:
    computed: list[dict[str, Any]] = []

    def compute(**state: Any) -> object:
        computed.append(state)
        return panel.compute(**state)

    return dataclasses.replace(panel, compute=compute), computed


def many(count: int) -> Panel:
    return Panel(
        name="many",
        controls={"n": tuple(range(count // 2)), "half": (1, 2)},
        default={"n": 3, "half": 2},
        compute=lambda n, half: (n, half),
        draw=lambda data: Scene(40, 20, f"{data}", ()),
        readout=str,
    )


def asked(box: PanelBox, message: object) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    box.send = lambda content, buffers=None: answers.append(content)
    box._handle_custom_msg(message, [])
    return answers


@pytest.mark.parametrize("panel", [STACKED_HEADS, TILES], ids=lambda panel: panel.name)
def test_the_browser_gets_all_pages_and_the_kernel_is_not_needed_again(panel):
    """Every state is computed once, when the box is made."""
    counted, computed = watched(panel)
    box = PanelBox(counted)
    assert computed == panel.states()
    assert json.loads(zlib.decompress(box.get_state("packed")["packed"])) == sheet(panel.name)
    assert "sheet" not in box.get_state()


def test_the_browser_gets_the_module_and_its_looks():
    state = PanelBox(STACKED_HEADS).get_state()
    assert "export function mount(" in state["_esm"]
    assert "export default" in state["_esm"]
    assert ".attn-panel {" in state["_css"]
    assert "http" not in state["_esm"] + state["_css"]  # nothing is loaded from anywhere


def test_a_notebook_sends_no_more_than_with_the_former_sliders(panel, box):
    """Of a notebook with two panels each may send its part."""
    (notebook,) = [number for number, names in IN_NOTEBOOK.items() if panel.name in names]
    former = [old for old in FORMER.values() if old["notebook"] == notebook]
    allowed = sum(old["payload_bytes"] for old in former) / len(IN_NOTEBOOK[notebook])
    state = box.get_state()
    packed = state.pop("packed")
    assert len(json.dumps(state)) + len(packed) <= allowed / 2


def test_its_repr_is_one_line_that_tells_the_state_at_the_start(panel, box):
    start = ", ".join(f"{control}={spell(value)}" for control, value in panel.default.items())
    assert repr(box) == f"<sliders of the panel '{panel.name}': {start}>"


def test_without_a_kernel_the_telling_states_stay(panel, box):
    """As an image with an alt text that has the line of each of these states."""
    data, *_ = box._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == repr(box)  # the line that nbval compares
    scene = draw_telling(panel)
    assert f'alt="{html.escape(scene.alt)}"' in data["text/html"]
    assert "Run this cell with Shift+Enter" in data["text/html"]
    assert f"base64,{data['image/png']}" in data["text/html"]
    image = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert image.width == pytest.approx(2 * scene.width, abs=1)
    states = panel.telling_states()
    assert 2 <= len(states) <= 4
    assert all(state in panel.states() for state in states)
    for state in states:
        assert panel.readout(panel.compute(**state)) in scene.alt


def test_the_telling_states_are_chosen_or_go_from_the_first_value_to_the_last():
    assert many(8).telling_states() == [
        {"n": 0, "half": 2},
        {"n": 2, "half": 2},
        {"n": 3, "half": 2},
    ]
    timed = dataclasses.replace(many(8), time="half")
    assert timed.telling_states() == [{"n": 3, "half": 1}, {"n": 3, "half": 2}]
    chosen = dataclasses.replace(many(8), telling=({"n": 1}, {"n": 2, "half": 1}))
    assert chosen.telling_states() == [{"n": 1, "half": 2}, {"n": 2, "half": 1}]
    assert draw_telling(chosen).alt == "(1, 2). (1, 2) (2, 1). (2, 1)"


# A panel of many states


def test_as_many_pages_as_there_may_be_are_drawn_ahead():
    assert MOST_PAGES == 100
    assert None not in many(MOST_PAGES).sheet()["pages"]
    pages = many(MOST_PAGES + 2).sheet()["pages"]
    assert len(pages) == MOST_PAGES + 2
    assert [place for place, page in enumerate(pages) if page] == [7]


def test_a_large_panel_draws_the_page_that_is_asked_for():
    panel, computed = watched(many(200))
    box = PanelBox(panel)
    assert computed == [panel.default]
    for place in (0, 1, 100, 199):
        computed.clear()
        (answer,) = asked(box, {"draw": place})
        assert computed == [panel.states()[place]]
        assert answer == {"place": place, "page": many(200).page(panel.states()[place])}


@pytest.mark.parametrize(
    "message", [{}, *({"draw": place} for place in (-1, 200, "7", None, 1.5)), [], "draw", None]
)
def test_what_asks_for_no_page_gets_no_answer(message, capsys):
    """An error here would go to the log, where nobody looks."""
    panel, computed = watched(many(200))
    box = PanelBox(panel)
    computed.clear()
    assert asked(box, message) == []
    assert computed == []
    assert capsys.readouterr() == ("", "")
