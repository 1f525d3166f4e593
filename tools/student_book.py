"""Write the book for a class: without solutions, and without the pages for teachers.

    python tools/student_book.py [folder of the book]

It is made beside the book, in a folder whose name begins with student-, from what tools/book.py
has put together there. Nor has it the links that run a lesson: what they open has solutions.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from book import BOOK, RUN_IT, build
from exercises import read_notebook, write_notebook
from student_copies import without_solutions

TEACHERS = re.compile(
    r"```{toctree}\n:hidden:\n:maxdepth: 1\n:caption: For teachers\n\n(.*?)```\n", re.DOTALL
)


def without_teachers(source: Path) -> None:
    """Take out of what a book is made from the solutions, and every page that is for teachers."""
    for path in (source / "notebooks").glob("*.ipynb"):
        lesson = without_solutions(read_notebook(path))
        lesson["cells"] = [cell for cell in lesson["cells"] if cell["id"] != RUN_IT]
        write_notebook(lesson, path)
    front = source / "index.md"
    text = front.read_text(encoding="utf-8")
    for page in "".join(TEACHERS.findall(text)).split():
        (source / f"{page}.md").unlink()
    front.write_text(TEACHERS.sub("", text), encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Write the students' book."""
    book = Path(arguments[0]) if arguments else BOOK
    mine = book.with_name(f"student-{book.name}")
    source = mine.with_name(f"{mine.name}-source")
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(book.with_name(f"{book.name}-source"), source)
    without_teachers(source)
    return build(source, mine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
