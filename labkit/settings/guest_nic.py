"""The path of the guest's data NIC to the wire, and how its packets are batched and merged."""

from dataclasses import replace
from typing import ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way, Words
from labkit.settings._fields import amount, switch, whole, word
from labkit.settings._guest import (
    DEFINITION,
    EACH_GUEST,
    RESERVED_FIRST,
    RESTART_SCRIPT,
    VIRSH,
    OfGuest,
    OfMachine,
    guest_name,
)
from labkit.settings._ways import RESTART, OnHost, by, on_or_off, script, switched
from labkit.settings.esxi import ADVANCED, of_vmx, since_boot

PROGRAMS = ("bridge", "esxcli", "python3", "virsh")

PATHS = ("bridge", "direct")
KEYS = ("nic", "batch", "lro")

# Two networks of libvirt, made once by hand: which of them the NIC is on is its path. What the
# virtual device may hand over merged is what the line of its driver about the guest says.
NETWORK = (
    "/<source network='labkit-/{s/.*labkit-\\([a-z]*\\)'.*/\\1/p;:a;n;/<\\/interface>/b;"
    "s/^ *<guest \\(.*\\)\\/>/\\1/p;ba}"
)
HAS = "has-"
NETWORKS = f"""\
networks=$(virsh -q net-list --all --name) || exit
printf '%s\\n' "$networks" | sed -n 's/^labkit-/{HAS}/p' | sort"""
MOVE = beside(__file__, "guest_nic_moved.sh")
MERGES = ("tso4", "tso6", "ecn", "ufo")
EDIT = f"""\
import sys, xml.etree.ElementTree as tree
_, path, merging, *exact = sys.argv
whole = tree.parse(sys.stdin)
for nic in whole.getroot().iter('interface'):
    source = nic.find('source')
    if source is None or not source.get('network', '').startswith('labkit-'):
        continue
    source.set('network', 'labkit-' + path)
    driver = nic.find('driver')
    driver = tree.SubElement(nic, 'driver') if driver is None else driver
    guest = driver.find('guest')
    guest = tree.SubElement(driver, 'guest') if guest is None else guest
    if merging == 'exact':
        guest.attrib.clear()
        guest.attrib.update(word.replace("'", '').split('=') for word in exact)
    elif path == 'bridge':
        for name in {MERGES!r}:
            guest.attrib.pop(name, None)
            if merging == 'off':
                guest.set(name, 'off')
    if not guest.attrib:
        driver.remove(guest)
    if not driver.attrib and not len(driver):
        nic.remove(driver)
whole.write(sys.stdout.buffer)
"""
# The NICs of the machine for test traffic, both put there once by hand: one of them is present.
VNIC, FUNCTION, SCHEME = "ethernet1.present", "pciPassthru0.present", "ethernet1.coalescingScheme"


class GuestNic(OfGuest):
    """`bridge` leads through the server's virtual switch and a tap, `direct` past both of them.

    `batch` is how many packets the NIC hands over at once, 1 to 128; `lro` whether it merges them.
    A guest of the box is given another NIC while it runs; elsewhere a change restarts the guest.
    """

    path: str = word("path of the guest's NIC", PATHS, "nic={}".format, default="direct")
    batch: int = amount("the guest's NIC's batch", 1, 128, text="batch={}".format, default=128)
    lro: bool = switch("lro=off", "lro=on", default=True)
    guest: str = guest_name()

    def on_box(self, host: Host) -> Way:
        """The values of the running guest, or those that a stopped one will start with."""
        return Way(
            (*self.command, "get", *KEYS),
            lambda value: ((*self.command, "set", *value.split()),),
            lambda text: " ".join(map("=".join, zip(KEYS, text.split(), strict=True))),
            legal=f"path {' or '.join(PATHS)}, batch 1 to 128, lro on or off",
            seconds=0.4, several=EACH_GUEST, apart=self.guest, replaces=self.guest,
        )  # fmt: skip

    def on_kvm(self, host: Host) -> Way:
        """The driver in the guest says what a function of an adapter merges: Offloads."""
        vm, merging = self.machine(host), on_or_off(self.lro)
        shows = f"{NETWORKS}\nvm=$1; shift; {DEFINITION}"
        look = script(shows, vm, NETWORK, *VIRSH, "dumpxml", vm, "--inactive")

        def writes(value: str) -> tuple[Words, ...]:
            path, *guest = _words(value.removeprefix("nic="))
            exact = (word for word in guest if "=" in word)
            texts = (self.path, merging) if value == self.wanted else (path, "exact", *exact)
            return (script(MOVE, vm, RESTART_SCRIPT, EDIT, *texts), self.answers(host, "kvm"))

        return Way(
            look, writes, self._describe_place, self._no_network,
            needs=RESTART, legal=f"path {' or '.join(PATHS)}, lro on or off on the first",
            persists=True, seconds=60, stands_for=self._describe_limits(), replaces=self.guest,
        )  # fmt: skip

    def _describe_limits(self) -> str:
        if self.path == "direct":
            return "" if self.batch == 128 and self.lro else "the path alone"
        return "" if self.batch == 128 else "merging alone: virtio gathers no packets by time"

    def _describe_place(self, text: str) -> str:
        path, *guest = _words(text) or [""]
        off = {word.partition("=")[0] for word in guest if word.endswith("='off'")}
        switches_off = set(MERGES) & off
        as_wanted = switches_off == (set() if self.lro else set(MERGES)) or path == "direct"
        as_wanted = as_wanted and path == self.path and "stopped" not in guest
        return self.wanted if as_wanted else f"nic={' '.join(_words(text))}"

    def _no_network(self, text: str) -> str:
        paths = [word for word in _words(text) if word in PATHS]
        if len(paths) != 1:
            return (
                f"the guest has no NIC on one of the networks labkit-bridge and labkit-direct, or "
                f"several ({' '.join(paths) or 'none'})"
            )
        present = f"{HAS}{self.path}" in text.split()
        return "" if present else f"libvirt there has no network labkit-{self.path}"

    def on_esxi(self, host: Host) -> Way:
        """Merging is the whole host's there, and takes its reboot: VnicMerging."""
        bridge = self.path == "bridge"
        lines = {VNIC: "TRUE" if bridge else "FALSE", FUNCTION: "FALSE" if bridge else "TRUE",
                 SCHEME: "disabled" if self.batch == 1 else None}  # fmt: skip
        way = of_vmx(self.machine(host), self.wanted, lines)
        return replace(
            way, writes=lambda value: (*way.writes(value), self.answers(host, "esxi")),
            refuses=self._lacks_nic, legal=f"path {' or '.join(PATHS)}, batch 1 or 128",
            replaces=self.guest, after=() if bridge else (RESERVED_FIRST,),
            stands_for="" if self.lro or not bridge else
            "batching alone: merging is the host's, and takes its reboot (VnicMerging)",
        )  # fmt: skip

    def _lacks_nic(self, text: str) -> str:
        key, kind = (VNIC, "a vmxnet3") if self.path == "bridge" else (FUNCTION, "an SR-IOV")
        if key.lower() in text.lower():
            return ""
        return f"the guest has no {key.split('.')[0]}: give it {kind} adapter for test traffic"


# What is said of the NIC, without the networks that it could be on.
def _words(text: str) -> list[str]:
    return [word for word in text.split() if not word.startswith(HAS)]


SCHEMES = ("disabled", "rbc", "static", "adapt", "calibrate")
HOST_MERGES = ("Vmxnet3SwLRO", "Vmxnet3HwLRO")
SHOW = """\
for name; do
    said=$(esxcli system settings advanced list -o "/Net/$name") || exit
    printf '%s\\n' "$said" | sed -n "s/^   Int Value: /$name=/p"; done"""


class VnicCoalescing(OfMachine):
    """The host's timing of packet interrupts for a guest: `disabled` is at once for each packet.

    `rbc` aims at a rate (parameter: interrupts per second, 100 to 100000), `static` waits for a
    number of packets (parameter: 1 to 64, but at most 4 ms). Only vmxnet3 NICs have it.
    """

    scheme: str = word("scheme", SCHEMES, default="disabled")
    parameter: int | None = None
    nic: int = amount("the NIC's number", 0, 9, text="ethernet{}".format, default=0, which=True)
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
        lines = {f"{key}Scheme": self.scheme, f"{key}Params": parameter}
        return of_vmx(self.vm, self.wanted, lines)


MERGED, APART = (" ".join(f"{name}={n}" for name in HOST_MERGES) for n in "10")


def _merge(value: str) -> tuple[Words, ...]:
    pairs = (pair.partition("=") for pair in value.split())
    return tuple((*ADVANCED, "set", "-o", f"/Net/{name}", "-i", n) for name, _, n in pairs)


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
    on_esxi = by(since_boot("merging", switched(
        Way(script(SHOW, *HOST_MERGES), _merge, lambda text: " ".join(text.split()), seconds=2),
        on=MERGED, off=APART,
    )))  # fmt: skip
