"""The page of all sliders: complete, self-contained, and shown at the start without any script."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import sliders_page
from support.cases import ALL_PANELS
from support.notebook_tools import NOTEBOOKS, read


class Reader(HTMLParser):
    """Notes what a page holds, and the tags that are still open."""

    VOID = ("meta",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "new" / "sliders.html"
    sliders_page.main([str(path)])
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def reader(text: str) -> Reader:
    return Reader(text)


def shown_panels():
    return [panel for path in NOTEBOOKS for _, panel in sliders_page.panels_of(read(path))]


def test_every_panel_stands_in_a_notebook():
    assert sorted(panel.name for panel in shown_panels()) == sorted(p.name for p in ALL_PANELS)


def test_it_holds_the_sheet_of_every_panel(text):
    sheets = re.findall(r'<script type="application/json">(.*?)</script>', text)
    assert [json.loads(sheet) for sheet in sheets] == [panel.sheet() for panel in shown_panels()]


def test_it_shows_the_start_without_any_script(reader, text):
    lines = [panel.page(panel.default)["line"] for panel in shown_panels()]
    assert [line for line in reader.texts["p"] if line in lines] == lines
    for panel in shown_panels():
        assert text.count(panel.page(panel.default)["picture"]) == 1


def test_it_is_well_formed_and_asks_for_nothing(reader, text):
    assert reader.open == []
    assert not [attrs for _, attrs in reader.tags if {"src", "href", "srcset"} & set(attrs)]
    assert not re.search(r"url\(|@import|fetch\(|import\(", text)
    assert len(reader.all("section")) == len(NOTEBOOKS)


def test_it_says_what_it_is(reader):
    """To a phone, to a screen reader, and to whoever looks for a panel."""
    assert reader.all("html") == [{"lang": "en"}]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in (
        reader.all("meta")
    )
    assert len(reader.all("main")) == len(reader.all("h1")) == len(reader.texts["title"]) == 1
    assert reader.texts["h3"] == [panel.name for panel in shown_panels()]
    assert "`" not in "".join(reader.texts["h2"])


def test_it_has_the_front_end_of_the_notebooks_and_no_other(reader, text):
    assert text.count(sliders_page.MODULE.read_text(encoding="utf-8")) == 1
    assert text.count(sliders_page.LOOKS.read_text(encoding="utf-8")) == 1
    kinds = [attributes["type"] for attributes in reader.all("script")]
    assert kinds == ["application/json"] * len(ALL_PANELS) + ["module"]


def test_what_stands_in_a_script_does_not_end_it():
    said = ["</script>", "<!-- <script>", "</SCRIPT >", "a < b"]
    written = sliders_page.in_script(said)
    assert json.loads(written) == said
    assert not re.search("</|<!", written)


def test_it_says_where_it_is(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(sliders_page, "PAGE", tmp_path / "sliders.html")
    monkeypatch.setattr(sliders_page, "NOTEBOOKS", NOTEBOOKS[:1])
    sliders_page.main([])
    assert re.fullmatch(
        rf"{re.escape(str(tmp_path))}.sliders\.html: 0\.\d MB, open it in a browser\n",
        capsys.readouterr().out,
    )
