"""The lab in a box: real hosts with real sshd, on nothing but this machine."""

from labkit.box.box import down, up
from labkit.box.faults import Faults
from labkit.box.link import LinkPlan
from labkit.box.migration import Migration, migrate
from labkit.box.picture import Picture, draw
from labkit.box.shaping import asked_of, reshape
from labkit.box.status import BoxStatus, names, status

__all__ = [
    "BoxStatus",
    "Faults",
    "LinkPlan",
    "Migration",
    "Picture",
    "asked_of",
    "down",
    "draw",
    "migrate",
    "names",
    "reshape",
    "status",
    "up",
]
