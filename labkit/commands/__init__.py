"""The verbs of the command line: each file is one, found because it is there.

Start with `run.py`; names with an underscore hold what verbs share.
"""

import functools
import importlib
import pkgutil
from typing import Any

from labkit.commands._verb import Verb


@functools.cache
def names() -> tuple[str, ...]:
    """The verbs, in order; looked up once, for the folder may be out of reach later."""
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted(name for name in modules if not name.startswith("_")))


def add_all(parsers: Any) -> None:
    """Add every verb of this folder, by name."""
    for name in names():
        for one in vars(importlib.import_module(f"{__name__}.{name}")).values():
            if isinstance(one, Verb) and one.name == name:
                one.add_to(parsers)
