"""Devices of a Proxmox guest, by `qm` on its host: aio, cache and iothread of a disk, queues."""

from labkit.errors import BadInput
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way
from labkit.settings._fields import amount, one_of, pattern, word
from labkit.settings._ways import RESTART, OnHost, script

PROGRAMS = ("qm",)

DEFAULT = "default"
OPTIONS = {
    "aio": ("io_uring", "native", "threads"),
    "cache": ("none", "writethrough", "writeback", "directsync", "unsafe"),
    "iothread": ("0", "1"),
    "discard": ("on", "ignore"),
    "queues": tuple(map(str, range(1, 65))),
}
"""Options by name, with their values (qm.conf(5)); `default` stands for a line without it."""
SHOW = beside(__file__, "proxmox_shown.sh")
SET = beside(__file__, "proxmox_set.sh")


class ProxmoxDevice(OnHost):
    """An option of a device of a Proxmox guest: aio, cache or iothread of a disk, or queues.

    A guest that runs is restarted, as Proxmox keeps the change for its next start.
    """

    vmid: int = amount("the number of a guest", 100, 999_999_999, which=True)
    device: str = pattern("device", r"(scsi|virtio|sata|ide|net)\d{1,2}", "scsi0", which=True)
    option: str = word("option of a device", tuple(OPTIONS), which=True)
    content: str

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(f"value of {self.option}", self.content, (*OPTIONS[self.option], DEFAULT))
        if (self.option == "queues") != self.device.startswith("net"):
            problem = f"{self.device} has no {self.option}"
            raise BadInput(problem, hint="queues is of a net device, the others are of disks")

    def on_linux(self, host: Host) -> Way:
        """The option in the line of its device, as `qm config` shows it."""
        words = (str(self.vmid), self.device, self.option)
        return Way(
            script(SHOW, *words),
            lambda content: (script(SET, *words, content),),
            needs=RESTART, legal=", ".join((*OPTIONS[self.option], DEFAULT)),
            live=script(SHOW, *words, "--current"), persists=True, seconds=60,
        )  # fmt: skip
