"""Disks by their names in /sys/block, held to by what they say that they are."""

from __future__ import annotations

from labkit.settings._device import Devices

DISK = "@disk"
"""Stands for the disk's name in the words of a way."""
DISKS = Devices(
    "disk", "/sys/block", DISK,
    # What it says that it is, or which file it stands for; else where it sits on its bus.
    """\
told() {
    for file in dm/uuid wwid device/wwid serial device/serial loop/backing_file; do
        id=$(cat "/sys/block/$1/$file" 2>/dev/null)
        [ -z "$id" ] || { echo "$id"; return; }
    done
    at=$(cd -P "/sys/block/$1/device" 2>/dev/null && pwd) || { echo software; return; }
    at=${at%/virtio*}
    echo "${at##*/}"
}
""",
)  # fmt: skip
