"""Find the links of a website, as files, that lead nowhere or load something from elsewhere.

    python tools/links.py build/site

A link inside must lead to a file, and to an anchor of it. What is outside is not asked: a page may
link there, but must not load anything from there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote


class Tags(HTMLParser):
    """The tags of a page, each with its attributes; its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        self.anchors = {attributes.get("id") for _, attributes in self.tags}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append((tag, dict(attrs)))

    def targets(self) -> Iterator[tuple[str, str]]:
        """Yield what each tag leads to or loads, with the name of the tag."""
        for tag, attributes in self.tags:
            for target in filter(None, (attributes.get("href"), attributes.get("src"))):
                yield tag, target


def dead_links(site: Path) -> list[str]:
    """Return a line for each link of a website that is not as it should be."""
    pages = {path.resolve(): Tags(path) for path in sorted(site.rglob("*.html"))}
    return [
        f"{path.relative_to(site.resolve())}: {target} {problem}"
        for path, page in pages.items()
        for tag, target in page.targets()
        if (problem := _problem(pages, path, tag, target))
    ]


def _problem(pages: dict[Path, Tags], path: Path, tag: str, target: str) -> str:
    if target.startswith("data:"):
        return ""
    if target.startswith("https://"):
        return "" if tag == "a" else "is loaded from elsewhere"
    file, _, anchor = unquote(target).partition("#")
    there = (path.parent / file.partition("?")[0]).resolve() if file else path
    if not there.is_file():
        return "leads nowhere"
    if anchor and there in pages and anchor not in pages[there].anchors:
        return "names no anchor"
    return ""


def main(arguments: Sequence[str]) -> int:
    """Print what is wrong with the links of a website."""
    (site,) = arguments
    found = dead_links(Path(site))
    print("\n".join(found) or f"{site}: every link leads somewhere")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
