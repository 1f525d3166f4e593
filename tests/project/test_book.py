"""The book: complete, readable by all; its panels are moved in a real browser.

What a panel must show is computed here, in this process, and compared with the page.
"""

import json
import re
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, expect

from attncourse.checks.safe_run import NOT_ATTEMPTED
from attncourse.panels.panel import Panel
from attncourse.panels.stacked_heads import STACKED_HEADS
from book import panels_of
from exercises import find_exercises
from pdf import prepare_for_print, print_lesson
from student_book import without_teachers
from support.browser_tools import found_browser
from support.cases import ALL_PANELS, sheet
from support.leaks import leaks
from support.notebook_tools import (
    APPENDICES,
    NOTEBOOKS,
    ROOT,
    read,
)
from support.panel_tools import (
    BY_SIZE_AND_COLOR,
    box_of,
    listen_to,
    move_controls,
    violations,
)

browser_test = pytest.mark.browser

SHOWN = [(path, panel) for path in (*NOTEBOOKS, *APPENDICES) for _, panel in panels_of(read(path))]
LESSONS = [f"notebooks/{path.stem}" for path in NOTEBOOKS]
PAGES = [*LESSONS, *(f"notebooks/{path.stem}" for path in APPENDICES), "index", "search"]
PAGES += [f"docs/{path.stem}" for path in (ROOT / "docs").glob("[!m]*.md")]  # not maintaining
MOST_BYTES = 15_000_000  # the whole book, as one downloads it
CUT = """() => [...document.querySelectorAll("article :is(img, svg)")].flatMap(figure => {
    if (figure.closest("h1, h2, h3, a, button, [aria-hidden=true]")) return [];
    const name = (figure.alt ?? figure.getAttribute("aria-label") ?? "").slice(0, 60);
    const room = figure.getBoundingClientRect(), wrong = [];
    if (!room.width || !room.height) wrong.push("is not shown");
    if (room.height > innerHeight) wrong.push(`is ${room.height} high`);
    if (room.left < -0.5 || room.right > innerWidth + 0.5) wrong.push(`ends at ${room.right}`);
    if (getComputedStyle(figure).breakInside !== "avoid") wrong.push("may be broken");
    for (let box = figure.parentElement; box; box = box.parentElement)
        if (getComputedStyle(box).overflow !== "visible"
            && room.right > box.getBoundingClientRect().right + 0.5)
            wrong.push(`is cut by ${box.className}`);
    return wrong.map(line => `${name} ${line}`);
})"""


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book, as `make book` writes it for a public repository; panels are drawn once."""
    folder = tmp_path_factory.mktemp("made") / "book"
    drawn = {panel.name: sheet(panel.name) for panel in ALL_PANELS}
    with pytest.MonkeyPatch.context() as patch, catch_warnings():
        for kind in (DeprecationWarning, PendingDeprecationWarning):  # of Sphinx's own
            simplefilter("ignore", kind)
        patch.setenv("GITHUB_REPOSITORY", "a/b")
        patch.setattr(sys, "argv", ["book.py", str(folder)])
        patch.setattr(Panel, "to_json", lambda panel: drawn[panel.name])
        with pytest.raises(SystemExit, match=r"^0$"):
            runpy.run_path(str(ROOT / "tools" / "book.py"), run_name="__main__")
    return folder


@pytest.fixture(scope="module")
def pages(book: Path) -> dict[str, BeautifulSoup]:
    return {
        path.relative_to(book).with_suffix("").as_posix(): BeautifulSoup(
            path.read_text(encoding="utf-8"), "html.parser"
        )
        for path in book.rglob("*.html")
    }


def test_it_has_a_page_for_every_lesson_and_every_panel_is_tested(book, pages):
    assert sorted(pages) == sorted(PAGES)
    assert sum(path.stat().st_size for path in book.rglob("*") if path.is_file()) < MOST_BYTES
    assert {panel.name for _, panel in SHOWN} <= {panel.name for panel in ALL_PANELS}


def test_every_file_that_a_page_names_is_in_the_book(book, pages):
    """Sphinx has asked this of the links in the text, not of scripts, figures and panels."""
    for name, page in pages.items():
        loaded = page.select("[src], link[href]:not([rel=canonical])")
        for target in (str(each.get("src") or each.get("href")) for each in loaded):
            file = target.partition("?")[0].partition("#")[0]
            there = (book / name).parent / file
            assert not file or there.is_file(), f"{name}: {target}"


def test_figures_have_words_numbers_and_room(pages):
    for path in NOTEBOOKS:
        page = pages[f"notebooks/{path.stem}"]
        assert not [image["src"] for image in page.select("img") if not image.get("alt")]
        figures = page.select("figure.shown")
        stored = re.search(r"image/(png|svg)|\]\(\.\./images/", path.read_text(encoding="utf-8"))
        assert bool(figures) == bool(stored), path.name
        number = path.name[:2].removeprefix("0")
        for i, figure in enumerate(figures, start=1):
            assert figure.b.get_text() == f"Figure {number}.{i}"
            assert int(figure.img["width"]) * int(figure.img["height"])


def test_a_lesson_can_be_run_and_hides_what_nobody_attempted(pages):
    for path in NOTEBOOKS:
        page = pages[f"notebooks/{path.stem}"]
        for host in ("https://colab.research.google.com/", "https://mybinder.org/"):
            (there,) = page.select(f'a[href^="{host}"]')
            assert there["href"].endswith(f"/{path.name}")
        printed = [output.get_text() for output in page.select(".cell_output")]
        assert not [text for text in printed if text.strip() == NOT_ATTEMPTED]
        folds = [(fold["class"], fold.summary.get_text()) for fold in page.select("details[class]")]
        assert {(name, text) for (name, *_), text in folds} <= {
            ("told", "Answer"),
            ("answer", "Look"),
        }


def test_the_first_page_lists_the_lessons(pages):
    cards = pages["index"].select(".cards li")
    assert [card.a["href"] for card in cards] == [f"{lesson}.html" for lesson in LESSONS]
    for card, lesson in zip(cards, LESSONS, strict=True):
        number, question = card.b.get_text(), card.a.get_text()
        title = pages[lesson].h1.get_text().removesuffix("¶")
        assert title == question.replace(" ", " · ", 1)
        assert number in lesson
        assert card.small.get_text() in pages[lesson].article.get_text()


def test_the_students_book_has_no_solutions_and_no_page_for_teachers(book, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(book.with_name("book-source"), source)
    assert (source / "docs" / "teaching.md").exists()
    without_teachers(source)
    for path in (*NOTEBOOKS, *APPENDICES):
        mine = read(source / "notebooks" / path.name)
        assert [leak for one in find_exercises(read(path)) for leak in leaks(mine, one)] == []
        assert "<summary>Solution" not in json.dumps(mine)
        assert "https://colab" not in json.dumps(mine)  # what it opens has solutions
    pages = {page.stem for page in (source / "docs").glob("*.md")}
    front = (source / "index.md").read_text(encoding="utf-8")
    assert pages == set(re.findall(r"^docs/(\w+)$", front, re.MULTILINE))
    assert "teaching" not in pages


# In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with found_browser() as browser:
        yield browser


@pytest.fixture
def open_page(browser: Browser, book: Path) -> Iterator[Callable[..., Page]]:
    """Open the page of a panel, or of a name, in a window that may be narrow, dark and so on."""
    complaints: list[list[str]] = []
    contexts = []

    def opened(shows: Panel | str, width: int = 1400, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 1000}, **options)
        contexts.append(context)
        page = context.new_page()
        complaints.append(listen_to(page, book.as_uri()))
        if isinstance(shows, Panel):
            (shows,) = (f"notebooks/{path.stem}" for path, panel in SHOWN if panel is shows)
        page.goto((book / f"{shows}.html").as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not any(complaints), complaints


@browser_test
@pytest.mark.parametrize("panel", [panel for _, panel in SHOWN], ids=lambda panel: panel.name)
def test_sliders_on_a_page_without_a_kernel(open_page: Callable[..., Page], panel: Panel):
    """At the ends of each control and between."""
    page = open_page(panel, reduced_motion="reduce")
    move_controls(box_of(page, panel), panel)


QUICK = "index", "search", LESSONS[1]
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in PAGES if name not in QUICK]


@browser_test
@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_a_page_fits_and_is_accessible(name: str, open_page: Callable[..., Page]):
    """Axe-core finds no violation, narrow and dark, then wide and light.

    It sees words of one kind once, and nothing of the panels, which have tests of their own. On
    paper no figure of a lesson is cut.
    """
    page = open_page(name)
    page.add_style_tag(content="* { transition: none !important }")  # colors are what they will be
    for width in (1920, 1320):
        page.set_viewport_size({"width": width, "height": 1000})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    for width, scheme, rules in ((390, "dark", ()), (1000, "light", BY_SIZE_AND_COLOR)):
        page.set_viewport_size({"width": width, "height": 1000})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page, [".attn-panel"], rules) == []
    if name in LESSONS:
        prepare_for_print(page)
        assert page.evaluate(CUT) == []


@browser_test
def test_on_the_first_page_the_model_says_berlin_then_rome(open_page: Callable[..., Page]):
    """In the first screen of a laptop; the table below it changes the panel."""
    page = open_page("index", 1366, reduced_motion="reduce")
    page.set_viewport_size({"width": 1366, "height": 768})
    panel = page.locator(".attn-sentence")
    panel.get_by_role("radio", name="with its numbers from").check()
    expect(panel.get_by_role("listitem").first).to_contain_text("Berlin")
    expect(panel.get_by_role("listitem").first).to_be_in_viewport(ratio=1)
    assert page.evaluate("scrollY") == 0
    answers = page.get_by_role("grid", name="borrowed answers")
    answers.get_by_role("gridcell", name="The capital of Spain is, with Japan's").hover()
    expect(page.locator(".pointed")).to_contain_text("with Japan's numbers: Tokyo")
    answers.get_by_role("gridcell", name="The capital of France is, with Italy's").press("Enter")
    expect(panel.get_by_role("status")).to_contain_text("The model goes on with Rome")


@browser_test
def test_a_lesson_on_paper(open_page: Callable[..., Page], browser, book: Path, tmp_path: Path):
    """Pages, nothing folded away, no address of this machine."""
    path, pdf = NOTEBOOKS[0], tmp_path / "lesson.pdf"
    print_lesson(browser, book / "notebooks" / f"{path.stem}.html", pdf)
    text = pdf.read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b", text)) >= 10
    assert b"file:" not in text
    page = open_page(LESSONS[0])
    prepare_for_print(page)
    assert page.locator("details:not([open])").count() == 0
    solutions = page.locator(".at-the-end summary", has_text="Solution")
    assert solutions.count() == len(find_exercises(read(path)))


@browser_test
def test_a_page_is_presented_section_by_section(open_page: Callable[..., Page]):
    """By arrow keys; Escape ends it."""
    page = open_page(STACKED_HEADS, 1300)
    shown = page.locator("article :is(h1, h2, h3)").locator("visible=true")
    named = page.locator("article section > :is(h1, h2, h3)").all_text_contents()
    page.get_by_role("button", name="Present").click()
    bar, seen = page.get_by_role("progressbar"), []
    count = int(bar.get_attribute("max"))
    for place in range(1, count + 1):
        expect(bar).to_have_attribute("value", str(place))
        seen.append(shown.first.text_content())
        page.keyboard.press("ArrowRight")
    assert list(dict.fromkeys(seen)) == named  # each section, some of them on several screens
    page.keyboard.press("Escape")
    expect(page.locator("body.presenting")).to_have_count(0)


@browser_test
def test_search_finds_pages_from_a_file_too(open_page: Callable[..., Page], book: Path):
    page = open_page("search")
    page.goto(f"{(book / 'search.html').as_uri()}?q=softmax")
    expect(page.locator("#search-results li").first).to_be_visible()


@browser_test
def test_a_page_without_javascript(open_page: Callable[..., Page]):
    page = open_page(STACKED_HEADS, java_script_enabled=False)
    box = page.locator(".attn-panel")
    expect(box).to_contain_text(STACKED_HEADS.page(STACKED_HEADS.default)["line"])
    (alt, _) = (s.alt for s in STACKED_HEADS.draw(STACKED_HEADS.compute(**STACKED_HEADS.default)))
    expect(box.get_by_role("img", name=alt, exact=True)).to_be_visible()
