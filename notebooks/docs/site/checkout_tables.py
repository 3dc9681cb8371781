"""What a checkout says of its studies, written again: README, page of claims, notebooks."""

from __future__ import annotations

from pathlib import Path

import book_links
import who_decides

from labkit import studies
from labkit.errors import BadInput
from labkit.machine.places import HOME

BEGUN, ENDED = "<!-- studies: written by `labkit studies --write` -->\n", "<!-- end of studies"


def write() -> list[Path]:
    """Write all of it, and return the files."""
    readme, page = HOME / "README.md", who_decides.PAGE
    listed = [studies.find(name) for name in studies.built_in()]
    table = _in_the_table(readme.read_text("utf-8"))
    readme.write_text(who_decides.counted(table, listed), "utf-8")
    page.write_text(who_decides.page(page.read_text("utf-8"), listed), "utf-8")
    return [readme, page, *book_links.write()]


def _in_the_table(readme: str) -> str:
    before, _, rest = readme.partition(BEGUN)
    _, end, after = rest.partition(ENDED)
    if not end:
        raise BadInput("README.md has no table of studies", hint="git checkout README.md")
    return f"{before}{BEGUN}{studies.markdown()}\n{end}{after}"
