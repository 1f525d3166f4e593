"""The difference of two pieces of code, in color and with signs: - what goes, + what comes."""

from __future__ import annotations

import difflib
import html
import re

# Ink on each of these has a contrast of more than 4.5, in a light notebook and in a dark one.
INK = "#1f2328"
GOES, COMES, SAME = "#ffebe9", "#e6ffec", "#ffffff"
GOES_WORD, COMES_WORD = "#ffb8b0", "#9be9a8"


class Diff:
    """Two texts as lines with - and +, the words that differ marked.

    A notebook shows it in color; as text it is the same lines, which nbval compares.

    Args:
        old: the text before.
        new: the text after.
        context: so many lines around each change are shown.
        title: a line above the others.
        numbered: whether each line has its number in the text after, and what goes the number of
            the line that replaces it.

    >>> print(Diff("scale = head_dim", "scale = d_out"))
    - scale = head_dim
    + scale = d_out
    """

    def __init__(
        self, old: str, new: str, context: int = 1, title: str = "", numbered: bool = False
    ) -> None:
        self.title = title
        self.lines = _lines(old.splitlines(), new.splitlines(), context, numbered)

    def __repr__(self) -> str:
        lines = [f"{sign} {''.join(text for text, _ in parts)}" for sign, parts in self.lines]
        return "\n".join([self.title, *lines] if self.title else lines)

    def _repr_html_(self) -> str:
        lines = "".join(_html(sign, parts) for sign, parts in self.lines)
        title = f"<b>{html.escape(self.title)}</b>\n" if self.title else ""
        return f'<pre style="line-height: 1.5">{title}{lines}</pre>'


Parts = list[tuple[str, bool]]  # pieces of a line, and whether they differ


def _lines(old: list[str], new: list[str], context: int, numbered: bool) -> list[tuple[str, Parts]]:
    """Return the lines to show, each with its sign and its parts."""

    def number(place: int | None) -> Parts:
        return [("    " if place is None else f"{place + 1:2}  ", False)] if numbered else []

    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    lines: list[tuple[str, Parts]] = []
    for place, group in enumerate(matcher.get_grouped_opcodes(context)):
        if place:
            lines.append((" ", [("...", False)]))
        for kind, i1, i2, j1, j2 in group:
            before, after = old[i1:i2], new[j1:j2]
            if kind == "equal":
                lines += [(" ", [*number(j1 + k), (line, False)]) for k, line in enumerate(before)]
                continue
            pairs = len(before) == len(after)
            parts = [_words(a, b) for a, b in zip(before, after, strict=True)] if pairs else []
            olds = [first for first, _ in parts] or [[(line, False)] for line in before]
            news = [second for _, second in parts] or [[(line, False)] for line in after]
            places = [j1 + k if pairs else None for k in range(len(olds))]
            lines += [("-", number(j) + part) for j, part in zip(places, olds, strict=True)]
            lines += [("+", number(j1 + k) + part) for k, part in enumerate(news)]
    return lines


def _words(old: str, new: str) -> tuple[Parts, Parts]:
    """Return two lines as parts: the words that differ, and those that do not."""
    first, second = (re.findall(r"\w+|\s+|[^\w\s]", line) for line in (old, new))
    olds: Parts = []
    news: Parts = []
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(
        None, first, second, autojunk=False
    ).get_opcodes():
        differs = kind != "equal"
        olds += [("".join(first[i1:i2]), differs)] if i2 > i1 else []
        news += [("".join(second[j1:j2]), differs)] if j2 > j1 else []
    return olds, news


def _html(sign: str, parts: Parts) -> str:
    """Return a line as HTML: <del> what goes, <ins> what comes."""
    tag = {"-": "del", "+": "ins", " ": "span"}[sign]
    ground = {"-": GOES, "+": COMES, " ": SAME}[sign]
    strong = {"-": GOES_WORD, "+": COMES_WORD, " ": SAME}[sign]
    text = "".join(
        f'<b style="background-color: {strong}; color: {INK}">{html.escape(part)}</b>'
        if differs
        else html.escape(part)
        for part, differs in parts
    )
    style = f"display: block; text-decoration: none; background-color: {ground}; color: {INK}"
    return f'<{tag} style="{style}">{sign} {text}</{tag}>'
