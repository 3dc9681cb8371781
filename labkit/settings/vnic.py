"""ESXi's delivery of packets to a virtual machine's NIC: one by one, batched, or merged."""

from dataclasses import field
from typing import ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.setting import Details, Way
from labkit.settings._esxi import ADVANCED, of_vmx, since_boot
from labkit.settings._machine import OfMachine
from labkit.settings._values import NAMING, amount, word
from labkit.settings._ways import OnHost, by, script, whole

PROGRAMS = ("esxcli",)

SCHEMES = ("disabled", "rbc", "static", "adapt", "calibrate")
MERGES = ("Vmxnet3SwLRO", "Vmxnet3HwLRO")
SHOW = """\
for name; do
    said=$(esxcli system settings advanced list -o "/Net/$name") || exit
    printf '%s\\n' "$said" | sed -n "s/^   Int Value: /$name=/p"; done"""


class VnicCoalescing(OfMachine):
    """The host's timing of packet interrupts for a guest: `disabled` is at once for each packet.

    `rbc` aims at a rate (parameter: interrupts per second, 100 to 100000), `static` waits for a
    number of packets (parameter: 1 to 64, but at most 4 ms). Only vmxnet3 NICs have it.
    """

    scheme: str = field(default="disabled", metadata=word("scheme", SCHEMES))
    parameter: int | None = None
    nic: int = field(
        default=0, metadata=NAMING | amount("the NIC's number", 0, 9, text="ethernet{}".format)
    )
    gaps: ClassVar = {
        "box": "there it is the batch of GuestNic",
        "linux": "there it is Coalescing, in the guest",
        "kvm": "it is in the machine's definition: <coalesce>, by hand",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        legal = {"rbc": (100, 100_000), "static": (1, 64)}.get(self.scheme)
        if self.parameter is not None:
            if legal is None:
                raise BadInput(f"{self.scheme} has no parameter; rbc and static have one")
            whole(f"the parameter of {self.scheme}", self.parameter, *legal)

    def on_esxi(self, host: Host) -> Way:
        """`ethernetN.coalescingScheme` and its parameters."""
        key = f"ethernet{self.nic}.coalescing"
        parameter = None if self.parameter is None else str(self.parameter)
        return of_vmx(
            self.vm, self.wanted, {f"{key}Scheme": self.scheme, f"{key}Params": parameter}
        )


def _merges(text: str) -> str:
    values = text.split()
    for switch, n in (("on", "1"), ("off", "0")):
        if values == [f"{name}={n}" for name in MERGES]:
            return switch
    return " ".join(values)


def _merge(value: str) -> tuple[tuple[str, ...], ...]:
    number = {"on": "1", "off": "0"}
    pairs = [f"{name}={number[value]}" for name in MERGES] if value in number else value.split()
    split = (pair.partition("=") for pair in pairs)
    return tuple((*ADVANCED, "set", "-o", f"/Net/{name}", "-i", n) for name, _, n in split)


class VnicMerging(OnHost):
    """Whether the host merges packets for guests (LRO), in software and in hardware, vmxnet3.

    It counts from the host's next start on (VMware KB 318877).
    """

    lro: bool = False
    gaps: ClassVar = {
        "box": "there it is lro of GuestNic",
        "linux": "there it is Offloads, in the guest",
    }  # fmt: skip
    # Two options of the host, of all of its machines.
    on_esxi = by(
        since_boot("merging", Way(script(SHOW, *MERGES), _merge, _merges, more=Details(seconds=2)))
    )
