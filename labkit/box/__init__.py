"""The lab in a box: real hosts with real sshd, on nothing but this machine."""

from labkit.box.box import down, up
from labkit.box.faults import Faults
from labkit.box.picture import Picture, draw
from labkit.box.status import BoxStatus, names, status

__all__ = ["BoxStatus", "Faults", "Picture", "down", "draw", "names", "status", "up"]
