"""Things that can be changed on a host, each with its way back; one file each.

Start with `memory.py`, where each is a row, then `mtu.py`, whose ways depend on the host.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import MISSING, fields

from labkit.setting import Setting
from labkit.settings._ways import OnHost


def kinds_of_setting() -> list[type[Setting]]:
    """Every class of this folder that is a setting, by name."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_"]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    kinds = [kind for module in modules for kind in vars(module).values() if inspect.isclass(kind)]
    here = {f"{__name__}.{name}" for name in names}
    real = {kind for kind in kinds if kind.__module__ in here and issubclass(kind, Setting)}
    return sorted((kind for kind in real if not _is_base(kind)), key=lambda kind: kind.__name__)


# What several settings share, such as a container: no kind of host has that by itself.
def _is_base(kind: type[Setting]) -> bool:
    bare = issubclass(kind, OnHost) and not kind.kinds()
    return bare or inspect.isabstract(kind) or kind.__name__[0] == "_"


def needs_words(kind: type[Setting]) -> list[str]:
    """The fields that a setting of this kind cannot be made without."""
    return [
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    ]
