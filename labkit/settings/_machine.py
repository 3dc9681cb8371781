"""Settings of one virtual machine."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import Impossible
from labkit.settings._ways import OnHost, named


@dataclass(frozen=True)
class OfMachine(OnHost):
    """A setting of the virtual machine `vm`: its name, or on KVM the path of its QMP socket."""

    vm: str

    def __post_init__(self) -> None:
        super().__post_init__()
        for part in self.vm[1:].split("/") if self.plain else [self.vm]:
            named("virtual machine", part)

    @property
    def which(self) -> str:
        """The machine."""
        return self.vm

    @property
    def plain(self) -> bool:
        """Whether it is a QEMU by itself, which no libvirt keeps."""
        return self.vm.startswith("/")

    @property
    def kept(self) -> str:
        """Its name in libvirt; a QEMU by itself has none, and not what libvirt does for one."""
        if self.plain:
            raise Impossible(
                f"{self.vm} is a QEMU by itself: it has no {type(self).__name__}",
                hint="name a machine that libvirt keeps",
            )
        return self.vm
