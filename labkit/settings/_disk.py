"""Disks by their names in /sys/block, held to by what they say that they are."""

from labkit.machine.scripts import beside
from labkit.settings._device import Devices

DISK = "@disk"
"""Stands for the disk's name in the words of a way."""
DISKS = Devices(
    "disk", "/sys/block", DISK,
    # What it says that it is, or which file it stands for; else where it sits on its bus.
    beside(__file__, "_disk_disks.sh"),
)  # fmt: skip
