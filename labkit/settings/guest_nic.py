"""How the guest's data NIC reaches the wire, and how it batches packets."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import BadInput, Unknown
from labkit.host import Host
from labkit.setting import Way, Words
from labkit.settings._esxi import EDITED, SHOWN, quoted
from labkit.settings._guest import FIRST, RESERVED_FIRST, OfGuest, only_with_guest
from labkit.settings._libvirt import DEFINED, RESTARTED
from labkit.settings._ways import RESTART, script

PATHS = ("bridge", "direct")
KEYS = ("nic", "batch", "lro")

# Two networks of libvirt, made once by hand: which of them the NIC is on is its path.
NETWORK = "s/.*<source network='labkit-\\([a-z]*\\)'.*/\\1/p"
MOVED = f"""\
xml=$(mktemp) || exit
virsh -q dumpxml "$1" --inactive --security-info |
    sed "s/<source network='labkit-[a-z]*'/<source network='labkit-$2'/" > "$xml"
( set -- "$1" "define $xml"
{RESTARTED} )
code=$?; rm -f "$xml"; exit "$code\""""
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
        """Path, batch and merging, as the guest is told them."""
        return _value(f"{self.path}\n{self.batch}\n{'on' if self.lro else 'off'}")

    def way(self, kind: str, host: Host) -> Way:
        """What the running guest has, or what a stopped one will start with."""
        if kind == "kvm":
            return self._on_kvm(host)
        if kind == "esxi":
            return self._on_esxi(host)
        only_with_guest(kind, host)
        return Way(
            (*self.command, "get", *KEYS),
            lambda value: ((*self.command, "set", *value.split()),), _value, seconds=0.4,
            legal=f"path {' or '.join(PATHS)}, batch 1 to 128, lro on or off",
        )  # fmt: skip

    # Batching and merging are the driver's in the guest there: Coalescing and Offloads of it.
    def _on_kvm(self, host: Host) -> Way:
        vm = self.machine(host)
        shown = script(f"vm=$1; shift; {DEFINED}", vm, NETWORK, "virsh", "-q", "dumpxml", vm,
                       "--inactive")  # fmt: skip

        def writes(value: str) -> tuple[Words, ...]:
            path = value.split()[0].removeprefix("nic=")
            return (script(MOVED, vm, path), self.answers(host, "kvm"))

        return Way(
            shown, writes, lambda text: self._placed(text.strip()), _no_network,
            needs=RESTART, persists=True, seconds=60, legal=f"path {' or '.join(PATHS)}",
            stands_for="the path alone" if (self.batch, self.lro) != (128, True) else "",
        )  # fmt: skip

    def _placed(self, path: str) -> str:
        return self.wanted if path == self.path else f"nic={path}"

    # Merging is the whole host's there: VnicMerging.
    def _on_esxi(self, host: Host) -> Way:
        vm, of_ours = quoted(self.machine(host)), _lines(self.path, self.batch)

        def value(text: str) -> str:
            now = _read(text)
            return self.wanted if now == of_ours else ", ".join(f"{k}={v}" for k, v in now.items())

        def writes(value: str) -> tuple[Words, ...]:
            pairs = (one.partition("=")[::2] for one in value.split(", "))
            lines = of_ours if value == self.wanted else dict(pairs)
            words = [w for key, one in lines.items() for w in (key, f'{key} = "{one}"' * bool(one))]
            return (script(EDITED, vm, *words), self.answers(host, "esxi"))

        return Way(
            script(SHOWN, vm, VNIC, FUNCTION, SCHEME), writes, value, self._lacks_nic,
            needs=RESTART, persists=True, settle_seconds=1, seconds=60,
            legal=f"path {' or '.join(PATHS)}, batch 1 or 128",
            after=(RESERVED_FIRST,) if self.path == "direct" else (),
        )  # fmt: skip

    def _lacks_nic(self, text: str) -> str:
        key, what = (VNIC, "a vmxnet3") if self.path == "bridge" else (FUNCTION, "an SR-IOV")
        if key.lower() in text.lower():
            return ""
        return f"the guest has no {key.split('.')[0]}: give it {what} adapter for test traffic"


def _value(text: str) -> str:
    return " ".join(f"{key}={value}" for key, value in zip(KEYS, text.split(), strict=True))


def _no_network(text: str) -> str:
    if text.split()[:1] in [[path] for path in PATHS] and len(text.split()) < 3:
        return ""
    return (
        f"the guest has no NIC on one of the networks labkit-bridge and labkit-direct, or several "
        f"({' '.join(text.split()) or 'none'})"
    )


# On ESXi: what its description says for a path; "" is for no such line.
def _lines(path: str, batch: int) -> dict[str, str]:
    on, off = "TRUE", "FALSE"
    there = (on, off) if path == "bridge" else (off, on)
    return {VNIC: there[0], FUNCTION: there[1], SCHEME: "disabled" if batch == 1 else ""}


def _read(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    found = {key.strip().lower(): one.strip().strip('"') for key, _, one in pairs}
    return {key: found.get(key.lower(), "") for key in (VNIC, FUNCTION, SCHEME)}
