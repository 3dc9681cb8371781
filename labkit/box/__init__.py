"""The lab in a box: real hosts with real sshd, on nothing but this machine."""

from labkit.box.box import down, up
from labkit.box.faults import Faults
from labkit.box.status import BoxStatus, names, status

__all__ = ["BoxStatus", "Faults", "down", "names", "status", "up"]
