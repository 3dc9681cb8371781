"""Settings of one of the guests that run on a host: of the box, of libvirt, or of ESXi."""

from dataclasses import dataclass
from typing import ClassVar

from labkit.errors import Impossible
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Setting, Words
from labkit.settings._esxi import FIND, quoted
from labkit.settings._ways import matching, script
from labkit.settings._ways import named as plainly_named

PROGRAMS = ("nc", "ping", "ssh-keyscan", "virsh")

FIRST = "guest"
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


@dataclass(frozen=True)
class OfGuest(Setting):
    """A setting of the guest of this name; each guest's is a thing of its own."""

    role: ClassVar[str] = "server"

    def __post_init__(self) -> None:
        super().__post_init__()
        matching("guest", self.named, r"[a-z][a-z0-9-]{0,30}", "guest2")

    @property
    def named(self) -> str:
        """The guest's name, which each setting keeps as its last field."""
        return str(vars(self)["guest"])

    @property
    def thing(self) -> str:
        """The first guest goes without saying."""
        text = "" if self.named == FIRST else f"{self.named} on "
        return f"{type(self).__name__} of {text}{self.role}"

    @property
    def command(self) -> Words:
        """The box's command for the guest that is meant."""
        return ("guest",) if self.named == FIRST else ("guest", f"@{self.named}")

    def machine(self, host: Host) -> str:
        """The virtual machine that the guest is, as libvirt or ESXi on this host calls it."""
        if self.named not in host.guests:
            raise Impossible(
                f"{host.name} has no guest of the box, and the lab file names no virtual machine "
                "(`vm`) for that guest",
                hint=f'add vm = "..." to [hosts.{self.named}] in lab.toml',
            )
        plainly_named("virtual machine", host.guests[self.named].vm)
        return host.guests[self.named].vm

    def answers(self, host: Host, kind: str) -> Words:
        """The command that waits until the guest answers, if it runs."""
        vm, at = self.machine(host), host.guests[self.named]
        text, vm = (ESXI_ANSWERS, quoted(vm)) if kind == "esxi" else (KVM_ANSWERS, vm)
        return script(text, vm, at.address, str(at.port))


def only_with_guest(kind: str, host: Host) -> None:
    """Raise `Impossible` unless the host has the box's `guest` command."""
    if kind == "box":
        return
    raise Impossible(
        f"{host.name} has no guest of the box, and neither libvirt's virsh nor ESXi's tools (it is "
        f"of kind {kind})"
    )
