"""How Sphinx makes the book: from the stored notebooks, without running them, without network.

`make book` calls tools/book.py, which puts the notebooks with live sliders into build/book-source.
"""

from __future__ import annotations

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.writers.html5 import HTML5Translator

project = "Multi-head causal attention"
author = "the contributors"
language = "en"
extensions = ["myst_nb", "sphinx_copybutton"]
nb_execution_mode = "off"
nb_code_prompt_show = nb_code_prompt_hide = "Look"  # what settles a guess is folded
nb_mime_priority_overrides = [("html", "text/html", 0)]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = "Multi-head causal attention, line by line"
html_favicon = "favicon.svg"
SCRIPTS = [f"{name}.js" for name in ("present", "borrowed")]
html_static_path = ["book.css", "fonts", *SCRIPTS, "search.js", "images/card.png"]
html_css_files = ["book.css"]
html_js_files = [(name, {"defer": "defer"}) for name in SCRIPTS]
html_math_renderer = "mathml"
html_copy_source = False
html_use_index = False
html_show_sphinx = False
html_show_copyright = False
html_show_search_summary = False  # it would fetch pages, which file:// does not allow
ACCENT, ON_DARK = "#0072b2", "#5aaee0"  # the blue of the figures, for links, bars and buttons
SHARED = {  # light and dark
    "font-stack": "Inter, system-ui, sans-serif",
    "color-sidebar-link-text": "var(--color-foreground-secondary)",
    "color-sidebar-link-text--top-level": "var(--color-foreground-secondary)",
    "font-stack--monospace": "'JetBrains Mono', ui-monospace, Menlo, Consolas, monospace",
}
html_theme_options = {
    "navigation_with_keys": False,  # whoever scrolls code would leave the page
    "light_css_variables": {
        **SHARED,
        "color-brand-primary": ACCENT,
        "color-brand-content": ACCENT,
        "color-brand-visited": ACCENT,
        "color-code-background": "#f6f8fa",
        "marked": "#fff3b0",
        "tint": "45%",
        "wrong": "#b2182b",
    },
    "dark_css_variables": {
        "color-brand-primary": ON_DARK,
        "color-brand-content": ON_DARK,
        "color-brand-visited": ON_DARK,
        "color-code-background": "#1b1e23",
        "marked": "#5c4a00",
        "tint": "36%",
        "wrong": "#ef8a62",
    },
}


def mathml(text: str, display: str = "inline") -> str:
    """Return an equation as MathML; in a name, the converter would keep what escapes the _."""
    names = re.sub(r"\\text\{[^{}]*\}", lambda name: name[0].replace(r"\_", "_"), text)
    return convert(names, display=display)


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    """Write an equation in a line of text as MathML."""
    self.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def visit_displaymath(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write an equation on lines of its own as MathML."""
    self.body.append(f'<div class="math">{mathml(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


class Pages(StandaloneHTMLBuilder):
    """Pages without Sphinx's index of their words: the book has a search of its own."""

    def index_page(self, *page: object) -> None:
        """Keep nothing of a page."""

    def dump_search_index(self) -> None:
        """Write nothing."""


def setup(app: Sphinx) -> None:
    """Write equations as MathML, which browsers show by themselves."""
    app.add_builder(Pages, override=True)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
