"""What a lab needs: each `@check` is one thing that has to be right; the folder is the registry.

Start with `way.py`: `after` makes the order.
"""

import importlib
import pkgutil

from labkit.check import Check


def all_checks() -> list[Check]:
    """Every check of this folder, each after the one that it needs, else by name."""
    modules = (
        importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)
    )
    found = (value for module in modules for value in vars(module).values())
    checks = {check.name: check for check in found if isinstance(check, Check)}
    return sorted(checks.values(), key=lambda check: (_depth(checks, check), check.name))


# How many checks have to be right before this one.
def _depth(checks: dict[str, Check], check: Check) -> int:
    return 1 + _depth(checks, checks[check.after]) if check.after else 0
