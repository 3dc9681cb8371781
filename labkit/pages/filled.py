"""Templates of pages (Jinja2), filled in: every value is escaped, unless it is `Markup`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def filled(name: str, **values: Any) -> str:
    """The template `templates/NAME.html` with these values."""
    return _environment().get_template(f"{name}.html").render(values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from labkit.pages.paper import PAPER
    from labkit.pages.tables import CHIPS, chip, safe

    environment = Environment(
        loader=PackageLoader("labkit.pages"), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else Markup(safe(str(value))),
    )  # fmt: skip
    environment.filters["chip"] = lambda word: Markup(chip(word)) if word in CHIPS else word
    environment.globals["paper"] = Markup(PAPER)
    return environment
