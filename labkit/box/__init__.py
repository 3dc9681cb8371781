"""The lab in a box: real hosts with real sshd, on nothing but this machine.

Start with `box.py` (up and down) and `topology.py` (what it is made of).
"""

from labkit.box.box import down, up
from labkit.box.faults import Faults
from labkit.box.guests.migration import Migration, migrate
from labkit.box.network.link import LinkPlan
from labkit.box.network.shaping import asked_of, reshape
from labkit.box.picture import Picture, draw
from labkit.box.status import BoxStatus, names, status

__all__ = [
    "BoxStatus", "Faults", "LinkPlan", "Migration", "Picture", "asked_of", "down", "draw",
    "migrate", "names", "reshape", "status", "up",
]  # fmt: skip
