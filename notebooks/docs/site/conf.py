"""How Sphinx makes the site of what `build.py` has laid out."""

import re
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from labkit import __version__

project = "labkit"
author = "the authors of labkit"
version = release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc"]
root_doc = "index"
exclude_patterns = ["notebooks/docs/site"]

# Notebooks were executed before; here they are only shown.
nb_execution_mode = "off"
nb_merge_streams = True
myst_heading_anchors = 6

# A docstring's words in backticks are code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "labkit"
html_css_files = ["style.css"]
html_copy_source = html_show_sourcelink = html_show_copyright = False
# A page that was opened as a file may fetch no other one to summarize it.
html_show_search_summary = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def setup(app: Sphinx) -> None:
    """Add what the pages of labkit need beside Sphinx."""
    # Pages that another text of this file has made are made again.
    app.add_config_value("conf_text", Path(__file__).read_text("utf-8"), "env")
    app.add_lexer("order", TextLexer)
    app.connect("autodoc-process-docstring", marked_up)
    app.connect("html-page-context", with_charts)


# Docstrings are plain text, in which only backticks mean something.
def marked_up(app: Sphinx, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    """Write a docstring so that Sphinx reads it as it was meant."""
    lines[:] = [re.sub(r"(`[^`]*`)|([*_|@\\])", _mark, line) for line in lines]


def _mark(found: re.Match[str]) -> str:
    return f"`{found[1]}`" if found[1] else f"\\{found[2]}"


def with_charts(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Load Vega where there are charts, and on no other page: it is a megabyte."""
    if 'class="labkit-chart"' in context.get("body", ""):
        app.add_js_file("vega.js", loading_method="defer")
        app.add_js_file("charts.js", loading_method="defer")
