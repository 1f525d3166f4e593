"""The rules that every notebook keeps.

A rule is a function from a notebook (the dict that json reads) to a list of problems, one
sentence each; no problem, empty list. RULES holds them all; `links_resolve` also takes the folder
that the notebook lies in.
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from urllib.parse import unquote

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("0[1-9]_*.ipynb"))  # the lessons
APPENDICES = sorted((ROOT / "notebooks").glob("a[1-9]_*.ipynb"))
START = ROOT / "notebooks" / "00_start.ipynb"  # the first page, which lists them

MAY_RAISE = "raises-exception"  # known to JupyterLab, nbclient and nbval
UNCHECKED = ("nbval-skip", "NBVAL_SKIP")

MEDIAN_LINES, MOST_LINES, LONG_LINES, SET_UP_LINES = 4, 15, 10, 8

FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"(`+).+?\1", re.DOTALL)
MATH = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.DOTALL)
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(\s*<?([^)\s>]*)>?[^)]*\)")
HTML_IMAGE = re.compile(r"<img\b[^>]*>")
HTML_TARGET = re.compile(r"""\b(?:href|src)\s*=\s*["']([^"']*)["']""")
ALT = re.compile(r"""\balt\s*=\s*["'][^"']*\w[^"']*["']""")
DATA_URI = re.compile(r"data:[\w/+.-]+;base64,[\w+/=]*")
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/<)\]-])/[A-Za-z][\w.-]*/[\w.-]+|\b[A-Za-z]:\\\w+")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


# What a notebook is made of.


def source(cell: dict) -> str:
    return "".join(cell["source"])


def code_cells(notebook: dict) -> list[tuple[int, dict]]:
    """Return the code cells with their place in the notebook, counted from 1."""
    return [(i, c) for i, c in enumerate(notebook["cells"], 1) if c["cell_type"] == "code"]


def markdown_cells(notebook: dict) -> list[tuple[int, str]]:
    """Return the texts of the Markdown cells with their place, counted from 1."""
    cells = enumerate(notebook["cells"], 1)
    return [(i, source(c)) for i, c in cells if c["cell_type"] == "markdown"]


def tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def text_of(output: dict) -> str:
    """Return all that a reader can read of an output: no pictures, no colors."""
    parts = [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", [])]
    for kind, data in output.get("data", {}).items():
        if kind.startswith("text/") or kind == "image/svg+xml":
            parts.append(data)
    return ANSI.sub("", "\n".join("".join(part) for part in parts))


def without_code(text: str) -> str:
    """Return Markdown without code and equations."""
    for pattern in (FENCE, INLINE_CODE, MATH):
        text = pattern.sub(" ", text)
    return text


def count_lines(cell: dict) -> int:
    return sum(bool(line.strip()) for line in source(cell).splitlines())


# The rules: how it was run.


def every_cell_was_executed(notebook: dict) -> list[str]:
    counts = [cell["execution_count"] for _, cell in code_cells(notebook)]
    if counts and counts == list(range(1, len(counts) + 1)):
        return []
    return [f"execution counts are {counts}, not 1 to {len(counts)}: run `make notebooks`"]


def no_cell_escapes_nbval(notebook: dict) -> list[str]:
    return [
        f"cell {i} is skipped by nbval"
        for i, cell in code_cells(notebook)
        if any(mark in tags(cell) or f"# {mark}" in source(cell) for mark in UNCHECKED)
    ]


def no_stderr(notebook: dict) -> list[str]:
    return [
        f"cell {i} writes to stderr: {text_of(output).strip()[:80]}"
        for i, cell in code_cells(notebook)
        for output in cell["outputs"]
        if output.get("name") == "stderr"
    ]


def errors_are_announced(notebook: dict) -> list[str]:
    problems = []
    for i, cell in code_cells(notebook):
        errors = [o["ename"] for o in cell["outputs"] if o["output_type"] == "error"]
        if errors and MAY_RAISE not in tags(cell):
            problems.append(f"cell {i} raises {errors[0]} without the tag {MAY_RAISE}")
        if not errors and MAY_RAISE in tags(cell):
            problems.append(f"cell {i} is tagged {MAY_RAISE} and does not raise")
    return problems


def no_machine_paths(notebook: dict) -> list[str]:
    problems = []
    for i, cell in enumerate(notebook["cells"], 1):
        for text in [source(cell), *map(text_of, cell.get("outputs", []))]:
            found = ABSOLUTE_PATH.search(DATA_URI.sub("", text))
            if found:
                problems.append(f"cell {i} names a path of one machine: {found[0]}")
    return problems


# The rules: budgets.


def code_cells_are_short(notebook: dict) -> list[str]:
    sizes = [(i, count_lines(cell)) for i, cell in code_cells(notebook)]
    problems = [
        f"cell {i} has {n} lines, more than {MOST_LINES}" for i, n in sizes if n > MOST_LINES
    ]
    if sizes and sizes[0][1] > SET_UP_LINES:
        problems.append(f"the set-up cell has {sizes[0][1]} lines, more than {SET_UP_LINES}")
    if sizes and median(n for _, n in sizes) > MEDIAN_LINES:
        problems.append(f"half of the code cells have more than {MEDIAN_LINES} lines")
    for (i, n), (j, m) in pairwise(sizes):
        if min(n, m) > LONG_LINES:
            problems.append(f"cells {i} and {j} both have more than {LONG_LINES} lines")
    return problems


def code_fits_beside_a_figure(notebook: dict) -> list[str]:
    """No line of code is wider than 80 columns: a book would scroll it sideways."""
    return [
        f"cell {i}: {len(line)} columns: {line}"
        for i, cell in code_cells(notebook)
        for line in source(cell).splitlines()
        if len(line) > 80
    ]


# The rules: what a reader sees.


def title(notebook: dict) -> str:
    """Return the heading of the first cell, or nothing."""
    first = source(notebook["cells"][0]).splitlines()
    return first[0].removeprefix("# ").strip() if first and first[0].startswith("# ") else ""


def minutes(notebook: dict) -> int | None:
    """Return the number before the word `minutes` in the first cell."""
    found = re.search(r"(\d+) minutes", source(notebook["cells"][0]))
    return int(found[1]) if found else None


def images_have_alt_text(notebook: dict) -> list[str]:
    problems = []
    for i, text in markdown_cells(notebook):
        prose = without_code(text)
        for mark, alt, target in LINK.findall(prose):
            if mark and not alt.strip():
                problems.append(f"cell {i}: image {target} has no alt text")
        for image in HTML_IMAGE.findall(prose):
            if not ALT.search(image):
                problems.append(f"cell {i}: {image} has no alt text")
    return problems


def figures_have_alt_text(notebook: dict) -> list[str]:
    """A picture among the outputs comes with an <img> that says what is to be seen."""
    problems = []
    for i, cell in code_cells(notebook):
        for data in (output.get("data", {}) for output in cell["outputs"]):
            images = HTML_IMAGE.findall("".join(data.get("text/html", "")))
            drawn = any(kind.startswith("image/") for kind in data)
            if (drawn and not images) or not all(map(ALT.search, images)):
                problems.append(f"cell {i} shows a picture without alt text: .described() gives it")
    return problems


def links_resolve(notebook: dict, folder: Path) -> list[str]:
    texts = [text for _, text in markdown_cells(notebook)]
    anchors = {h.replace(" ", "-") for text in texts for h in HEADING.findall(text)}
    return [
        f"cell {i}: {problem}"
        for i, text in markdown_cells(notebook)
        for problem in broken_links(text, folder, anchors)
    ]


def broken_links(text: str, folder: Path, anchors: set[str]) -> Iterator[str]:
    """Yield what is wrong with the links and images of a Markdown text."""
    prose = without_code(text)
    images = [target for mark, _, target in LINK.findall(prose) if mark]
    images += [t for image in HTML_IMAGE.findall(prose) for t in HTML_TARGET.findall(image)]
    links = [target for mark, _, target in LINK.findall(prose) if not mark]
    links += HTML_TARGET.findall(HTML_IMAGE.sub("", prose))
    for target in images:
        if ":" in target:
            yield f"image {target[:60]} is not a file beside the text"
        elif not (folder / unquote(target)).is_file():
            yield f"image {target} does not exist"
    for target in links:
        path, _, fragment = unquote(target).partition("#")
        if target.startswith("https://"):
            continue
        if not target or ":" in target:
            yield f"link ({target}) is neither a relative path nor https"
        elif path and not (folder / path).exists():
            yield f"link {target} leads nowhere"
        elif not path and fragment not in anchors:
            yield f"link {target} names no heading"


RULES: list[Callable[[dict], list[str]]] = [
    code_fits_beside_a_figure,
    every_cell_was_executed,
    no_cell_escapes_nbval,
    no_stderr,
    errors_are_announced,
    no_machine_paths,
    code_cells_are_short,
    images_have_alt_text,
    figures_have_alt_text,
]
