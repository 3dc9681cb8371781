"""ESXi's delivery of packets to a virtual machine's NIC: one by one, batched, or merged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.setting import Details, Way
from labkit.settings._esxi import ADVANCED, of_vmx, since_boot
from labkit.settings._machine import OfMachine
from labkit.settings._ways import OnHost, on_or_off, one_of, script, whole

PROGRAMS = ("esxcli",)

SCHEMES = ("disabled", "rbc", "static", "adapt", "calibrate")
MERGES = ("Vmxnet3SwLRO", "Vmxnet3HwLRO")
SHOWN = """\
for name; do
    said=$(esxcli system settings advanced list -o "/Net/$name") || exit
    printf '%s\\n' "$said" | sed -n "s/^   Int Value: /$name=/p"; done"""


@dataclass(frozen=True)
class VnicCoalescing(OfMachine):
    """The host's timing of packet interrupts for a guest: `disabled` is at once for each packet.

    `rbc` aims at a rate (parameter: interrupts per second, 100 to 100000), `static` waits for a
    number of packets (parameter: 1 to 64, but at most 4 ms). Only vmxnet3 NICs have it.
    """

    scheme: str = "disabled"
    parameter: int | None = None
    nic: int = 0

    elsewhere: ClassVar = {
        "box": "there it is the batch of GuestNic",
        "linux": "there it is Coalescing, in the guest",
        "kvm": "it is in the machine's definition: <coalesce>, by hand",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("scheme", self.scheme, SCHEMES)
        whole("the NIC's number", self.nic, 0, 9)
        legal = {"rbc": (100, 100_000), "static": (1, 64)}.get(self.scheme)
        if self.parameter is not None:
            if legal is None:
                raise BadInput(f"{self.scheme} has no parameter; rbc and static have one")
            whole(f"the parameter of {self.scheme}", self.parameter, *legal)

    @property
    def which(self) -> str:
        """The machine and its NIC."""
        return f"{self.vm} ethernet{self.nic}"

    @property
    def wanted(self) -> str:
        """The scheme, and its parameter if it has one."""
        return self.scheme if self.parameter is None else f"{self.scheme} {self.parameter}"

    def on_esxi(self, host: Host) -> Way:
        """`ethernetN.coalescingScheme` and its parameters."""
        key = f"ethernet{self.nic}.coalescing"
        parameter = None if self.parameter is None else str(self.parameter)
        return of_vmx(
            self.vm, self.wanted, {f"{key}Scheme": self.scheme, f"{key}Params": parameter}
        )


@dataclass(frozen=True)
class VnicMerging(OnHost):
    """Whether the host merges packets for guests (LRO), in software and in hardware, vmxnet3.

    It counts from the host's next start on (VMware KB 318877).
    """

    lro: bool = False

    elsewhere: ClassVar = {
        "box": "there it is lro of GuestNic",
        "linux": "there it is Offloads, in the guest",
    }  # fmt: skip

    @property
    def wanted(self) -> str:
        """On or off."""
        return on_or_off(self.lro)

    def on_esxi(self, host: Host) -> Way:
        """Two options of the host, of all of its machines."""
        way = Way(script(SHOWN, *MERGES), _merged, _merges, more=Details(seconds=2))
        return since_boot("merging", way)


def _merges(text: str) -> str:
    both = text.split()
    for word, n in (("on", "1"), ("off", "0")):
        if both == [f"{name}={n}" for name in MERGES]:
            return word
    return " ".join(both)


def _merged(value: str) -> tuple[tuple[str, ...], ...]:
    number = {"on": "1", "off": "0"}
    pairs = [f"{name}={number[value]}" for name in MERGES] if value in number else value.split()
    split = (pair.partition("=") for pair in pairs)
    return tuple((*ADVANCED, "set", "-o", f"/Net/{name}", "-i", n) for name, _, n in split)
