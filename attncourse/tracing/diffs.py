"""The difference of two pieces of code, in color and with signs: - what goes, + what comes."""

from __future__ import annotations

import difflib
import html

# Ink on each of these has a contrast of more than 4.5, in a light notebook and in a dark one.
INK = "#1f2328"
GOES, COMES, SAME = "#ffebe9", "#e6ffec", "#ffffff"
TAGS = {"-": ("del", GOES), "+": ("ins", COMES), " ": ("span", SAME)}


class Diff:
    """Two texts as lines with - and +.

    A notebook shows it in color; as text it is the same lines, which nbval compares.

    So many lines around each change are shown as context says. A line that is numbered has its
    number in the text after; what goes has the number of the line that replaces it.

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
        lines = [f"{sign} {line}" for sign, line in self.lines]
        return "\n".join([self.title, *lines] if self.title else lines)

    def _repr_html_(self) -> str:
        lines = "".join(_html(sign, line) for sign, line in self.lines)
        title = f"<b>{html.escape(self.title)}</b>\n" if self.title else ""
        return f'<pre style="line-height: 1.5">{title}{lines}</pre>'


def _lines(old: list[str], new: list[str], context: int, numbered: bool) -> list[tuple[str, str]]:
    """Return the lines to show, each with its sign."""

    def number(place: int | None, line: str) -> str:
        if not numbered:
            return line
        return f"    {line}" if place is None else f"{place + 1:2}  {line}"

    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    lines: list[tuple[str, str]] = []
    for group in matcher.get_grouped_opcodes(context):
        if lines:
            lines.append((" ", "..."))
        for kind, i1, i2, j1, j2 in group:
            if kind == "equal":
                lines += [(" ", number(j, new[j])) for j in range(j1, j2)]
                continue
            one_for_one = i2 - i1 == j2 - j1
            for k in range(i2 - i1):
                lines.append(("-", number(j1 + k if one_for_one else None, old[i1 + k])))
            lines += [("+", number(j, new[j])) for j in range(j1, j2)]
    return lines


def _html(sign: str, line: str) -> str:
    """Return a line as HTML: <del> what goes, <ins> what comes."""
    tag, ground = TAGS[sign]
    style = f"display: block; text-decoration: none; background-color: {ground}; color: {INK}"
    return f'<{tag} style="{style}">{sign} {html.escape(line)}</{tag}>'
