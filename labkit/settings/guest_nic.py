"""The path of the guest's data NIC to the wire, and its batching of packets."""

from dataclasses import field, replace

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Details, Way, Words
from labkit.settings._esxi import of_vmx
from labkit.settings._guest import EACH_GUEST, FIRST, GUEST, RESERVED_FIRST, OfGuest
from labkit.settings._libvirt import DEFINITION, RESTART_SCRIPT
from labkit.settings._values import amount, switch, word
from labkit.settings._ways import RESTART, on_or_off, script

PROGRAMS = ("bridge", "python3", "virsh")

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

    path: str = field(
        default="direct", metadata=word("path of the guest's NIC", PATHS, "nic={}".format)
    )
    batch: int = field(
        default=128, metadata=amount("the guest's NIC's batch", 1, 128, text="batch={}".format)
    )
    lro: bool = field(default=True, metadata=switch("lro=off", "lro=on"))
    guest: str = field(default=FIRST, metadata=GUEST)

    def on_box(self, host: Host) -> Way:
        """The values of the running guest, or those that a stopped one will start with."""
        return Way(
            (*self.command, "get", *KEYS),
            lambda value: ((*self.command, "set", *value.split()),), _value,
            legal=f"path {' or '.join(PATHS)}, batch 1 to 128, lro on or off",
            more=Details(seconds=0.4, several=EACH_GUEST, apart=self.named, replaces=self.named),
        )  # fmt: skip

    def on_kvm(self, host: Host) -> Way:
        """The driver in the guest says what a function of an adapter merges: Offloads."""
        vm, merging = self.machine(host), on_or_off(self.lro)
        shows = f"{NETWORKS}\nvm=$1; shift; {DEFINITION}"
        look = script(shows, vm, NETWORK, "virsh", "-q", "dumpxml", vm, "--inactive")

        def writes(value: str) -> tuple[Words, ...]:
            path, *guest = _words(value.removeprefix("nic="))
            exact = (word for word in guest if "=" in word)
            texts = (self.path, merging) if value == self.wanted else (path, "exact", *exact)
            return (script(MOVE, vm, RESTART_SCRIPT, EDIT, *texts), self.answers(host, "kvm"))

        return Way(
            look, writes, self._describe_place, self._no_network,
            needs=RESTART,
            legal=f"path {' or '.join(PATHS)}, lro on or off on the first",
            more=Details(
                persists=True, seconds=60, stands_for=self._describe_limits(), replaces=self.named,
            ),
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
        ).plus(Details(
            replaces=self.named, after=() if bridge else (RESERVED_FIRST,),
            stands_for="" if self.lro or not bridge else
            "batching alone: merging is the host's, and takes its reboot (VnicMerging)",
        ))  # fmt: skip

    def _lacks_nic(self, text: str) -> str:
        key, kind = (VNIC, "a vmxnet3") if self.path == "bridge" else (FUNCTION, "an SR-IOV")
        if key.lower() in text.lower():
            return ""
        return f"the guest has no {key.split('.')[0]}: give it {kind} adapter for test traffic"


def _value(text: str) -> str:
    return " ".join(f"{key}={value}" for key, value in zip(KEYS, text.split(), strict=True))


# What is said of the NIC, without the networks that it could be on.
def _words(text: str) -> list[str]:
    return [word for word in text.split() if not word.startswith(HAS)]
