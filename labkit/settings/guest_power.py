"""Whether the guest runs."""

from dataclasses import dataclass

from labkit.errors import Unknown
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Details, Way, Words
from labkit.settings._esxi import FIND, quoted
from labkit.settings._guest import EACH_GUEST, FIRST, OfGuest, only_with_guest
from labkit.settings._ways import RESTART, script

PROGRAMS = ("virsh",)

VERBS = {"on": "start", "off": "stop", "paused": "pause"}
# As libvirt says it, and as ESXi does.
STATES = {"running": "on", "shut off": "off", "Powered on": "on", "Powered off": "off"}
IN_THE_BOX = {"running": "on", "paused": "paused", "stopped": "off"}
# Shut down by its own system, never by pulling the plug.
OFF = beside(__file__, "guest_power_off.sh")
KVM = OFF + beside(__file__, "guest_power_kvm.sh")
ESXI = FIND + OFF + beside(__file__, "guest_power_esxi.sh")


@dataclass(frozen=True)
class GuestPower(OfGuest):
    """`off` leaves the host to itself, as for a native run; `paused` too, but for its memory.

    A guest that is paused goes on within milliseconds. Hypervisors shut it down in place of that.
    """

    power: str = "off"
    guest: str = FIRST

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.power not in VERBS:
            raise Unknown("power of the guest", self.power, VERBS)

    @property
    def resting(self) -> tuple[str, ...]:
        """The guest, unless it is on."""
        return () if self.power == "on" else (self.named,)

    @property
    def starts(self) -> tuple[str, ...]:
        """The guest, if it is to be on."""
        return (self.named,) if self.power == "on" else ()

    @property
    def wanted(self) -> str:
        """`on`, `off` or `paused`."""
        return self.power

    def way(self, kind: str, host: Host) -> Way:
        """Started, it is waited for until one can log in."""
        if kind in ("kvm", "esxi"):
            return self._of_hypervisor(kind, host)
        only_with_guest(kind, host)
        return Way(
            (*self.command, "state"),
            lambda value: ((*self.command, VERBS[value]),),
            lambda text: IN_THE_BOX[text.strip()],
            needs=frozenset({"guest restart"} if self.power != "paused" else ()),
            legal=" or ".join(VERBS),
            more=Details(seconds=3, several=EACH_GUEST, apart=self.named),
        )

    def _of_hypervisor(self, kind: str, host: Host) -> Way:
        vm = self.machine(host)
        reads: Words = ("virsh", "-q", "domstate", vm)
        commands, vm = (KVM, vm) if kind == "kvm" else (ESXI, quoted(vm))
        if kind == "esxi":
            reads = script(f"{FIND}\nstate", vm)

        def writes(value: str) -> tuple[Words, ...]:
            return (script(commands, vm, value), self.answers(host, kind))

        def value(text: str) -> str:
            state = STATES.get(text.strip(), text.strip())
            return self.power if state == "off" and self.power != "on" else state

        return Way(
            reads, writes, value, _odd, needs=RESTART, legal=" or ".join(VERBS),
            more=Details(seconds=60, stands_for="shut down" if self.power == "paused" else ""),
        )  # fmt: skip


# One that is paused, or has crashed, could not be put back by starting and stopping.
def _odd(text: str) -> str:
    return "" if text.strip() in STATES else f"the guest is {text.strip()}"
