"""Print the lessons of the book, each as a PDF: build/pdf/01_causal_attention.pdf and so on.

    python tools/pdf.py [book] [folder]

A browser prints the pages that tools/book.py wrote. Nobody unfolds paper: answers to guesses,
hints and solutions are moved to the end, behind numbers; all else that is folded is opened. Links
to other pages of the book become plain text, since their files are not beside the PDF.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from book import BOOK, NOTEBOOKS
from support.browser_tools import NO_BROWSER, open_browser

PAPER = (794, 1123)  # A4, in the pixels of CSS: 96 to an inch
MARGIN = 57  # 15 mm
LINE = """<div style="font: 8px sans-serif; width: 100%; text-align: center">
<span class="title"></span> &middot; <span class="pageNumber"></span> of
<span class="totalPages"></span></div>"""
FOR_PAPER = r"""async () => {
    const article = document.querySelector("article");
    const end = document.createElement("section");
    const part = (name, text) => {
        const made = document.createElement(name);
        made.textContent = text;
        return made;
    };
    const count = {};
    for (const folded of article.querySelectorAll("details")) {
        folded.open = true;
        const summary = folded.querySelector("summary");
        const [, word, of] = summary.textContent.trim().match(/^(?:Another )?(\w+,?)(.*)/) ?? [];
        const kind = { "look": "Answer", "answer": "Answer", "why,": "Answer", "hint": "Hint",
            "for": "Hint", "solution": "Solution" }[word?.toLowerCase()];
        if (!kind) continue;
        count[kind] = (count[kind] ?? 0) + 1;
        const number = `${kind} ${count[kind]}`, name = number + (of && ` (${of.slice(1).trim()})`);
        const link = part("a", `${name}, at the end`);
        folded.id = number.replace(" ", "-");
        link.href = `#${folded.id}`;
        const line = part("p", "");
        line.className = "moved";
        line.append(link);
        folded.replaceWith(line);
        summary.textContent = name;
        end.append(folded);
    }
    if (end.childElementCount) {
        end.className = "at-the-end";
        end.prepend(part("h2", "Answers, hints, solutions"));
        article.append(end);
    }
    for (const link of document.querySelectorAll("a[href]"))
        if (link.protocol === "file:" && !link.getAttribute("href").startsWith("#"))
            link.removeAttribute("href");
    await Promise.all([...document.images].map(figure => {
        figure.loading = "eager";
        return figure.decode();
    }));
}"""


def prepare_for_print(page: Page) -> None:
    """Make of an open page of the book what is printed."""
    page.set_viewport_size({"width": PAPER[0] - 2 * MARGIN, "height": PAPER[1] - 2 * MARGIN})
    page.emulate_media(media="print", color_scheme="light")
    page.evaluate(FOR_PAPER)


def print_lesson(browser: Browser, lesson: Path, pdf: Path) -> None:
    """Print one page of the book."""
    page = browser.new_page()
    page.goto(lesson.as_uri())
    prepare_for_print(page)
    edge = f"{MARGIN}px"
    page.pdf(
        path=pdf,
        format="A4",
        margin={"top": edge, "right": edge, "bottom": edge, "left": edge},
        print_background=True,  # the colors of the figures
        display_header_footer=True,
        header_template="<span></span>",
        footer_template=LINE,
        outline=True,
        tagged=True,
    )
    page.close()


def main(arguments: Sequence[str]) -> int:
    """Print every lesson."""
    book = Path(arguments[0]) if arguments else BOOK
    folder = Path(arguments[1]) if arguments[1:] else book.with_name("pdf")
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = open_browser(playwright)
        if browser is None:
            print(NO_BROWSER)
            return 1
        for path in NOTEBOOKS:
            lesson = book / "notebooks" / f"{path.stem}.html"
            print_lesson(browser, lesson.resolve(), folder / f"{path.stem}.pdf")
        browser.close()
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
