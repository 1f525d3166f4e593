"""The page of all sliders: complete, self-contained, and shown at the start without any script."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import sliders_page
from attnlib.panels.heads import ONE_HEAD, STACKED_HEADS
from attnlib.panels.panel import spelled
from support.cases import ALL_PANELS
from support.notebook_tools import NOTEBOOKS, read


class Reader(HTMLParser):
    """Notes what a page holds, and the tags that are still open."""

    VOID = ("meta", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.inputs: list[dict[str, str | None]] = []
        self.names: list[str] = []
        self.addresses: list[str | None] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag == "input":
            self.inputs.append(dict(attrs))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "new" / "sliders.html"
    sliders_page.main([str(path)])
    return path.read_text(encoding="utf-8")


def test_every_panel_stands_in_a_notebook():
    shown = [panel for path in NOTEBOOKS for _, panel in sliders_page.panels_of(read(path))]
    assert sorted(panel.name for panel in shown) == sorted(panel.name for panel in ALL_PANELS)


def test_it_holds_every_state_once_and_the_first_one_open(text):
    for panel in ALL_PANELS:
        pages = [panel.page(state) for state in panel.states()]
        start = panel.page(panel.default)
        for page in pages:
            assert text.count(f"<template>{page}</template>") == 1
            assert text.count(f">{page}<") == 1 + (page == start)


def test_it_is_well_formed_and_asks_for_nothing(text):
    reader = Reader(text)
    assert reader.open == []
    assert reader.addresses == []
    assert not re.search(r"url\(|@import|fetch\(|import\(", text)
    assert reader.names.count("section") == len(NOTEBOOKS)
    assert reader.names.count("template") == sum(len(panel.states()) for panel in ALL_PANELS)


def test_its_sliders_start_where_the_panel_does():
    (first, second) = Reader(sliders_page.section(ONE_HEAD)).inputs
    assert (first["aria-label"], first["max"], first["value"]) == ("num_tokens", "5", "5")
    assert (second["aria-label"], second["max"], second["value"]) == ("dropout", "9", "0")
    (heads,) = Reader(sliders_page.section(STACKED_HEADS)).inputs
    assert heads["data-words"] == str([spelled(n) for n in range(1, 9)]).replace("'", '"')


def test_it_says_where_it_is(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(sliders_page, "PAGE", tmp_path / "sliders.html")
    monkeypatch.setattr(sliders_page, "NOTEBOOKS", NOTEBOOKS[:1])
    sliders_page.main([])
    assert re.fullmatch(
        rf"{re.escape(str(tmp_path))}.sliders\.html: 0\.\d MB, open it in a browser\n",
        capsys.readouterr().out,
    )
