"""show_source shows the package's own text."""

from attncourse.tracing import show_source


class New:
    def double(self, x):
        y = x + x  # twice
        return y


def test_a_class_is_shown_as_it_stands_in_the_file():
    lines = ["class New:", "    def double(self, x):"]
    lines += ["        y = x + x  # twice", "        return y"]
    assert str(show_source(New)).splitlines() == lines
    assert str(show_source(New.double)).splitlines() == [line[4:] for line in lines[1:]]


def test_it_shows_as_fenced_markdown_in_a_notebook():
    source = show_source(New)
    assert source._repr_markdown_() == f"```python\n{source}\n```"
    assert repr(source) == str(source)
