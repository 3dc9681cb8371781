"""The renderer of a guest's three-dimensional graphics."""

from dataclasses import field
from typing import ClassVar

from labkit.host import Host
from labkit.setting import Way
from labkit.settings._esxi import of_vmx
from labkit.settings._machine import OfMachine
from labkit.settings._values import word

RENDERERS = ("off", "software", "hardware", "automatic")


class Guest3d(OfMachine):
    """`software` draws on the host's CPUs, `hardware` on its graphics card, `off` not at all.

    `automatic` takes a card where there is one; a guest on it cannot move to a host without.
    """

    renderer: str = field(default="software", metadata=word("renderer", RENDERERS))
    gaps: ClassVar = {
        "box": "its guests have no screen",
        "kvm": "it is in the definition: <acceleration accel3d>, by hand",
    }

    def on_esxi(self, host: Host) -> Way:
        """`mks.enable3d` and `mks.use3dRenderer`."""
        on = self.renderer != "off"
        lines = {"mks.enable3d": "TRUE" if on else "FALSE",
                 "mks.use3dRenderer": self.renderer if on else None}  # fmt: skip
        return of_vmx(self.vm, self.wanted, lines)
