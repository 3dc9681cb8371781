"""Whether the guest runs."""

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way, Words
from labkit.settings._fields import word
from labkit.settings._guest import EACH_GUEST, VIRSH, OfGuest, guest_name
from labkit.settings._ways import RESTART, script
from labkit.settings.esxi import FIND, quoted

PROGRAMS = ("virsh",)

VERBS = {"on": "start", "off": "stop", "paused": "pause"}
# As libvirt says it, and as ESXi does.
STATES = {"running": "on", "shut off": "off", "Powered on": "on", "Powered off": "off"}
IN_THE_BOX = {"running": "on", "paused": "paused", "stopped": "off"}
# Shut down by its own system, never by pulling the plug.
OFF = beside(__file__, "guest_power_off.sh")
KVM = OFF + beside(__file__, "guest_power_kvm.sh")
ESXI = FIND + OFF + beside(__file__, "guest_power_esxi.sh")


class GuestPower(OfGuest):
    """`off` leaves the host to itself, as for a native run; `paused` too, but for its memory.

    A guest that is paused goes on within milliseconds. Hypervisors shut it down in place of that.
    """

    power: str = word("power of the guest", tuple(VERBS), default="off")
    guest: str = guest_name()

    @property
    def resting(self) -> tuple[str, ...]:
        """The guest, unless it is on."""
        return () if self.power == "on" else (self.guest,)

    @property
    def starts(self) -> tuple[str, ...]:
        """The guest, if it is to be on."""
        return (self.guest,) if self.power == "on" else ()

    def on_box(self, host: Host) -> Way:
        """Started, it is waited for until one can log in."""
        return Way(
            (*self.command, "state"), lambda value: ((*self.command, VERBS[value]),),
            lambda text: IN_THE_BOX[text.strip()],
            needs=frozenset({"guest restart"} if self.power != "paused" else ()),
            seconds=3, several=EACH_GUEST, apart=self.guest,
        )  # fmt: skip

    def on_kvm(self, host: Host) -> Way:
        """Shut down by its own system, and started."""
        vm = self.machine(host)
        return self._way(host, "kvm", (*VIRSH, "domstate", vm), KVM, vm)

    def on_esxi(self, host: Host) -> Way:
        """The same."""
        vm = quoted(self.machine(host))
        return self._way(host, "esxi", script(f"{FIND}\nstate", vm), ESXI, vm)

    def _way(self, host: Host, kind: str, reads: Words, commands: str, vm: str) -> Way:
        def value(text: str) -> str:
            state = STATES.get(text.strip(), text.strip())
            return self.power if state == "off" and self.power != "on" else state

        # One that is paused, or has crashed, could not be put back by starting and stopping.
        def refuse(text: str) -> str:
            return "" if text.strip() in STATES else f"the guest is {text.strip()}"

        return Way(
            reads, lambda value: (script(commands, vm, value), self.answers(host, kind)),
            value, refuse, needs=RESTART,
            seconds=60, stands_for="shut down" if self.power == "paused" else "",
        )  # fmt: skip
