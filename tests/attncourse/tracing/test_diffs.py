"""Differences of code: every line of both texts is there, with its sign, and can be read."""

import html
import re

import pytest

from attncourse.pictures.palette import contrast
from attncourse.tracing.diffs import COMES, GOES, INK, SAME, Diff

OLD = "a = 1\nb = x.transpose(1, 2)\nc = b < 3\nd = 4\ne = 5\nf = 6\n"
NEW = "a = 1\nb = x.view(1, 2)\nc = b < 3\nd = 4\ne = 5\nf = 6\ng = 7\n"
LINES = [
    "  a = 1",
    "- b = x.transpose(1, 2)",
    "+ b = x.view(1, 2)",
    "  c = b < 3",
    "  ...",
    "  f = 6",
    "+ g = 7",
]


def shown(diff: Diff) -> list[str]:
    lines = re.findall(r"<(?:del|ins|span)\b[^>]*>(.*?)</(?:del|ins|span)>", diff._repr_html_())
    return [html.unescape(re.sub(r"<[^>]*>", "", line)) for line in lines]


def test_as_text_and_in_a_browser_it_has_the_same_lines():
    diff = Diff(OLD, NEW)
    assert repr(diff).splitlines() == LINES
    assert shown(diff) == LINES
    text = diff._repr_html_()  # what goes and what comes are named there too
    assert re.findall(r"<(del|ins)[^>]*>(.)", text) == [("del", "-"), ("ins", "+"), ("ins", "+")]


def test_the_numbers_are_those_of_the_text_after():
    diff = Diff(OLD, NEW, title="two of them", numbered=True)
    assert repr(diff).splitlines() == [
        "two of them",
        "   1  a = 1",
        "-  2  b = x.transpose(1, 2)",
        "+  2  b = x.view(1, 2)",
        "   3  c = b < 3",
        "  ...",
        "   6  f = 6",
        "+  7  g = 7",
    ]
    assert shown(diff) == repr(diff).splitlines()[1:]
    assert "<b>two of them</b>" in diff._repr_html_()
    more = Diff("a\nb\nc", "a\nd", numbered=True)  # two lines for one: no number of theirs
    assert repr(more).splitlines() == ["   1  a", "-     b", "-     c", "+  2  d"]


@pytest.mark.parametrize("ground", [GOES, COMES, SAME])
def test_it_can_be_read_in_a_light_and_in_a_dark_notebook(ground):
    """Each line brings its own ground and ink."""
    assert contrast(INK, ground) > 4.5
    text = Diff(OLD, NEW)._repr_html_()
    assert f"background-color: {ground}; color: {INK}" in text
