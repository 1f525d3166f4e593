"""The book: complete, self-contained, readable by all; its sliders are moved in a real browser.

What a panel must show is computed here, by attnlib in this process, and compared with what stands
on the page.
"""

import io
import json
import re
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

import links
from attncourse.checks.safe_run import NOT_ATTEMPTED
from attncourse.panels.gallery import GALLERY
from attncourse.panels.heads import STACKED_HEADS
from attncourse.panels.running_softmax import TILES
from attncourse.panels.sentence import COUNTRIES, recorded_sheet
from attncourse.panels.states import Panel
from book import (
    LIVE_BOX,
    LOOKS,
    MODULE,
    MUCH,
    SENTENCE_BOX,
    SHEET_FILE,
    caption,
    in_script,
    panels_of,
    preview,
)
from card import card
from exercises import find_exercises
from pdf import print_lesson, put_on_paper
from record_language import COUNTRIES as CAPITALS
from student_book import without_teachers
from support.browser_tools import found_browser
from support.cases import ALL_PANELS, sheet
from support.leaks import leaks
from support.notebook_tools import (
    APPENDICES,
    NOTEBOOKS,
    ROOT,
    code_cells,
    markdown_cells,
    read,
    source,
)
from support.panel_tools import SECONDS, check_shows, listen_to, move_sliders, photograph
from support.pictures import check_readable
from support.touch_tools import BY_SIZE_AND_COLOR, box_of, violations

browser_test = pytest.mark.browser

SHOWN = [(path, panel) for path in (*NOTEBOOKS, *APPENDICES) for _, panel in panels_of(read(path))]
LIVE_PAGES = [f"notebooks/{path.stem}" for path in NOTEBOOKS if panels_of(read(path), LIVE_BOX)]
LESSONS = [f"notebooks/{path.stem}" for path in NOTEBOOKS]
PAGES = [*LESSONS, *(f"notebooks/{path.stem}" for path in APPENDICES), "index", "search"]
PAGES += [f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")]
MUCH_CODE = "notebooks/06_right_shape_wrong_answer"
MOST_BYTES = 15_000_000
ONE_OF_A_KIND = """() => {
    window.away = [...document.querySelectorAll(".attn-panel")]
        .map(panel => [document.createComment("a panel"), panel]);
    for (const [place, panel] of away) panel.replaceWith(place);
    const seen = new Set();
    for (const word of document.querySelectorAll(".highlight span")) {
        const kind = `${word.closest("[class*=highlight-]").className} ${word.className}`;
        if (seen.has(kind)) word.replaceWith(...word.childNodes);
        seen.add(kind);
    }
}"""
PANELS_BACK = "() => away.forEach(([place, panel]) => place.replaceWith(panel))"
SIZES = """panel => {
    const svg = panel.querySelector("svg");
    return {
        share: svg.getBoundingClientRect().width / svg.getAttribute("width"),
        heights: [...panel.querySelectorAll("label, button, select")]
            .filter(control => control.checkVisibility())
            .map(control => control.getBoundingClientRect().height),
        cut: panel.querySelector(".attn-sheet")?.scrollWidth
            - panel.querySelector(".attn-sheet")?.clientWidth || 0,
    };
}"""
TOO_HIGH = """() => {
    const shown = [...document.querySelectorAll("article .shown:not(figure, .split)")];
    const high = Math.max(...shown.map(one => one.getBoundingClientRect().bottom));
    return high > innerHeight && !shown.some(one => one.querySelector(".attn-panel"))
        || shown.some(one => !one.offsetHeight);
}"""
INDENTED = """() => [...document.querySelectorAll(".attn-panel .attn-part > :not(svg)")]
    .filter(one => Math.abs(
        one.getBoundingClientRect().left - one.parentElement.getBoundingClientRect().left) > 1)
    .map(one => one.outerHTML.slice(0, 80))"""
LEFTS = """() => [...new Set([...document.querySelectorAll(
        "article section > :is(h1, h2, h3, p, blockquote), article section > .cell > .cell_input")]
    .filter(one => one.offsetWidth)
    .map(one => Math.round(one.getBoundingClientRect().left)))]"""
KINDS = "cell_input", "cell_output"
LETTERS = """pre => pre.getBoundingClientRect().left
    + parseFloat(getComputedStyle(pre).paddingLeft)"""
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
    """The book, as `make book` writes it in a copy that has an address; sheets are drawn once."""
    folder = tmp_path_factory.mktemp("made") / "book"
    said, wrong = io.StringIO(), io.StringIO()
    drawn = {panel.name: sheet(panel.name) for panel in ALL_PANELS}
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(said),
        redirect_stderr(wrong),
        catch_warnings(),
    ):
        for kind in (DeprecationWarning, PendingDeprecationWarning):  # of Sphinx's, unseen there
            simplefilter("ignore", kind)
        patch.setenv("GITHUB_REPOSITORY", "a/b")
        patch.setenv("GITHUB_SERVER_URL", "https://github.com")
        patch.setattr(sys, "argv", ["book.py", str(folder)])
        patch.setattr(Panel, "sheet", lambda panel: drawn[panel.name])
        with pytest.raises(SystemExit, match=r"^0$"):
            runpy.run_path(str(ROOT / "tools" / "book.py"), run_name="__main__")
    assert wrong.getvalue() == ""
    assert said.getvalue() == f"{folder / 'index.html'}: open it in a browser\n"
    return folder


@pytest.fixture(scope="module")
def pages(book: Path) -> dict[str, links.Tags]:
    return {path.relative_to(book).as_posix(): links.Tags(path) for path in book.rglob("*.html")}


def test_it_has_a_page_for_every_lesson_and_for_no_more_than_that(book, pages):
    assert sorted(pages) == sorted(f"{name}.html" for name in PAGES)
    assert sum(path.stat().st_size for path in book.rglob("*") if path.is_file()) < MOST_BYTES


def test_every_panel_that_is_shown_is_tested():
    names = [panel.name for _, panel in SHOWN]
    assert len(set(names)) == len(names)
    assert set(names) <= {panel.name for panel in ALL_PANELS}
    with_live = {path for path in NOTEBOOKS if panels_of(read(path), LIVE_BOX)}
    without = {"04_shapes_and_numbers", "05_pytorch_attention", "09_real_model"}
    shown = {path.stem for path, _ in SHOWN} | {path.stem for path in with_live}
    assert {path.stem for path in NOTEBOOKS} - shown <= without


def name_of(sheet: dict[str, Any]) -> str:
    return sheet["name"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_page_holds_its_panels_and_shows_them_without_any_script(book, path):
    text = (book / "notebooks" / f"{path.stem}.html").read_text(encoding="utf-8")
    panels = [panel for _, panel in panels_of(read(path))]
    live = [panel.sheet() for _, panel in panels_of(read(path), LIVE_BOX)]
    files = [book / name for name in re.findall(r'class="sheet" defer src="../([^"]+)"', text)]
    sheets = [file.read_text(encoding="utf-8") for file in files]
    own = SENTENCE_BOX.search("".join(source(cell) for _, cell in code_cells(read(path))))
    drawn = [*([recorded_sheet()] if own else []), *live, *(sheet(panel.name) for panel in panels)]
    in_files = [
        json.loads(text.removeprefix(SHEET_FILE[0]).removesuffix(SHEET_FILE[1])) for text in sheets
    ]
    assert sorted(in_files, key=name_of) == sorted(drawn, key=name_of)
    for panel in panels:
        assert text.count(panel.page(panel.default)["scenes"][0]["picture"]) == 1
    for file in (MODULE, LOOKS):
        assert text.count(file.read_text(encoding="utf-8")) == bool(drawn)


def test_every_link_leads_somewhere(book, tmp_path, capsys):
    """As the workflow asks it; and one that leads nowhere is found."""
    assert links.main([str(book)]) == 0
    assert capsys.readouterr().out == f"{book}: every link leads somewhere\n"
    wrong = {
        '<a href="b.html">': "leads nowhere",
        '<a href="#c">': "names no anchor",
        '<a href="ftp://d">': "leads nowhere",
        '<script src="https://e.example/f.js">': "is loaded from elsewhere",
    }
    (tmp_path / "a.html").write_text("\n".join(wrong) + '<p id="g"><a href="a.html?h#g">', "utf-8")
    assert links.main([str(tmp_path)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[2].partition(" ")[2] for line in told] == list(wrong.values())


def test_the_first_page_begins_with_the_transplant(book):
    """The panel of lesson 01, from the same file, before any other words than what it is."""
    panels = [
        re.search(
            r'class="attn-panel attn-sentence">.*?src="(?:\.\./)?(_images/\w+\.js)"', text, re.S
        )
        for text in (
            (book / f"{name}.html").read_text(encoding="utf-8")
            for name in ("index", f"notebooks/{NOTEBOOKS[0].stem}")
        )
    ]
    assert panels[0][1] == panels[1][1]
    before = panels[0].string[: panels[0].start()].partition("<article")[2]
    assert before.count("<p>") == 1


def test_each_lesson_can_be_run_from_its_page(pages):
    for path in NOTEBOOKS:
        targets = [target for _, target in pages[f"notebooks/{path.stem}.html"].targets()]
        for host in ("https://colab.research.google.com/", "https://mybinder.org/"):
            (there,) = [target for target in targets if target.startswith(host)]
            assert there.endswith(f"/{path.name}")


def test_figures_are_files_with_words_and_no_output_is_blank(book, pages):
    """A page shows sooner without their bytes, and keeps the room that a figure will take."""
    for name, reader in pages.items():
        images = [attributes for tag, attributes in reader.tags if tag == "img"]
        assert not [image["src"] for image in images if not image.get("alt")], name
        assert not any("data:" in image["src"] for image in images), name
        figures = [image for image in images if image.get("loading") == "lazy"]
        assert all(int(image["width"]) * int(image["height"]) for image in figures)
        if not name.startswith("notebooks/a"):  # an appendix may have tables alone
            assert bool(figures) == name.startswith("notebooks/")
        text = (book / name).read_text(encoding="utf-8")
        assert "application/json" not in text
        assert not re.search(r"<pre[^>]*><span></span>\s*</pre>", text), name
        assert not re.search(r"<mtext>[^<]*\\", text), name  # a name in an equation


def test_nothing_that_nobody_attempted_is_shown_and_figures_have_numbers(book: Path):
    for path in NOTEBOOKS:
        text = (book / "notebooks" / path.with_suffix(".html").name).read_text("utf-8")
        assert NOT_ATTEMPTED not in re.sub(r"<code.*?</code>", "", text), path.name
        found = re.findall(r"<b>Figure (\d+\.\d+)</b>", text)
        number = path.name[:2].removeprefix("0")
        assert found == [f"{number}.{i + 1}" for i in range(len(found))]
        assert found, path.name


@pytest.mark.parametrize(
    ("alt", "below"),
    [
        ("One row is 0.5. All is told.", "One row is 0.5. All is told."),
        ("A row for each word: 0.5. " + "More. " * 60, "A row for each word: 0.5."),
        ("The shapes: " + "5, " * 120, "The shapes."),
    ],
)
def test_a_long_alt_text_is_not_printed_below_its_figure(alt, below):
    assert caption(alt) == below
    assert len(below) <= MUCH


def test_a_printed_table_keeps_its_rows_and_a_long_line_of_prose_wraps(book: Path):
    outputs = [
        (kind, "lighthouse" in printed)
        for path in NOTEBOOKS
        for kind, printed in re.findall(
            r'<div class="output (prose |wide )?stream.*?<pre(.*?)</pre>',
            (book / "notebooks" / f"{path.stem}.html").read_text(encoding="utf-8"),
            re.DOTALL,
        )
        if "France     0.71  1.69" in printed or "The old lighthouse keeper" in printed
    ]
    assert outputs == [("wide ", False), ("prose ", True)]


def test_the_students_book_gives_nothing_away_and_has_no_page_for_teachers(book, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(book.with_name("book-source"), source)
    assert (source / "docs" / "teaching.md").exists()
    without_teachers(source)
    for path in (*NOTEBOOKS, *APPENDICES):
        mine = read(source / "notebooks" / path.name)
        assert [leak for one in find_exercises(read(path)) for leak in leaks(mine, one)] == []
        assert "<summary>Solution" not in json.dumps(mine)
        assert "https://colab" not in json.dumps(mine)
    pages = {page.stem for page in (source / "docs").glob("*.md")}
    front = (source / "index.md").read_text(encoding="utf-8")
    assert pages == set(re.findall(r"^docs/(\w+)$", front, re.MULTILINE))
    assert "teaching" not in pages
    assert "eachers" not in front


def test_what_stands_in_a_script_does_not_end_it():
    said = ["</script>", "<!-- <script>", "</SCRIPT >", "a < b"]
    written = in_script(said)
    assert json.loads(written) == said
    assert not re.search("</|<!", written)


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
        go_to(page, book, shows)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not any(complaints), complaints


def go_to(page: Page, book: Path, shows: Panel | str) -> None:
    if isinstance(shows, Panel):
        (shows,) = (f"notebooks/{path.stem}" for path, panel in SHOWN if panel is shows)
    page.goto((book / f"{shows}.html").as_uri())


@browser_test
@pytest.mark.parametrize("panel", [panel for _, panel in SHOWN], ids=lambda panel: panel.name)
def test_sliders_on_a_page_without_a_kernel(open_page: Callable[..., Page], panel: Panel):
    """At the ends of each control and between; that the page has every state is proven above."""
    page = open_page(panel, reduced_motion="reduce")  # test_touch.py has what moves by itself
    move_sliders(page, box_of(page, panel), panel, "page", stops=4)


@browser_test
def test_a_slider_by_pointer(open_page: Callable[..., Page]):
    """A list and buttons too; the line says what is shown."""
    page = open_page(STACKED_HEADS)
    box = box_of(page, STACKED_HEADS)
    slider = box.get_by_role("slider")
    room = slider.bounding_box()
    for share, value in ((0.99, 4), (0.01, 1)):
        slider.click(position={"x": share * room["width"], "y": room["height"] / 2})
        check_shows(page, box, STACKED_HEADS, {"num_heads": value})
    page = open_page(GALLERY)
    box, state = box_of(page, GALLERY), dict(GALLERY.default)
    state["mistake"] = GALLERY.controls["mistake"][3]
    box.get_by_role("combobox", name="mistake", exact=True).select_option(state["mistake"])
    check_shows(page, box, GALLERY, state)
    state["condition"] = "half precision"
    box.get_by_role("radio", name="half precision", exact=True).check()
    check_shows(page, box, GALLERY, state)


@browser_test
def test_time_plays_and_steps(open_page: Callable[..., Page]):
    page = open_page(TILES)
    page.clock.install(time=datetime(2000, 1, 1))
    page.clock.pause_at(datetime(2000, 1, 2))  # a slow machine changes nothing
    box, values = box_of(page, TILES), TILES.controls["step"]
    button = {name: box.get_by_role("button", name=name) for name in ("Play", "Pause", "Step")}
    check_shows(page, box, TILES, TILES.default | {"step": values[0]})
    button["Step"].click()
    check_shows(page, box, TILES, TILES.default | {"step": values[1]})
    button["Play"].click()
    check_shows(page, box, TILES, TILES.default | {"step": values[2]})
    page.clock.run_for(SECONDS)
    check_shows(page, box, TILES, TILES.default | {"step": values[3]})
    button["Pause"].click()
    page.clock.run_for(10 * SECONDS)
    check_shows(page, box, TILES, TILES.default | {"step": values[3]})
    button["Play"].click()
    page.clock.run_for(60 * SECONDS)
    check_shows(page, box, TILES, TILES.default | {"step": values[-1]})
    expect(button["Play"]).to_be_visible()
    button["Step"].click()  # after the end comes the beginning
    check_shows(page, box, TILES, TILES.default | {"step": values[0]})


@browser_test
def test_on_the_first_page_the_model_says_berlin(open_page: Callable[..., Page]):
    """In the first screen of a laptop, without scrolling."""
    page = open_page("index", 1366)
    page.set_viewport_size({"width": 1366, "height": 768})
    panel = page.locator(".attn-sentence")
    put = panel.get_by_role("radio", name="with its numbers from")
    expect(put).to_be_in_viewport(ratio=1)
    put.check()
    expect(panel.get_by_role("listitem").first).to_contain_text("Berlin")
    expect(panel.get_by_role("listitem").first).to_be_in_viewport(ratio=1)
    assert page.evaluate("scrollY") == 0


@browser_test
def test_the_arrow_of_the_numbers_ends_at_its_word(open_page: Callable[..., Page]):
    """In the book, which has wider panels; from the like word above, at three widths."""
    middle = "part => { const { x, width } = part.getBoundingClientRect(); return x + width / 2; }"
    for width in (390, 700, 1440):
        panel = open_page("index", width, reduced_motion="reduce").locator(".attn-sentence")
        panel.get_by_role("radio", name="with its numbers from").check()
        expect(panel.locator(".attn-answer")).to_have_text("Berlin")
        way, above, word = (
            panel.locator(part).last.evaluate(middle)
            for part in (".attn-way path", ".attn-lender span", ".attn-token")
        )
        assert way == pytest.approx(word, abs=2)
        assert above == pytest.approx(word, abs=2)
        room = panel.locator(".attn-looks").evaluate("part => part.scrollWidth - part.clientWidth")
        assert room == 0  # sentence and answer fit


@browser_test
def test_on_paper_arcs_stay_over_their_words_and_bars_have_their_color(
    open_page: Callable[..., Page],
):
    """Paper is narrower, and nothing is drawn again for it: words and arcs begin at one place."""
    page = open_page("index", 1366)
    panel = page.locator(".attn-sentence")
    left = "all => all.map(one => one.getBoundingClientRect().x)"
    panel.locator(".attn-loops path").first.wait_for(state="attached")
    arcs, words = panel.locator(".attn-loops, .attn-tokens").evaluate_all(left)
    assert arcs == pytest.approx(words, abs=0.5)
    page.emulate_media(media="print")
    expect(panel).to_have_css("print-color-adjust", "exact")
    expect(panel).to_have_css("break-inside", "avoid")


def test_the_first_page_has_the_borrowed_answers(book: Path):
    """Of each pair of countries the word, and of how many pairs it is the lender's own."""
    text = (book / "index.html").read_text(encoding="utf-8")
    rows = [
        re.findall(r'<td class="(\w+)"([^>]*) aria-label="([^"]*)">([^<]*)</td>', row)
        for row in re.findall(r'<tr><th scope="row">.*?</tr>', text)
    ]
    own = [row[place][3] for place, row in enumerate(rows)]
    assert own == list(CAPITALS.values())
    for place, (country, row) in enumerate(zip(COUNTRIES, rows, strict=True)):
        for column, (kind, style, told, word) in enumerate(row):
            lent = "lent" if word == own[column] else "kept"
            assert kind == ("own" if place == column else lent)
            with_ = "its own" if place == column else f"{COUNTRIES[column]}'s"
            assert told.startswith(f"The capital of {country} is, with {with_} numbers: {word}, 0.")
            tinted = f' style="--share: {told[-4:]}"' if kind == "lent" else ""
            assert style == tinted
    carried = sum(kind == "lent" for row in rows for kind, *_ in row)
    assert f"In <b>{carried} of {12 * 11}</b> transplants" in text


@browser_test
def test_a_borrowed_answer_is_told_and_the_panel_shows_it(open_page: Callable[..., Page]):
    page = open_page("index", 1366, reduced_motion="reduce")
    told, said = page.locator(".pointed"), page.locator(".attn-sentence").get_by_role("status")
    answers = page.get_by_role("grid", name="borrowed answers")
    answers.get_by_role("gridcell", name="The capital of Spain is, with Japan's").hover()
    expect(told).to_contain_text("The capital of Spain is, with Japan's numbers: Tokyo")
    page.mouse.move(0, 0)
    expect(told).to_contain_text("Point at an answer")
    start = answers.get_by_role("gridcell", name="The capital of France is, with Italy's")
    start.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(told).to_contain_text("The capital of Italy is, with Japan's numbers: Tokyo")
    page.keyboard.press("Enter")
    expect(said).to_contain_text("from “The capital of Japan is”: Rome falls")
    expect(said).to_contain_text("The model goes on with Tokyo")
    expect(page.locator(".attn-sentence")).to_be_in_viewport()
    answers.get_by_role("gridcell", name="The capital of Italy is, with its own").click()
    expect(said).to_contain_text("The model goes on with Rome")
    assert answers.locator("[tabindex='0']").count() == 1


def test_the_first_page_has_a_card_for_each_lesson(book: Path):
    text = (book / "index.html").read_text(encoding="utf-8")
    (cards,) = re.findall(r'<ol class="cards">(.*?)</ol>', text, re.DOTALL)
    made = re.findall(
        r'<li><svg (.*?)</svg><a href="(.*?)"><b>(\d+)</b> (.*?)</a>'
        r"<small>(\d+) minutes</small></li>",
        cards,
    )
    named = [(f"notebooks/{path.stem}.html", path.name[:2]) for path in NOTEBOOKS]
    assert [(page, number) for _, page, number, _, _ in made] == named
    assert len({picture for picture, *_ in made}) == len(NOTEBOOKS)
    for picture, page, number, question, minutes in made:
        assert 'aria-hidden="true"' in picture
        lesson = (book / page).read_text(encoding="utf-8")
        assert f"{number} · {question}<" in lesson
        assert f"{minutes} minutes, exercises included" in lesson


def test_the_typeface_is_there(book: Path):
    static = book / "_static"
    fonts = re.findall(r'src: url\("(.*?)"\)', (static / "book.css").read_text("utf-8"))
    assert fonts
    for font in fonts:
        assert (static / font).read_bytes()[:4] == b"wOF2"
    assert {path.name for path in static.glob("LICENSE-*")} == {
        "LICENSE-Inter.txt",
        "LICENSE-JetBrains-Mono.txt",
    }


@browser_test
def test_words_and_code_are_set_in_it(open_page: Callable[..., Page]):
    page = open_page(LESSONS[0], 1366)
    for face in ("400 16px Inter", "italic 400 16px Inter", "14px 'JetBrains Mono'"):
        page.wait_for_function("face => document.fonts.check(face)", arg=face)
    loaded = "() => [...document.fonts].filter(one => one.status === 'loaded').length"
    assert page.evaluate(loaded) == 3


def test_a_link_to_a_page_shows_its_title_first_words_and_a_picture(book: Path):
    for page in PAGES:
        text = (book / f"{page}.html").read_text(encoding="utf-8")
        told = dict(re.findall(r'<meta property="og:(\w+)" content="([^"]*)">', text))
        assert told["title"] in text.partition("</title>")[0]
        assert 20 < len(told["description"]) <= 160
        assert f'<meta name="description" content="{told["description"]}">' in text
        assert told["url"] == f"https://a.github.io/b/{page}.html"  # of the copy in the fixture
        assert told["image"] == "https://a.github.io/b/_static/card.png"
    with Image.open(book / "_static" / "card.png") as picture:
        assert picture.size == (1200, 630)


def test_where_a_copy_has_no_address_the_picture_is_found_from_the_page(book, monkeypatch):
    monkeypatch.setattr("book.address", lambda: None)
    page = book / LESSONS[0]
    told = preview(page.with_suffix(".html").read_text(encoding="utf-8"), page, book)
    assert 'property="og:image" content="../_static/card.png"' in told
    assert "og:url" not in told


def test_the_card_can_be_read():
    scene = card()
    check_readable(scene)
    assert "the model says Rome" in scene.alt


@browser_test
def test_the_figure_of_all_heads_is_seen_whole_on_a_phone(open_page: Callable[..., Page]):
    room = open_page("notebooks/01_causal_attention", 390).locator(".tag_whole img").bounding_box()
    assert room["x"] >= 0
    assert room["x"] + room["width"] <= 390


@browser_test
def test_a_panel_marks_the_words_that_changed(open_page: Callable[..., Page]):
    """The whole line is still what is said."""
    page = open_page(STACKED_HEADS, reduced_motion="reduce")
    box = box_of(page, STACKED_HEADS)
    marked = box.get_by_role("status").locator("b")
    expect(marked).to_have_count(0)
    before, after = (STACKED_HEADS.page({"num_heads": n})["line"] for n in (2, 3))
    box.get_by_role("slider").press("ArrowRight")
    expect(box.get_by_role("status")).to_have_text(after)
    changed = [
        word
        for old, new in zip(before.split(". "), after.split(". "), strict=True)
        for word in new.split(" ")
        if re.search(r"\d", word) and word.rstrip(".") not in old.rstrip(".").split(" ")
    ]
    assert changed
    assert marked.all_text_contents() == changed
    box.get_by_role("slider").press("ArrowLeft")
    box.get_by_role("button", name="Full screen").hover()
    expect(box.get_by_role("button", name="Full screen")).not_to_have_css(
        "background-color", "rgba(0, 0, 0, 0)"
    )


@browser_test
def test_nothing_plays_where_motion_is_not_wanted(open_page: Callable[..., Page]):
    box = box_of(open_page(TILES, reduced_motion="reduce"), TILES)
    expect(box.get_by_role("button")).to_have_text(["Step", "Full screen"])


@pytest.fixture(scope="module")
def window(browser: Browser, book: Path) -> Iterator[tuple[Page, list[str]]]:
    """One window for all pages that are visited in turn."""
    context = browser.new_context()
    page = context.new_page()
    yield page, listen_to(page, book.as_uri())
    context.close()


@pytest.fixture(scope="module", params=PAGES)
def visited(request: pytest.FixtureRequest, window: Any, book: Path) -> Iterator[Page]:
    """A page of the book, loaded once for the tests that follow; the last leaves it on paper."""
    page, complaints = window
    page.emulate_media(media="screen", color_scheme="light")
    go_to(page, book, request.param)
    page.add_style_tag(content="* { transition: none !important }")  # colors are what they will be
    yield page
    assert complaints == []


each_lesson = pytest.mark.parametrize("visited", LESSONS, indirect=True)


@browser_test
@each_lesson
def test_every_lesson_can_be_presented(visited: Page):
    visited.set_viewport_size({"width": 1300, "height": 1000})
    visited.get_by_role("button", name="Present").click()
    expect(visited.get_by_role("progressbar", name="so far")).to_have_attribute("value", "1")
    assert visited.locator("body.presenting").count() == 1
    visited.keyboard.press("Escape")
    expect(visited.locator("body.presenting")).to_have_count(0)


@browser_test
def test_nothing_sticks_out(visited: Page):
    """At five widths; in no picture of a panel are letters smaller than 12 px."""
    for width in (1440, 1920, 1320):
        visited.set_viewport_size({"width": width, "height": 1000})
        assert visited.evaluate("document.documentElement.scrollWidth") <= width
    for width, scheme in ((1000, "light"), (390, "dark")):
        visited.set_viewport_size({"width": width, "height": 1000})
        visited.emulate_media(color_scheme=scheme)
        assert visited.evaluate("document.documentElement.scrollWidth") <= width
        for box in visited.locator(".attn-panel:not(.attn-live)").all():  # test_live.py has those
            photograph(box, f"page.{width}.{box.get_attribute('aria-label')}".replace(" ", "-"))
            sizes = box.evaluate(SIZES)
            assert 0.929 <= sizes["share"] <= 1.351
            assert min(sizes["heights"]) >= 44
            assert sizes["cut"] <= 0


@browser_test
def test_nobody_is_shut_out(visited: Page):
    """Axe-core finds no violation, narrow and dark, then wide and light.

    Of the words of the code it sees each kind once, and of the panels nothing: test_touch.py
    shows it all of those.
    """
    visited.set_viewport_size({"width": 390, "height": 1000})
    visited.emulate_media(color_scheme="dark")
    visited.evaluate(ONE_OF_A_KIND)
    assert violations(visited, once=True) == []
    visited.set_viewport_size({"width": 1000, "height": 1000})
    visited.emulate_media(color_scheme="light")
    assert violations(visited, rules=BY_SIZE_AND_COLOR, once=True) == []


@browser_test
@each_lesson
def test_headings_quotes_code_and_words_begin_on_one_line(visited: Page):
    for width in (390, 700, 1440):
        visited.set_viewport_size({"width": width, "height": 1000})
        assert len(visited.evaluate(LEFTS)) == 1, width


@browser_test
@each_lesson
def test_code_has_a_ground_and_what_it_prints_has_none(visited: Page):
    """Side by side their letters begin at one place."""
    ground = "e => getComputedStyle(e).backgroundColor"
    cell = visited.locator(".cell:has(> .cell_input + .cell_output > .stream)").first
    if cell.count():
        code, printed = (cell.locator(f".{kind} .highlight").first for kind in KINDS)
        assert printed.evaluate(ground) == "rgba(0, 0, 0, 0)" != code.evaluate(ground)
        lefts = [one.locator("pre").evaluate(LETTERS) for one in (code, printed)]
        assert lefts[0] == pytest.approx(lefts[1], abs=0.6)


@browser_test
@each_lesson
def test_no_figure_is_cut_on_paper(visited: Page):
    """And a figure that is cut would be found."""
    visited.evaluate(PANELS_BACK)
    put_on_paper(visited)
    assert visited.evaluate(CUT) == []
    visited.add_style_tag(content=".cell_output img { height: 30cm !important; max-height: none }")
    assert any("high" in line for line in visited.evaluate(CUT))


@browser_test
def test_a_cell_is_copied_as_it_stands(open_page: Callable[..., Page]):
    """Also the solution that was folded; what a cell prints can be copied too."""
    page = open_page(MUCH_CODE)
    (lesson,) = (path for path in NOTEBOOKS if path.stem in MUCH_CODE)
    page.evaluate("document.body.prepend(document.createElement('textarea'))")
    paper = page.locator("body > textarea")
    first = source(next(cell for _, cell in code_cells(read(lesson))))
    solution = page.locator("details", has=page.get_by_text("Solution", exact=True)).first
    solution.locator("summary").click()
    for box, code in (
        (page.locator(".cell_input .highlight").first, first),
        (solution.locator(".highlight").first, find_exercises(read(lesson))[0].solution),
    ):
        box.hover()
        box.locator("button.copybtn").click()
        paper.fill("")
        paper.press("ControlOrMeta+v")
        assert paper.input_value().strip() == code.strip()


@browser_test
def test_a_lesson_on_paper(browser: Browser, book: Path, tmp_path: Path):
    """Pages, nothing folded away, no address of this machine."""
    path = NOTEBOOKS[0]
    lesson, pdf = book / "notebooks" / f"{path.stem}.html", tmp_path / "lesson.pdf"
    print_lesson(browser, lesson, pdf)
    text = pdf.read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b", text)) >= 10
    assert b"file:" not in text
    page = browser.new_page()
    page.goto(lesson.as_uri())
    put_on_paper(page)
    assert page.locator("details:not([open])").count() == 0
    stored = "\n".join(text for _, text in markdown_cells(read(path)))
    assert page.locator(".at-the-end summary", has_text="Solution").count() == stored.count(
        "<summary>Solution</summary>"
    )
    page.close()


@browser_test
def test_a_page_is_presented_section_by_section(open_page: Callable[..., Page]):
    """By arrow keys, which still move a slider; Escape brings the page back where one is."""
    page = open_page(STACKED_HEADS, 1300)
    shown = page.locator("article :is(h1, h2, h3)").locator("visible=true")
    titles = [text.removesuffix("¶") for text in shown.all_text_contents()]
    named = page.locator("article section > :is(h1, h2, h3)").all_text_contents()
    page.get_by_role("button", name="Present").click()
    bar, seen = page.get_by_role("progressbar"), []
    count = int(bar.get_attribute("max"))
    for place in range(1, count + 1):
        expect(bar).to_have_attribute("value", str(place))
        assert page.evaluate("document.documentElement.scrollWidth") <= 1300
        seen.append(shown.first.text_content())
        page.keyboard.press("ArrowRight")
    assert list(dict.fromkeys(seen)) == named  # each section, some of them on several screens
    assert count > len(named)
    for _ in range(count):
        page.keyboard.press("ArrowLeft")
    expect(shown.first).to_have_text(named[0])
    assert violations(page, [".attn-panel", ".highlight span"], once=True) == []
    slider = box_of(page, STACKED_HEADS).get_by_role("slider")
    while not slider.is_visible():
        page.keyboard.press("ArrowRight")
    slider.press("Home")
    slider.press("ArrowRight")
    check_shows(page, box_of(page, STACKED_HEADS), STACKED_HEADS, {"num_heads": 2})
    page.keyboard.press("Escape")
    expect(slider).to_be_in_viewport()
    assert [text.removesuffix("¶") for text in shown.all_text_contents()] == titles


@browser_test
@pytest.mark.parametrize("lesson", [LESSONS[0], MUCH_CODE])
def test_a_slide_is_neither_empty_nor_higher_than_the_screen(
    open_page: Callable[..., Page], lesson: str
):
    """On a laptop; only a panel, which cannot be divided, may be higher."""
    page = open_page(lesson, 1440)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("button", name="Present").click()
    bar, wrong = page.get_by_role("progressbar", name="so far"), []
    for place in range(1, int(bar.get_attribute("max")) + 1):
        expect(bar).to_have_attribute("value", str(place))
        if page.evaluate(TOO_HIGH):
            wrong.append((place, page.locator(".here .shown").all_text_contents()[:2]))
        page.keyboard.press("ArrowRight")
    assert wrong == []
    expect(page.locator(".headerlink").locator("visible=true")).to_have_count(0)


@browser_test
def test_slides_say_how_many_repeat_a_heading_small_and_hold_a_whole_panel(
    open_page: Callable[..., Page],
):
    page = open_page("notebooks/01_causal_attention", 1440)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("button", name="Present").click()
    heading, seen = page.locator(".here > .shown:is(h1, h2, h3)"), []
    bar, panel = page.get_by_role("progressbar", name="so far"), page.locator(".attn-sentence")
    count = int(bar.get_attribute("max"))
    while not panel.is_visible():
        place = bar.get_attribute("value")
        expect(page.locator(".count")).to_have_text(f"{place} / {count}")
        size = heading.evaluate("e => getComputedStyle(e).fontSize")
        again = heading.text_content() in seen
        assert (size == "20px") == again, heading.text_content()
        assert (heading.bounding_box()["height"] < 32) == again
        seen.append(heading.text_content())
        page.keyboard.press("ArrowRight")
    room = panel.bounding_box()
    assert room["y"] + room["height"] <= 900
    page.keyboard.press("Escape")
    assert panel.evaluate("e => e.style.zoom") == ""


@browser_test
def test_arrow_keys_in_a_panel_do_not_turn_the_slide(open_page: Callable[..., Page]):
    page = open_page("notebooks/01_causal_attention", 1440)
    page.get_by_role("button", name="Present").click()
    cell = page.locator(".attn-sentence [role=gridcell][tabindex='0']").first
    while not cell.is_visible():
        page.keyboard.press("ArrowRight")
    bar = page.get_by_role("progressbar", name="so far")
    here = bar.get_attribute("value")
    cell.press("ArrowRight")
    cell.press("ArrowDown")
    expect(bar).to_have_attribute("value", here)


@browser_test
def test_the_keys_that_scroll_code_do_not_leave_the_page(open_page: Callable[..., Page]):
    page = open_page(STACKED_HEADS, 390)
    here = page.url
    for place in ("article pre", "article summary", "body"):
        page.locator(place).first.press("ArrowRight")
        assert page.url == here


@browser_test
def test_what_has_the_focus_is_seen(open_page: Callable[..., Page]):
    page = open_page(STACKED_HEADS, 1300)
    for place in (".sidebar-search", ".copybtn"):
        found = page.locator(place).first
        found.focus()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Tab")
        expect(found).to_be_focused()
        expect(found).to_have_css("opacity", "1")
        expect(found).to_have_css("outline-style", "solid")


@browser_test
def test_search_finds_sections_and_shows_the_sentence(open_page: Callable[..., Page], book: Path):
    """From file:// too; also what is no word."""
    page = open_page("search")
    for asked in ("context vector", "√"):
        page.goto(f"{(book / 'search.html').as_uri()}?q={asked}")
        first = page.locator("#search-results li").first
        expect(first.locator("mark").first).to_have_text(asked.split()[0])
    first.get_by_role("link").click()
    assert "#" in page.url
    page.goto(f"{(book / 'search.html').as_uri()}?q=zebrafinch")
    expect(page.get_by_role("status")).to_contain_text("No section has “zebrafinch”.")
    page.goto(f"{(book / 'search.html').as_uri()}?q=head")
    said = page.get_by_role("status").text_content()
    listed, found = map(int, re.fullmatch(r"The first (\d+) of (\d+) sections.*", said).groups())
    assert page.locator("#search-results li").count() == listed < found


@browser_test
@pytest.mark.parametrize("page", LIVE_PAGES)
def test_the_page_does_not_move_what_is_inside_a_panel(open_page: Callable[..., Page], page: str):
    """What stands one below the other in a part of a panel begins at that part's left edge."""
    opened = open_page(page)
    opened.locator(".attn-live .attn-part").first.wait_for()
    assert opened.evaluate(INDENTED) == []


@browser_test
def test_a_guess_is_settled_when_it_is_asked_for(open_page: Callable[..., Page]):
    page = open_page(STACKED_HEADS)
    for folded in page.locator("details.answer").all():
        expect(folded.locator("summary")).to_have_text("Look")
        expect(folded.locator(".cell_output")).not_to_be_visible()
        folded.locator("summary").click()
        expect(folded.locator(".cell_output")).to_be_visible()
    assert page.locator("details.answer").count() > 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_two_folds_in_a_row_do_not_have_one_name(book: Path, path: Path):
    """What is told is the answer, and the cell that settles it is where to look."""
    text = (book / "notebooks" / path.with_suffix(".html").name).read_text(encoding="utf-8")
    named = re.findall(r'<details class="(\w+)"><summary>(\w+)</summary>', text)
    assert set(named) <= {("told", "Answer"), ("answer", "Look")}
    assert "<details><summary>Look" not in text


@browser_test
def test_on_a_phone_a_cell_says_its_column_and_a_diagram_that_it_goes_on(
    open_page: Callable[..., Page],
):
    page = open_page("notebooks/07_speed_and_memory", 390)
    cell = page.locator(".table-wrapper tbody tr").first.locator("td").nth(1)
    says = "e => getComputedStyle(e, '::before').content"
    assert "blocks" in cell.evaluate(says)
    page = open_page("notebooks/02_stacked_heads", 390)
    diagram = page.get_by_role("region", name="diagram: Two heads read the same six tokens")
    diagram.focus()
    expect(diagram).to_be_focused()
    assert diagram.evaluate("e => e.scrollWidth > e.clientWidth")
    expect(diagram).not_to_have_css("mask-image", "none")
    diagram.evaluate("e => { e.scrollLeft = 1000; }")
    expect(diagram).to_have_css("mask-image", "none")


@browser_test
def test_a_page_without_javascript(open_page: Callable[..., Page]):
    page = open_page(STACKED_HEADS, java_script_enabled=False)
    box = page.locator(".attn-panel")
    expect(box).to_contain_text(STACKED_HEADS.page(STACKED_HEADS.default)["line"])
    alt = STACKED_HEADS.draw(STACKED_HEADS.compute(**STACKED_HEADS.default)).alt
    expect(box.get_by_role("img", name=alt, exact=True)).to_be_visible()
