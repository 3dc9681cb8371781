"""The processes of a box, as the machine counts them."""

from contextlib import suppress

from labkit.box.cgroup import Cgroup
from labkit.box.layout import NAME
from labkit.box.rootless.user_namespace import Rootless
from labkit.errors import BoxError


def processes(name: str) -> list[int]:
    """Their numbers; those that they start are found below them. Other labs have none here."""
    if not NAME.fullmatch(name):
        return []
    if Rootless(name).exists:
        return Rootless(name).processes()
    with suppress(BoxError):  # without control groups there is no such box
        return Cgroup.of(name).pids()
    return []
