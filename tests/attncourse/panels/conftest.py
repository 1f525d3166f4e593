"""The browser in which panels are moved, and pages of those that a file writes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from book import FRONT_END, SHEET
from support.browser_tools import found_browser
from support.panel_tools import in_place, opened

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Panels</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>small { font-size: 80%; opacity: 75%; } /* the book's theme */</style></head>
<body style="margin: 0"><main><h1>Panels</h1>@</main></body></html>"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with found_browser() as found:
        yield found


@pytest.fixture
def open_section(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Return what opens a page of one section of a lesson, in a window of its own."""
    with ExitStack() as stack:

        def shown(section: str, width: int = 900, state: str = "", **options: Any) -> Page:
            path = tmp_path / "page.html"
            inside = SHEET.sub(in_place, section) + FRONT_END
            path.write_text(PAGE.replace("@", inside, 1), encoding="utf-8")
            options["viewport"] = {"width": width, "height": 800}
            return stack.enter_context(opened(browser, path.as_uri() + state, **options))

        yield shown
