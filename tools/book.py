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
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup, Tag

from attncourse.checks.safe_run import NOT_ATTEMPTED
from attncourse.panels import live, sentence
from attncourse.panels.panel import Panel, pack
from working_copy import ROOT, answer_cells, read

NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0a][1-9]_*.ipynb"))
START = "00_start.ipynb"  # the book has a first page of its own
BOOK = ROOT / "build" / "book"
PANEL_BOX = re.compile(r"\bPanelWidget\(([A-Z]\w*)\)")
LIVE_BOX = re.compile(r"\bLiveWidget\(([A-Z]\w*)\)")
SENTENCE_BOX = re.compile(r"\bSentenceWidget\(")
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
SENTENCE_END = in_page(sentence.MODULE, sentence.STYLE, ".attn-sentence")
RUN_IT = "run-it"
REPOSITORY = os.environ.get("GITHUB_REPOSITORY")  # owner/name, where a workflow builds the book
TURN = re.compile(r"\*\*(Your turn|Write it)\*\*")
LOOK = "<details><summary>Look</summary>"
CARDS = '<ol class="cards"></ol>'  # in book/index.md
SHEET = re.compile('<script type="application/json">(.*?)</script>')
SHEET_FILE = ("(self.sheets ??= []).push(", ");\n")  # a page may not fetch by file://
MUCH = 320  # letters of a caption; of a longer text the first sentence is one
PAPER_LINE = 80  # letters of one size with the code
PROSE_LINE = 120  # letters: a longer line that is printed is no row of a table, and wraps


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
    pictures = "".join(picture["svg"] for picture in start["pictures"])
    return (
        f'<div class="attn-panel"><p>{html.escape(start["line"])}</p>'
        f'<div class="attn-pictures">{pictures}</div></div>\n'
        f'<script type="application/json">{in_script(pack(sheet))}</script>'
    )


def sentence_section() -> str:
    """Return the panel of twelve sentences as HTML: its picture, its sheet, and what draws it."""
    return (
        f'<div class="attn-panel attn-sentence">{sentence.static_picture().svg()}</div>\n'
        f'<script type="application/json">{in_script(sentence.recorded_sheet())}</script>\n'
        f"{SENTENCE_END}"
    )


def transplant_table() -> str:
    """Return what the model says of each country with each country's numbers, as a table."""
    answers, texts = sentence.recorded_answers(), sentence.TEXTS

    def says(text: str, donor: str) -> tuple[str, float]:
        put = {} if text == donor else {"head": list(sentence.COUNTRY_HEAD), "from": donor}
        word, share = answers[sentence.request_key({"text": text, **put})]["words"][0]
        return word, share

    capital = {text: says(text, text)[0] for text in texts}
    pairs = [(text, donor) for text in texts for donor in texts if text != donor]
    carried = sum(says(*pair)[0] == capital[pair[1]] for pair in pairs)
    rows = ""
    for text, country in zip(texts, sentence.COUNTRIES, strict=True):
        rows += f'<tr><th scope="row">{country}</th>'
        for donor, other in zip(texts, sentence.COUNTRIES, strict=True):
            word, share = says(text, donor)
            kind = "own" if text == donor else "lent" if word == capital[donor] else "kept"
            with_ = "its own numbers" if kind == "own" else f"{other}'s numbers"
            told = f"{text}, with {with_}: {word}, {share:.2f}"
            style = f' style="--share: {share:.2f}"' if kind == "lent" else ""
            rows += f'<td class="{kind}"{style} aria-label="{told}">{html.escape(word)}</td>'
        rows += "</tr>\n"
    heads = "".join(f'<th scope="col">{country}</th>' for country in sentence.COUNTRIES)
    return (
        f'<figure class="borrowed"><figcaption>In <b>{carried} of {len(pairs)}</b> patched runs '
        f"the model says the donor's own answer. A row is a sentence, a column lends the numbers "
        f'of {sentence.COUNTRY_HEAD}.</figcaption><div class="across"><table role="grid" '
        f'aria-label="borrowed answers"><tr><td></td>{heads}</tr>\n{rows}</table></div>'
        f'<p class="pointed">Point at an answer; press it, and the panel shows it.</p></figure>'
    )


def live_section(panel: live.LivePanel) -> str:
    """Return a panel that computes as HTML: its picture, its data, and what draws it."""
    kind = f"attn-panel attn-live attn-{panel.name}"
    return (
        f'<div class="{kind}">{panel.draw().svg()}</div>\n'
        f'<script type="application/json">{in_script(panel.to_json())}</script>\n'
        f"{in_page(panel.module(), live.STYLE, f'.attn-{panel.name}')}"
    )


def in_script(data: object) -> str:
    """Return data as JSON that ends no script element and begins no comment in one."""
    return json.dumps(data, ensure_ascii=False).replace("</", "<\\/").replace("<!", "<\\u0021")


def embed_panels(notebook: dict[str, Any]) -> dict[str, Any]:
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
        shown.setdefault(place, []).append(section(panel, panel.to_json()))
    for place, sections in shown.items():
        cell = notebook["cells"][place - 1]
        printed = [output for output in cell["outputs"] if output["output_type"] == "stream"]
        once = [FRONT_END] if place == max(shown) else []
        data = {"text/html": "\n".join([*sections, *once])}
        live = {"output_type": "display_data", "data": data, "metadata": {}}
        cell["outputs"] = [*printed, live]
        cell["metadata"].setdefault("tags", []).append("remove-input")
    return notebook


def fold_answers(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a notebook whose answers are folded, and that hides what nobody attempted.

    Where a reader is asked to write, the page adds that this happens in the notebook. If the book
    is built for a public repository, links open the notebook on Colab and on Binder.
    """
    for cell in answer_cells(notebook):
        cell["metadata"].setdefault("tags", []).append("hide-cell")
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [one for one in cell["outputs"] if text_of(one) != NOT_ATTEMPTED]
        else:
            text = TURN.sub(r"**\1, in the notebook**", "".join(cell["source"]))
            text = text.replace(LOOK, '<details class="told"><summary>Answer</summary>')
            cell["source"] = text.replace(f"]({START})", "](../index.md)")
    if REPOSITORY:
        colab = f"https://colab.research.google.com/github/{REPOSITORY}/blob/colab/{name}"
        binder = f"https://mybinder.org/v2/gh/{REPOSITORY}/HEAD?urlpath=lab/tree/notebooks/{name}"
        links = f"Run it: [Colab]({colab}) · [Binder]({binder})"
        cell = {"cell_type": "markdown", "id": RUN_IT, "metadata": {}, "source": links}
        notebook["cells"].insert(1, cell)
    return notebook


def text_of(output: Mapping[str, Any]) -> str:
    """Return an output as plain text."""
    return "".join(output.get("text", output.get("data", {}).get("text/plain", ""))).strip()


def write_sources(source: Path) -> None:
    """Write what Sphinx reads into a folder: settings, start page, notebooks, images, docs."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "book", source)
    for_maintainers = shutil.ignore_patterns("maintaining.md")
    shutil.copytree(ROOT / "docs", source / "docs", ignore=for_maintainers)
    shutil.copytree(ROOT / "images", source / "images")
    for name in ("notebooks", "made"):
        (source / name).mkdir()
    write_front(source)
    for path in NOTEBOOKS:
        notebook = fold_answers(embed_panels(read(path)), path.name)
        number = path.name[:2].lstrip("0")
        figures: list[str] = []
        for cell in notebook["cells"]:
            for output in cell.get("outputs", ()):
                data = output.get("data", {})
                if "text/html" in data:
                    text = with_panel_files("".join(data["text/html"]), source, "../_static/")
                    data["text/html"] = with_figures(text, source, number, figures)
        text = json.dumps(notebook, ensure_ascii=False)
        (source / "notebooks" / path.name).write_text(text, encoding="utf-8")


def write_front(source: Path) -> None:
    """Put the panels and the list of the lessons into the first page."""
    front = source / "index.md"
    style = f"<style>{LOOKS.read_text('utf-8')}</style>"
    sections = {
        "panel": f'{style}\n<div class="front">{sentence_section()}</div>',
        "borrowed": transplant_table(),
        "painted": f"<div>{live_section(live.PAINTED_PATTERN)}</div>",
    }
    text = front.read_text("utf-8").replace(CARDS, CARDS.replace("><", f">{cards()}<"))
    for place, shown in sections.items():
        made = with_panel_files(shown, source, "_static/")
        text = text.replace(f"```{{{place}}}\n```\n", f"```{{raw}} html\n{made}\n```\n")
    front.write_text(text, "utf-8")


def cards() -> str:
    """Return the list of the lessons, each with its question and its minutes."""
    made = ""
    for path in NOTEBOOKS:
        first = "".join(read(path)["cells"][0]["source"])
        found = re.match(r"# (\d+) · (.*)\n", first)
        minutes = re.search(r"(\d+) minutes", first)
        if found and minutes:  # the appendices have no number
            made += (
                f'<li><a href="notebooks/{path.stem}.html"><b>{found[1]}</b> '
                f"{html.escape(found[2])}</a><small>{minutes[1]} minutes</small></li>"
            )
    return made


def store(data: bytes, kind: str, source: Path) -> str:
    """Write a file that pages load, which then show sooner; return its name."""
    name = f"{hashlib.sha256(data).hexdigest()[:16]}.{kind}"
    (source / "made" / name).write_bytes(data)
    return name


def with_panel_files(text: str, source: Path, folder: str) -> str:
    """Return HTML whose panels load their data from files in a folder of the book."""

    def sheet(script: re.Match[str]) -> str:
        name = store(script[1].join(SHEET_FILE).encode(), "js", source)
        return f'<script class="sheet" defer src="{folder}{name}"></script>'

    return SHEET.sub(sheet, text)


def with_figures(text: str, source: Path, number: str, figures: list[str]) -> str:
    """Return the HTML of an output, its pictures as files with numbered captions.

    Args:
        text: the HTML.
        source: the folder that Sphinx reads.
        number: of the lesson.
        figures: the captions of the lesson so far; those of this output are added.
    """
    if "data:image/png" not in text:
        return text
    soup = BeautifulSoup(text, "html.parser")
    for image in soup.select('img[src^="data:image/png;base64,"]'):
        data = base64.b64decode(str(image["src"]).partition(",")[2])
        wide, high = struct.unpack(">II", data[16:24])
        shown = int(str(image.get("width", wide)))
        figures.append(caption(str(image["alt"])))
        image["src"] = f"../_static/{store(data, 'png', source)}"
        image["width"], image["height"] = str(shown), f"{shown * high / wide:.0f}"
        image["style"] = f"--shown: {shown}px; --ratio: {wide / high:.3f}"
        image["loading"], image["decoding"] = "lazy", "async"
        figure = image.wrap(soup.new_tag("figure", attrs={"class": "shown"}))
        under = soup.new_tag("figcaption", attrs={"aria-hidden": "true"})
        name = soup.new_tag("b", string=f"Figure {number}.{len(figures)}")
        under.extend([name, f" {figures[-1]}"])
        figure.append(under)
    return str(soup)


def caption(alt: str) -> str:
    """Return what stands under a figure: its alt text or, of a long one, how that begins."""
    if len(alt) <= MUCH:
        return alt
    first = f"{alt.partition('. ')[0].rstrip('.')}."
    return first if len(first) <= MUCH // 2 else f"{first.partition(':')[0].rstrip('.')}."


NAMED = {  # what the theme leaves out for a screen reader
    "aside.sidebar-drawer": {"aria-label": "all pages"},
    "aside.toc-drawer": {"aria-label": "on this page"},
    '[role="heading"]': {"aria-level": "2"},
    ".table-wrapper, .output.text_html, .highlight > pre, div.math": {"tabindex": "0"},  # scroll
    "script[src]": {"defer": ""},
}


def add_attributes(soup: BeautifulSoup) -> None:
    """Add to a page what its theme leaves out, and mark what a phone or paper shows otherwise."""
    for selector, attributes in NAMED.items():
        for element in soup.select(selector):
            element.attrs |= attributes
    for brand in soup.select(".header-center .brand"):  # in the bar of a phone
        brand.string = "Multi-head attention"
    for summary in soup.select("details.hide > summary"):  # of a cell that settles a guess
        summary.parent["class"] = "answer"
        summary.attrs, summary.string = {}, "Look"
    for image in soup.select("article p > img[alt]:first-child"):
        name = f"diagram: {re.split('[.;]', image['alt'])[0]}"
        image.parent.attrs |= {"tabindex": "0", "role": "region", "aria-label": name}
    for table in soup.select("table.docutils"):
        name_columns(table)
    for output in soup.select(".output.stream, .output.text_plain"):
        longest = max(map(len, output.get_text().splitlines()), default=0)
        if longest > PAPER_LINE:
            output["class"] += ["prose" if longest > PROSE_LINE else "wide"]


def name_columns(table: Tag) -> None:
    """Let each cell name its column: a phone shows the cells of a row one below the other."""
    names = [cell.get_text().strip() for cell in table.select("thead th")]
    for cell in table.select("thead th"):
        if not cell.get_text().strip():
            cell.name = "td"  # an empty heading has nothing to read out
    for row in table.select("tbody tr"):
        for cell, name in zip(row.select("td"), names, strict=True):
            cell["data-column"] = name


def build(source: Path, book: Path) -> int:
    """Make a book of what stands in a folder; a warning of Sphinx is an error."""
    from sphinx.cmd.build import build_main

    doctrees = book.with_name(f"{book.name}-doctrees")
    shutil.rmtree(book, ignore_errors=True)
    failed = build_main(
        ["-b", "html", "-W", "--keep-going", "-q", "-d", str(doctrees), str(source), str(book)]
    )
    for page in sorted(book.rglob("*.html")):
        soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
        add_attributes(soup)
        page.write_text(str(soup), encoding="utf-8", newline="\n")
    print(f"{book / 'index.html'}: open it in a browser")
    return failed


def main(arguments: Sequence[str]) -> int:
    """Write the book."""
    book = Path(arguments[0]) if arguments else BOOK
    source = book.with_name(f"{book.name}-source")
    write_sources(source)
    return build(source, book)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
