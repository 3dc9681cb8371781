"""The path of the guest's data NIC to the wire, and its batching of packets."""

from dataclasses import dataclass

from labkit.errors import BadInput, Unknown
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Details, Way, Words
from labkit.settings._esxi import EDIT_LINES, SHOW, quoted
from labkit.settings._guest import EACH_GUEST, FIRST, RESERVED_FIRST, OfGuest, only_with_guest
from labkit.settings._libvirt import DEFINITION, RESTART_SCRIPT
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


@dataclass(frozen=True)
class GuestNic(OfGuest):
    """`bridge` leads through the server's virtual switch and a tap, `direct` past both of them.

    `batch` is how many packets the NIC hands over at once, 1 to 128; `lro` whether it merges them.
    A guest of the box is given another NIC while it runs; elsewhere a change restarts the guest.
    """

    path: str = "direct"
    batch: int = 128
    lro: bool = True
    guest: str = FIRST

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.path not in PATHS:
            raise Unknown("path of the guest's NIC", self.path, PATHS)
        if not 1 <= self.batch <= 128:
            raise BadInput(f"the guest's NIC batches 1 to 128 packets, not {self.batch}")

    @property
    def wanted(self) -> str:
        """Path, batch and merging, as the guest gets them."""
        return _value(f"{self.path}\n{self.batch}\n{'on' if self.lro else 'off'}")

    def way(self, kind: str, host: Host) -> Way:
        """The values of the running guest, or those that a stopped one will start with."""
        if kind == "kvm":
            return self._on_kvm(host)
        if kind == "esxi":
            return self._on_esxi(host)
        only_with_guest(kind, host)
        return Way(
            (*self.command, "get", *KEYS),
            lambda value: ((*self.command, "set", *value.split()),), _value,
            legal=f"path {' or '.join(PATHS)}, batch 1 to 128, lro on or off",
            more=Details(seconds=0.4, several=EACH_GUEST, apart=self.named, replaces=self.named),
        )  # fmt: skip

    # What a function of an adapter merges is its driver's in the guest: Coalescing and Offloads.
    def _on_kvm(self, host: Host) -> Way:
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

    # Merging is the whole host's there, and takes its reboot: VnicMerging.
    def _on_esxi(self, host: Host) -> Way:
        vm, of_ours = quoted(self.machine(host)), _lines(self.path, self.batch)

        def value(text: str) -> str:
            state = _read(text)
            return (
                self.wanted if state == of_ours else ", ".join(f"{k}={v}" for k, v in state.items())
            )

        def writes(value: str) -> tuple[Words, ...]:
            pairs = (word.partition("=")[::2] for word in value.split(", "))
            lines = of_ours if value == self.wanted else dict(pairs)
            words = [
                w for key, line in lines.items() for w in (key, f'{key} = "{line}"' * bool(line))
            ]
            return (script(EDIT_LINES, vm, *words), self.answers(host, "esxi"))

        return Way(
            script(SHOW, vm, VNIC, FUNCTION, SCHEME), writes, value, self._lacks_nic,
            needs=RESTART,
            legal=f"path {' or '.join(PATHS)}, batch 1 or 128",
            more=Details(
                persists=True, settle_seconds=1, seconds=60, replaces=self.named,
                after=(RESERVED_FIRST,) if self.path == "direct" else (),
                stands_for="" if self.lro or self.path == "direct" else
                "batching alone: merging is the host's, and takes its reboot (VnicMerging)",
            ),
        )  # fmt: skip

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


# On ESXi: what its description says for a path; "" is for no such line.
def _lines(path: str, batch: int) -> dict[str, str]:
    on, off = "TRUE", "FALSE"
    switches = (on, off) if path == "bridge" else (off, on)
    return {VNIC: switches[0], FUNCTION: switches[1], SCHEME: "disabled" if batch == 1 else ""}


def _read(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    values = {key.strip().lower(): content.strip().strip('"') for key, _, content in pairs}
    return {key: values.get(key.lower(), "") for key in (VNIC, FUNCTION, SCHEME)}
