"""How Sphinx makes the book: from the stored notebooks, without running them, without network.

`make book` calls tools/book.py, which puts the notebooks with live sliders into build/book-source.
"""

from __future__ import annotations

import html
import re
import textwrap
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
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
html_static_path = ["book.css", "fonts", *SCRIPTS, "made"]
templates_path = ["templates"]
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
        "tint": "45%",
    },
    "dark_css_variables": {
        "color-brand-primary": ON_DARK,
        "color-brand-content": ON_DARK,
        "color-brand-visited": ON_DARK,
        "color-code-background": "#1b1e23",
        "tint": "36%",
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


def describe(app: Sphinx, page: str, _: str, context: dict[str, Any], doctree: Any) -> None:
    """Let a link to a page show its title and its first paragraph elsewhere."""
    if doctree is None:
        return
    texts = (each.astext() for each in doctree.findall(nodes.paragraph))
    said = next((text for text in texts if len(text) > 80), app.config.html_title)
    told = html.escape(textwrap.shorten(said, 160, placeholder=" …"))
    context["metatags"] += (
        f'<meta name="description" content="{told}">'
        f'<meta property="og:title" content="{html.escape(context["title"])}">'
        f'<meta property="og:description" content="{told}">'
    )


def setup(app: Sphinx) -> None:
    """Write equations as MathML, which browsers show by themselves."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    app.connect("html-page-context", describe)
