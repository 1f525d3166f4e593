"""Widths of texts without a font are those of the font."""

import pytest

from attncourse.pictures.letters import text_width, wrap
from support.pictures import size_of

LETTERS = "".join(map(chr, range(32, 127)))


@pytest.mark.parametrize("bold", [False, True])
def test_every_letter_is_as_wide_as_in_the_font(bold):
    for letter in LETTERS:
        width, *_ = size_of(letter, 100, bold, False)
        assert text_width(letter, 100, bold) == pytest.approx(width, abs=0.51), letter
    width, *_ = size_of("a", 100, bold, True)
    assert text_width("a", 100, bold, mono=True) == pytest.approx(width, abs=0.51)


def test_other_letters_are_at_least_as_wide_as_most():
    for letter in "−≤äΔᵀ₁":
        assert text_width(letter, 100) >= size_of(letter, 100, False, False)[0]


def test_a_text_is_broken_between_words_where_it_must_be():
    text = "a line of several words, and one_that_is_much_too_long_for_any_line here"
    lines = wrap(text, 120)
    assert " ".join(lines) == text
    assert [line for line in lines if text_width(line) > 120] == [
        "one_that_is_much_too_long_for_any_line"
    ]
    assert wrap("", 100) == []
