"""Giving a guest a device, or a part of one, for itself."""

from typing import ClassVar

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way
from labkit.settings._device import NIC, of_nic
from labkit.settings._fields import amount, pattern
from labkit.settings._ways import OWN_KERNEL, ROOT, OnHost, on_or_off, picked, script

PROGRAMS = ("esxcli", "vim-cmd")

PCI = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
PASSTHROUGH = ("esxcli", "hardware", "pci", "pcipassthru")
DRIVER = """\
cd "/sys/bus/pci/devices/$1" || exit
[ -e iommu_group ] || { echo "no IOMMU watches $1: intel_iommu=on or the like" >&2; exit 1; }
at=$(readlink driver); echo "${at##*/} $(cat driver_override)\""""
GIVE = beside(__file__, "passthrough_set.sh")
ACTIVE = beside(__file__, "passthrough_active.sh")
BIND = beside(__file__, "passthrough_bound.sh")
FUNCTIONS = 'cat "/sys/class/net/$1/device/sriov_numvfs"'
# The kernel changes the number only by way of 0.
SPLIT = """\
cd "/sys/class/net/$1/device" || exit
put() { printf %s "$1" | tee sriov_numvfs >/dev/null; }
put 0 && { [ "$2" -eq 0 ] || put "$2"; }"""


class Passthrough(OnHost):
    """Whether the device at a PCI address is kept for a guest, past all that the host does.

    Never that of the disk or the NIC which the host itself lives by. A guest that gets it needs
    all of its memory reserved, and cannot move any more.
    """

    address: str = pattern("PCI address", PCI, "0000:03:00.0", which=True)
    kept: bool = True
    gaps: ClassVar = {"box": "there it is GuestNic with the path direct"}

    def on_linux(self, host: Host) -> Way:
        """The driver vfio-pci instead of its own; the whole IOMMU group has to go."""
        return Way(
            script(DRIVER, self.address),
            lambda value: (script(BIND, self.address, "vfio-pci" if value == "on" else ""),),
            lambda text: on_or_off(text.split()[:1] == ["vfio-pci"]),
            lambda text: "" if text.split()[1:] in ([], ["(null)"], ["vfio-pci"])
            else f"somebody else chooses the driver of {self.address}",
            needs=ROOT, probe=script(OWN_KERNEL), cuts_management=True, seconds=2,
        )  # fmt: skip

    def on_esxi(self, host: Host) -> Way:
        """Applied at once where the host can, else at its next start: `passthruActive` says."""
        return Way(
            picked(f"s/^{self.address.replace('.', '[.]')}  *//p", *PASSTHROUGH, "list"),
            lambda value: (script(GIVE, self.address, "true" if value == "on" else "false"),),
            lambda text: {"true": "on", "false": "off"}.get(text.strip(), "no such device"),
            lambda text: "" if text.strip() else f"no device {self.address} can be passed through",
            needs=ROOT, live=script(ACTIVE, self.address), persists=True, cuts_management=True,
            seconds=2,
        )  # fmt: skip


class Sriov(OnHost):
    """Into how many virtual functions the test NIC is split, each for a guest of its own; 0: none.

    Taking one away that a guest has takes it from under the guest.
    """

    functions: int = amount("virtual functions", 0, 256)
    gaps: ClassVar = {
        "esxi": "the driver's option max_vfs decides, for all of its ports: ModuleOptions",
        "box": "its NICs are virtual; GuestNic with the path direct comes near",
    }  # fmt: skip

    def on_linux(self, host: Host) -> Way:
        """`sriov_numvfs`."""
        return of_nic(host, Way(
            script(FUNCTIONS, NIC), lambda value: (script(SPLIT, NIC, value),),
            needs=ROOT, legal="up to the NIC's sriov_totalvfs", cuts_management=True, seconds=5,
        ))  # fmt: skip
