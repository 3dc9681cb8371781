"""Settings of one of the guests that run on a host: of the box, of libvirt, or of ESXi."""

from typing import ClassVar

from labkit.errors import Impossible
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way, Words
from labkit.settings._esxi import FIND, quoted
from labkit.settings._values import NAMING, pattern
from labkit.settings._ways import OnHost, named, script

PROGRAMS = ("nc", "ping", "ssh-keyscan", "virsh")

FIRST = "guest"
GUEST = NAMING | pattern("guest", r"[a-z][a-z0-9-]{0,30}", "guest2")
EACH_GUEST = ("guest", "each")
"""Shows all guests of the box at once."""
RESERVATION = "all memory and CPU time"
RESERVED_FIRST = f"FullReservation = {RESERVATION}"
# Who changes the guest next, or measures it, finds it there. One that is off is not waited for. A
# system answers to ping long before its sshd listens. That may be closed to its hypervisor, so that
# it is waited for in vain for some time, and no error; port 0 asks for none.
ANSWERS = beside(__file__, "_guest_answers.sh")
KVM_ANSWERS = f"""\
[ "$(virsh -q domstate "$1")" = running ] || exit 0
shift; {ANSWERS}"""
ESXI_ANSWERS = f"""\
{FIND}
[ "$(state)" = 'Powered on' ] || exit 0
shift; {ANSWERS}"""


def machine_of(host: Host, guest: str) -> str:
    """The virtual machine that a guest is, as libvirt or ESXi on its host calls it."""
    if guest not in host.guests:
        raise Impossible(
            f"{host.name} has no guest of the box, and the lab file names no virtual machine "
            "(`vm`) for that guest",
            hint=f'add vm = "..." to [hosts.{guest}] in lab.toml',
        )
    named("virtual machine", host.guests[guest].vm)
    return host.guests[guest].vm


class OfGuest(OnHost):
    """A setting of the guest whose name is its last field; each guest's is a thing of its own."""

    role: ClassVar[str] = "server"  # type: ignore[misc]

    @property
    def named(self) -> str:
        """The guest's name."""
        return str(vars(self)["guest"])

    @property
    def thing(self) -> str:
        """The first guest goes without saying."""
        text = "" if self.named == FIRST else f"{self.named} on "
        return f"{type(self).__name__} of {text}{type(self).role}"

    def way(self, kind: str, host: Host) -> Way:
        """The way of `on_<kind>`; what has no guest lacks all of these settings alike."""
        if kind in ("docker", "linux"):
            raise Impossible(
                f"{host.name} has no guest of the box, and neither libvirt's virsh nor ESXi's tools"
                f" (it is of kind {kind})"
            )
        return super().way(kind, host)

    @property
    def command(self) -> Words:
        """The box's command for the guest that is meant."""
        return ("guest",) if self.named == FIRST else ("guest", f"@{self.named}")

    def machine(self, host: Host) -> str:
        """The virtual machine that the guest is."""
        return machine_of(host, self.named)

    def answers(self, host: Host, kind: str) -> Words:
        """The command that waits until the guest answers, if it runs."""
        vm, at = self.machine(host), host.guests[self.named]
        text, vm = (ESXI_ANSWERS, quoted(vm)) if kind == "esxi" else (KVM_ANSWERS, vm)
        return script(text, vm, at.address, str(at.port))
