"""Things that can be changed on a host, each with its way back; one file each.

Start with `memory.py`, where each is a row, then `mtu.py`, whose ways depend on the host.
"""

import inspect
from dataclasses import MISSING, fields

from labkit.errors import BadInput
from labkit.machine import workspace
from labkit.setting import Setting
from labkit.settings._ways import OnHost

workspace.extend(__path__, "settings")


def kinds_of_setting() -> list[type[Setting]]:
    """Every class of this folder and of workspaces that is a setting, by name."""
    modules, _ = workspace.modules(__name__, __path__)
    kinds = {kind for module in modules for kind in vars(module).values() if inspect.isclass(kind)}
    homes = {module.__name__ for module in modules}
    real = {kind for kind in kinds if kind.__module__ in homes and issubclass(kind, Setting)}
    # What several settings share, such as a container: no kind of host has that by itself.
    bare = {kind for kind in real if issubclass(kind, OnHost) and not kind.kinds()}
    whole = (kind for kind in real - bare if not inspect.isabstract(kind))
    return sorted((k for k in whole if k.__name__[0] != "_"), key=lambda kind: kind.__name__)


def errors() -> list[BadInput]:
    """Errors of the modules that cannot be read."""
    return [*workspace.modules(__name__, __path__)[1], *workspace.twice("settings")]


def needs_words(kind: type[Setting]) -> list[str]:
    """The fields that a setting of this kind cannot be made without."""
    return [
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    ]
