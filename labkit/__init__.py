"""labkit: run documented virtualization studies on real hosts, and judge their claims.

The names that a notebook needs are here; each is imported when it is first used. Start with
`study.py`, which names all the others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from labkit.changes.in_force import applied as applied
    from labkit.claim import compare as compare
    from labkit.running.open_lab import open_lab as open_lab
    from labkit.running.open_lab import study_results as study_results
    from labkit.studies import find as find_study

_HOMES = {
    "applied": ("labkit.changes.in_force", "applied"),
    "compare": ("labkit.claim", "compare"),
    "find_study": ("labkit.studies", "find"),
    "open_lab": ("labkit.running.open_lab", "open_lab"),
    "study_results": ("labkit.running.open_lab", "study_results"),
}
__all__ = ["applied", "compare", "find_study", "open_lab", "study_results"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)
