"""What a lab needs, one check a file; the folder is the registry.

Start with `port.py`: `after` makes the order.
"""

import importlib
import pkgutil
from dataclasses import replace

from labkit.check import Check


def all_checks() -> list[Check]:
    """Every check of this folder, each after the one that it needs, else by name."""
    names = sorted(
        module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_"
    )
    checks = {name: replace(_check(name), name=name) for name in names}
    paths = {name: _path(checks, name) for name in names}
    return [checks[name] for name in sorted(names, key=lambda name: (len(paths[name]), name))]


# The names from the first check to this one, each of which has to be right before the next.
def _path(checks: dict[str, Check], name: str) -> tuple[str, ...]:
    after = checks[name].after
    return (*(_path(checks, after) if after else ()), name)


def _check(name: str) -> Check:
    check = importlib.import_module(f"{__name__}.{name}").check
    assert isinstance(check, Check)
    return check
