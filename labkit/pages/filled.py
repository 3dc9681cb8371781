"""Templates of pages (Jinja2), filled in: every value is escaped, unless it is `Markup`."""

from __future__ import annotations

import html
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from labkit.errors import readable
from labkit.machine import records
from labkit.machine.places import out
from labkit.machine.units import capital

if TYPE_CHECKING:
    from jinja2 import Environment

WEB = ("https://", "http://")
# White on each of these is readable (contrast 4.5 and more), on a light page and on a dark one.
CHIPS = {
    "holds": ("#00704F", "✔"),
    "contradicted": ("#B03A00", "✘"),
    "same within the margin": ("#1F5A8C", "="),
    "undecided": ("#5B5B5B", "?"),
    "not testable here": ("#5B5B5B", "-"),
}
"""The colour and the sign of each verdict; the sign is for who sees no colours."""


def filled(name: str, /, **values: Any) -> str:
    """The file of that name in `templates/`, with these values."""
    return _environment().get_template(name).render(values)


def keep(name: str, page: str) -> Path:
    """Keep a page of this name among the reports, whole or not at all."""
    file = out() / "reports" / name
    with records.keeping(f"{file}"):
        file.parent.mkdir(parents=True, exist_ok=True)
        records.write(file, page.encode())
    return file


def safe(text: str) -> str:
    """`text` as HTML that shows it and does nothing else."""
    return html.escape(readable(text))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("labkit.pages"), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else Markup(safe(str(value))),
    )  # fmt: skip
    chip = environment.get_template("chip.html")
    environment.filters["chip"] = lambda word: (
        Markup(chip.render(word=word, look=CHIPS[word])) if word in CHIPS else word
    )
    environment.filters["capital"] = capital
    environment.globals["web"] = WEB
    return environment
