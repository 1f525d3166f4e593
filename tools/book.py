"""Write the course as a website that needs no Python and no network: build/book/index.html.

    python tools/book.py [folder]

The notebooks are shown as they are stored; nothing is run but the panels, whose states are drawn
ahead. The sliders are those of the notebooks, by the same module.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import shutil
import struct
import sys
import textwrap
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from attncourse.checks.safe_run import NOT_ATTEMPTED
from attncourse.panels import live, sentence
from attncourse.panels.states import Panel
from badges import address, badges, site
from card import card
from icons import icon
from working_copy import ROOT, answers, read

NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0a][1-9]_*.ipynb"))
START = "00_start.ipynb"  # the book has a first page of its own
BOOK = ROOT / "build" / "book"
PANEL_BOX = re.compile(r"\bPanelBox\(([A-Z]\w*)\)")
LIVE_BOX = re.compile(r"\bLiveBox\(([A-Z]\w*)\)")
SENTENCE_BOX = re.compile(r"\bSentenceBox\(")
IMPORT = re.compile(r"^from (attn(?:lib|course)[.\w]*) import (.+)", re.MULTILINE)
MODULE, LOOKS = (ROOT / "attncourse" / "panels" / f"panel.{kind}" for kind in ("js", "css"))
PLAIN_PANEL = ".attn-panel:not(.attn-sentence, .attn-live)"
MOUNT = """
document.querySelectorAll("script.sheet").forEach((script, i) => {
    const root = script.previousElementSibling;
    if (root.matches("%s")) mount(root, sheets[i]);
});
"""


def in_page(module: str, looks: str, shown: str) -> str:
    """Return a module that draws panels, as a page has it; shown is a CSS selector of these.

    It is in the page itself, since a browser loads no module by file://.
    """
    return f'<style>{looks}</style>\n<script type="module">{module}{MOUNT % shown}</script>'


FRONT_END = in_page(MODULE.read_text("utf-8"), LOOKS.read_text("utf-8"), PLAIN_PANEL)
SENTENCE_END = in_page(
    sentence.MODULE.read_text("utf-8"), sentence.LOOKS.read_text("utf-8"), ".attn-sentence"
)
RUN_IT = "run-it"
TURN = re.compile(r"\*\*(Your turn|Write it)\*\*")
FIRST_PANEL = "```{panel}\n```\n"  # in book/index.md
BORROWED = "```{borrowed}\n```\n"
PAINTED = "```{painted}\n```\n"
CARDS = '<ol class="cards"></ol>'
SHEET = re.compile('<script type="application/json">(.*?)</script>')
SHEET_FILE = ("(self.sheets ??= []).push(", ");\n")  # a page may not fetch by file://
FIGURE = re.compile(r'(<img [^>]*?)src="data:image/png;base64,([^"]*)"([^>]*>)')
ALT = re.compile(r'alt="([^"]*)"')
MUCH = 320  # letters of a caption; of a longer text the first sentence is one
LOOK = """<details class="admonition hide above-input">
<summary aria-label="Toggle hidden content">
<p class="collapsed admonition-title">Look</p>
<p class="expanded admonition-title">Look</p>
</summary>"""
TITLE_OF_ALL = "Multi-head causal attention, line by line"
DIAGRAM = re.compile(r'<p>(?=<img [^>]*?alt="([^".;]*))')
TABLE = re.compile(r'<table class="docutils.*?</table>', re.DOTALL)
ROW = re.compile(r"<tr.*?</tr>", re.DOTALL)
CELL = re.compile(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", re.DOTALL)
MENDED = (  # what the theme leaves out, for whoever hears a page
    ("<details><summary>Look</summary>", '<details class="told"><summary>Answer</summary>'),
    (LOOK, '<details class="answer"><summary>Look</summary>'),
    ('role="heading"', 'role="heading" aria-level="2"'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="all pages">'),
    ('<aside class="toc-drawer', '<aside aria-label="on this page" class="toc-drawer'),
    ('<th class="head"><p></p></th>', "<td></td>"),
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    ('<div class="output text_html">', '<div class="output text_html" tabindex="0">'),
    ('<div class="highlight"><pre>', '<div class="highlight"><pre tabindex="0">'),
    ('<script src="../_static/', '<script defer src="../_static/'),
    ('<div class="math">', '<div class="math" tabindex="0">'),
    (f'"brand">{TITLE_OF_ALL}<', '"brand">Multi-head attention<'),  # in the bar of a phone
)

SECTION = re.compile(r'<section\b[^>]*\bid="([^"]+)"[^>]*>')
TITLE = re.compile(r"<h[1-6][^>]*>(.*?)</h[1-6]>", re.DOTALL)
PROSE = re.compile(r"<(?:p|td|figcaption)\b[^>]*>(.*?)</(?:p|td|figcaption)>", re.DOTALL)
TAG = re.compile("<[^>]*>")
HEADED = re.compile("(?<=<h1>)[^<]*")  # a word with a hyphen in it is kept in one line
HYPHENED = re.compile(r"\w+(?:-\w+)+")
STREAM = re.compile(r'<div class="output (?:stream|text_plain) (.*?)</pre>', re.DOTALL)
PAPER_LINE = 80  # letters of one size with the code
PROSE_LINE = 120  # letters: a longer line that is printed is no row of a table, and wraps
SEARCH_TOOLS = re.compile(r'<script[^>]*src="_static/searchtools.js".*?(?=</body>)', re.DOTALL)
SEARCH_OURS = "".join(f'<script src="_static/{name}.js"></script>' for name in ("lines", "search"))
SEARCH = (
    '<h1>Search</h1><form class="asked" method="get"><label>Words of the course '
    '<input type="search" name="q"></label></form>'
)


def panels_of(
    notebook: Mapping[str, Any], box: re.Pattern[str] = PANEL_BOX
) -> list[tuple[int, Any]]:
    """Return the panels that a notebook shows, each with the place of its cell, from 1."""
    cells = [
        (i, "".join(cell["source"]))
        for i, cell in enumerate(notebook["cells"], start=1)
        if cell["cell_type"] == "code"
    ]
    imported = {
        name: module
        for _, text in cells
        for module, names in IMPORT.findall(text)
        for name in names.split(", ")
    }
    shown = [(i, name) for i, text in cells for name in box.findall(text)]
    return [(i, getattr(import_module(imported[name]), name)) for i, name in shown]


def section(panel: Panel, sheet: dict[str, Any]) -> str:
    """Return a panel as HTML: the page at the start, and its sheet, which replaces it, as JSON."""
    start = panel.page(panel.default)
    return (
        f'<div class="attn-panel"><p>{html.escape(start["line"])}</p>'
        f'<div class="attn-sheet">{start["scenes"][0]["picture"]}</div></div>\n'
        f'<script type="application/json">{in_script(sheet)}</script>'
    )


def sentence_section() -> str:
    """Return the panel of twelve sentences as HTML: its picture, its sheet, and what draws it."""
    return (
        f'<div class="attn-panel attn-sentence">{sentence.draw_telling().svg()}</div>\n'
        f'<script type="application/json">{in_script(sentence.recorded_sheet())}</script>\n'
        f"{SENTENCE_END}"
    )


def borrowed() -> str:
    """Return what the model says of each country with each country's numbers, as a table."""
    answers, texts = sentence.recorded_answers(), sentence.TEXTS

    def says(text: str, lender: str) -> tuple[str, float]:
        put = {} if text == lender else {"head": list(sentence.CARRIER), "from": lender}
        word, share = answers[sentence.key_of({"text": text, **put})]["words"][0]
        return word, share

    capital = {text: says(text, text)[0] for text in texts}
    pairs = [(text, lender) for text in texts for lender in texts if text != lender]
    carried = sum(says(*pair)[0] == capital[pair[1]] for pair in pairs)
    rows = ""
    for text, country in zip(texts, sentence.COUNTRIES, strict=True):
        rows += f'<tr><th scope="row">{country}</th>'
        for lender, other in zip(texts, sentence.COUNTRIES, strict=True):
            word, share = says(text, lender)
            kind = "own" if text == lender else "lent" if word == capital[lender] else "kept"
            with_ = "its own numbers" if kind == "own" else f"{other}'s numbers"
            told = f"{text}, with {with_}: {word}, {share:.2f}"
            style = f' style="--share: {share:.2f}"' if kind == "lent" else ""
            rows += f'<td class="{kind}"{style} aria-label="{told}">{html.escape(word)}</td>'
        rows += "</tr>\n"
    heads = "".join(f'<th scope="col">{country}</th>' for country in sentence.COUNTRIES)
    return (
        f'<figure class="borrowed"><figcaption>In <b>{carried} of {len(pairs)}</b> transplants the '
        f"model says the lender's own answer. A row is a sentence, a column lends the numbers of "
        f'{sentence.CARRIER}.</figcaption><div class="across"><table role="grid" '
        f'aria-label="borrowed answers"><tr><td></td>{heads}</tr>\n{rows}</table></div>'
        f'<p class="pointed">Point at an answer; press it, and the panel shows it.</p></figure>'
    )


def live_section(panel: live.LivePanel) -> str:
    """Return a panel that computes as HTML: its picture, its data, and what draws it."""
    kind = f"attn-panel attn-live attn-{panel.name}"
    return (
        f'<div class="{kind}">{panel.draw().svg()}</div>\n'
        f'<script type="application/json">{in_script(panel.sheet())}</script>\n'
        f"{in_page(panel.module(), live.LOOKS.read_text('utf-8'), f'.attn-{panel.name}')}"
    )


def in_script(data: object) -> str:
    """Return data as JSON that ends no script element and begins no comment in one."""
    return json.dumps(data, ensure_ascii=False).replace("</", "<\\/").replace("<!", "<\\u0021")


def with_live_panels(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook whose sliders move in a page: their output is the panel with its states.

    The lines that make the panel in a notebook are left out: here it is made already.
    """
    shown: dict[int, list[str]] = {}
    for place, cell in enumerate(notebook["cells"], start=1):
        if cell["cell_type"] == "code" and SENTENCE_BOX.search("".join(cell["source"])):
            shown.setdefault(place, []).append(sentence_section())
    for place, computing in panels_of(notebook, LIVE_BOX):
        shown.setdefault(place, []).append(live_section(computing))
    for place, panel in panels_of(notebook):
        shown.setdefault(place, []).append(section(panel, panel.sheet()))
    for place, sections in shown.items():
        cell = notebook["cells"][place - 1]
        printed = [output for output in cell["outputs"] if output["output_type"] == "stream"]
        once = [FRONT_END] if place == max(shown) else []
        data = {"text/html": "\n".join([*sections, *once])}
        live = {"output_type": "display_data", "data": data, "metadata": {}}
        cell["outputs"] = [*printed, live]
        cell["metadata"].setdefault("tags", []).append("remove-input")
    return notebook


def for_readers(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook whose answers are folded, and that does not say what nobody attempted.

    What a reader is to write says that it is written in the notebook.
    """
    for cell in answers(notebook):
        cell["metadata"].setdefault("tags", []).append("hide-cell")
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [one for one in cell["outputs"] if text_of(one) != NOT_ATTEMPTED]
        else:
            cell["source"] = TURN.sub(r"**\1, in the notebook**", "".join(cell["source"]))
    return notebook


def with_badges(notebook: dict[str, Any], name: str, at: str | None) -> dict[str, Any]:
    """Return a notebook whose second cell has the links that run it, if it is anywhere."""
    if source := badges(name, at):
        cell = {"cell_type": "markdown", "id": RUN_IT, "metadata": {}, "source": source}
        notebook["cells"].insert(1, cell)
    return notebook


def text_of(output: Mapping[str, Any]) -> str:
    """Return what an output says in plain text."""
    return "".join(output.get("text", output.get("data", {}).get("text/plain", ""))).strip()


def put_together(source: Path) -> None:
    """Write into a folder what Sphinx reads: settings, start page, notebooks, images, docs."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "book", source)
    shutil.copytree(ROOT / "docs", source / "docs")
    shutil.copytree(ROOT / "images", source / "images")
    (source / "images" / "card.png").write_bytes(card().png())
    (source / "notebooks").mkdir()
    front, at = source / "index.md", address()
    looks = f"<style>{LOOKS.read_text('utf-8')}</style>"
    panel = f'{looks}\n<div class="front">{sentence_section()}</div>'
    text = front.read_text("utf-8")
    painted = f"<div>{live_section(live.PAINTED)}</div>"
    sections = {FIRST_PANEL: panel, BORROWED: borrowed(), PAINTED: painted}
    for place, shown in sections.items():
        text = text.replace(place, f"```{{raw}} html\n{shown}\n```\n")
    front.write_text(text, "utf-8")
    for path in NOTEBOOKS:
        notebook = with_badges(for_readers(with_live_panels(read(path))), path.name, at)
        text = json.dumps(notebook, ensure_ascii=False)
        text = text.replace(f"]({START})", "](../index.md)")
        (source / "notebooks" / path.name).write_text(text, encoding="utf-8")


def caption(alt: str) -> str:
    """Return what stands under a figure: its alt text or, of a long one, how that begins."""
    if len(alt) <= MUCH:
        return alt
    first = f"{alt.partition('. ')[0].rstrip('.')}."
    return first if len(first) <= MUCH // 2 else f"{first.partition(':')[0].rstrip('.')}."


def with_files(text: str, page: Path, book: Path) -> str:
    """Return the text of a page whose figures and states of panels are files: it shows sooner."""
    number = 0

    def stored(data: bytes, kind: str) -> str:
        name = f"_images/{hashlib.sha256(data).hexdigest()[:16]}.{kind}"
        (book / name).write_bytes(data)
        return Path(os.path.relpath(book / name, page.parent)).as_posix()

    def sheet(script: re.Match[str]) -> str:
        path = stored(script[1].join(SHEET_FILE).encode(), "js")
        return f'<script class="sheet" defer src="{path}"></script>'

    def figure(image: re.Match[str]) -> str:
        data = base64.b64decode(image[2])
        wide, high = struct.unpack(">II", data[16:24])
        width = re.search(r'width="(\d+)"', image[1])
        shown = int(width[1]) if width else wide
        size = f'height="{shown * high / wide:.0f}"' + ("" if width else f' width="{shown}"')
        path = stored(data, "png")
        size += f' style="--shown: {shown}px; --ratio: {wide / high:.3f}"'
        nonlocal number
        number += 1
        said = caption(ALT.search(image[1])[1])
        words = f"<b>Figure {page.name[:2].lstrip('0')}.{number}</b> {said}"
        return (
            f'<figure class="shown">{image[1]}{size} loading="lazy" decoding="async" src="{path}"'
            f'{image[3]}<figcaption aria-hidden="true">{words}</figcaption></figure>'
        )

    return FIGURE.sub(figure, SHEET.sub(sheet, text))


def mend(page: Path, book: Path) -> None:
    """Add to a page what its theme leaves out: names, levels, a heading, focus for what scrolls."""
    text = with_files(page.read_text(encoding="utf-8"), page, book)
    for old, new in MENDED:
        text = text.replace(old, new)
    text = text.replace("</title>", f"</title>{preview(text, page, book)}", 1)
    text = STREAM.sub(wrapped, text)
    text = TABLE.sub(with_names_of_columns, text)
    text = DIAGRAM.sub(r'<p tabindex="0" role="region" aria-label="diagram: \1">', text)
    text = HEADED.sub(lambda said: HYPHENED.sub(r'<span class="whole">\g<0></span>', said[0]), text)
    text = SEARCH_TOOLS.sub(SEARCH_OURS, text)
    if "<h1" not in text:
        text = re.sub('<article role="main"[^>]*>', rf"\g<0>{SEARCH}", text, count=1)
    page.write_text(text, encoding="utf-8", newline="\n")


def preview(text: str, page: Path, book: Path) -> str:
    """Return what a link to a page shows elsewhere: title, the first words, a picture."""
    words = [words_in(part) for part in PROSE.findall(text.partition("<article")[2])]
    said = next((line for line in words if len(line) > MUCH // 4), TITLE_OF_ALL)
    told = html.escape(textwrap.shorten(said, MUCH // 2, placeholder=" …"))
    title = html.escape(words_in(re.findall(r"<title>(.*?)</title>", text, re.DOTALL)[0]))
    picture, at = book / "_static" / "card.png", site(address())
    shown = {"title": title, "description": told, "type": "website"}
    shown["image"] = Path(os.path.relpath(picture, page.parent)).as_posix()
    if at:  # who shows a link elsewhere reads whole addresses only
        places = {"image": picture, "url": page}
        shown |= {name: at + path.relative_to(book).as_posix() for name, path in places.items()}
    large = '<meta name="twitter:card" content="summary_large_image">'
    return f'<meta name="description" content="{told}">{large}' + "".join(
        f'<meta property="og:{name}" content="{value}">' for name, value in shown.items()
    )


def cards(book: Path) -> str:
    """Return a list of the lessons: question, minutes, a small picture."""
    made = ""
    for path in NOTEBOOKS:
        text = (book / "notebooks" / f"{path.stem}.html").read_text(encoding="utf-8")
        name, _, question = words_in(TITLE.findall(text)[0]).partition(" · ")
        if not name.isdigit():
            break  # appendices
        minutes = re.findall(r"(\d+) minutes", words_in(text.partition("<article")[2]))[0]
        made += (
            f'<li>{icon(int(name))}<a href="notebooks/{path.stem}.html"><b>{name}</b> '
            f"{html.escape(question)}</a><small>{minutes} minutes</small></li>"
        )
    return made


def wrapped(printed: re.Match[str]) -> str:
    """Return a printed output, which says so if it has lines of prose, or rows wider than paper."""
    lines = html.unescape(TAG.sub("", f"<{printed[1]}")).splitlines()
    longest = max(map(len, lines))
    kind = " prose" if longest > PROSE_LINE else " wide" if longest > PAPER_LINE else ""
    return printed[0].replace("output", f"output{kind}", 1)


def with_names_of_columns(table: re.Match[str]) -> str:
    """Return a table whose cells say their column: a phone shows them one below the other."""
    head, *rows = ROW.findall(table[0])
    names = [html.escape(words_in(name)) for name in CELL.findall(head)]
    text = table[0]
    for row in rows:
        before, *cells = row.split("<td")
        said = zip(names, cells, strict=True)
        named = "".join(f'<td data-column="{name}"{cell}' for name, cell in said)
        text = text.replace(row, before + named, 1)
    return text


def sections_of(page: Path, book: Path) -> list[tuple[str, str, str, list[str]]]:
    """Return the sections of a page: address, title of the page, own title, sentences."""
    _, *parts = SECTION.split(page.read_text(encoding="utf-8").partition("</article>")[0])
    address = page.relative_to(book).as_posix()
    found: list[tuple[str, str, str, list[str]]] = []
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        titles = [words_in(title) for title in TITLE.findall(text)]
        said = " ".join(words_in(part) for part in PROSE.findall(text))
        top = found[0][1] if found else titles[0]
        found.append((f"{address}#{name}", top, titles[0], re.split(r"(?<=[.?:]) ", said)))
    return found


def words_in(text: str) -> str:
    """Return what a piece of a page says, without its tags and the marks of its links."""
    return " ".join(html.unescape(TAG.sub("", text)).replace("¶", "").split())


def publish(source: Path, book: Path) -> int:
    """Make a book of what stands in a folder; what Sphinx warns of is an error."""
    from sphinx.cmd.build import build_main

    doctrees = book.with_name(f"{book.name}-doctrees")
    shutil.rmtree(book, ignore_errors=True)
    failed = build_main(
        ["-b", "html", "-W", "--keep-going", "-q", "-d", str(doctrees), str(source), str(book)]
    )
    pages = sorted(book.rglob("*.html"))
    for page in pages:
        mend(page, book)
    front = book / "index.html"
    text = front.read_text("utf-8").replace(CARDS, CARDS.replace("><", f">{cards(book)}<"))
    front.write_text(text, "utf-8", newline="\n")
    found = [entry for page in pages for entry in sections_of(page, book)]
    index = f"const lines = {json.dumps(found, ensure_ascii=False)};\n"
    (book / "_static" / "lines.js").write_text(index, encoding="utf-8")
    print(f"{book / 'index.html'}: open it in a browser")
    return failed


def main(arguments: Sequence[str]) -> int:
    """Write the book."""
    book = Path(arguments[0]) if arguments else BOOK
    source = book.with_name(f"{book.name}-source")
    put_together(source)
    return publish(source, book)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
