"""show_source shows the package's own text, docstrings short."""

import ast
import inspect

import pytest

import attnlib
from attncourse.tracing import show_source
from attncourse.variants.torch_multihead import MultiheadAttention

SHOWN = [*(getattr(attnlib, name) for name in attnlib.__all__), MultiheadAttention]


class New:
    """Say another thing.

    At length, over
    several lines.
    """

    def __init__(self):
        self.scale = 2

    def forward(self, x):
        """Do it.

        Args:
            x: a number.
        """
        y = x + 1
        y = y * self.scale  # twice
        return max(
            y,
            self.scale,
        )


NEW = '''\
class New:
    """Say another thing."""

    def __init__(self):
        self.scale = 2

    def forward(self, x):
        """Do it."""
        y = x + 1
        y = y * self.scale  # twice
        return max(
            y,
            self.scale,
        )'''


def without_docstrings(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            node.body[0] = ast.Pass()
    return ast.dump(tree)


def test_docstrings_are_cut_to_their_first_line():
    assert str(show_source(New)) == NEW


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.__name__)
def test_what_is_shown_is_the_code_that_runs(shown):
    """Parsed, it is the file's own text; it has no gap and no docstring of several lines."""
    text = str(show_source(shown))
    assert without_docstrings(text) == without_docstrings(inspect.getsource(shown))
    assert "\n\n\n" not in text
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            assert node.body[0].lineno == node.body[0].end_lineno
    if shown.__doc__:
        assert shown.__doc__.strip().splitlines()[0] in text


def test_it_shows_as_fenced_markdown_in_a_notebook():
    source = show_source(New)
    assert source._repr_markdown_() == f"```python\n{source}\n```"
    assert repr(source) == str(source)
