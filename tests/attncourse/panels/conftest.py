"""The browser in which panels are touched, and a page of those that a file writes."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from support.browser_tools import found_browser
from support.touch_tools import opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with found_browser() as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with opened(browser, address) as page:
        yield page
