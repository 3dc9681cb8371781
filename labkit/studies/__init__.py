"""The questions to ask, one file each; the folder is the registry.

Start with `lat_ping.py`.
"""

from __future__ import annotations

import importlib
import pkgutil

from labkit.errors import Unknown
from labkit.study import Study


def names() -> list[str]:
    """The names of all studies."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_")


def find(name: str) -> Study:
    """The study of that name; `lat-ping` is read as `lat_ping`."""
    stem = name.replace("-", "_")
    if stem not in names():
        raise Unknown("study", name, names())
    study = importlib.import_module(f"{__name__}.{stem}").study
    assert isinstance(study, Study)
    return study


def asks(study: Study) -> str:
    """Return the title of a study, marked if it is a draft."""
    return f"{study.title} (draft)" if study.draft else study.title


def markdown() -> str:
    """The table of all studies for the README."""
    rows = [
        f"| `{s.name}` | {asks(s)} | {len(s.conditions)} | {len(s.claims)} | {s.source} |"
        for s in map(find, names())
    ]
    return "\n".join(["| study | what it asks | conditions | claims | document |",
                      "|---|---|---|---|---|", *rows])  # fmt: skip
