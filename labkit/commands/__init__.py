"""The verbs of the command line: each file is one, found because it is there.

Start with `run.py`; names with an underscore hold what verbs share.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any


def add_all(verbs: Any) -> None:
    """Add every verb of this folder, by name."""
    for name in sorted(found.name for found in pkgutil.iter_modules(__path__)):
        if not name.startswith("_"):
            importlib.import_module(f"{__name__}.{name}").add(verbs)
