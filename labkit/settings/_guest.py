"""Settings of guests: of the box, of libvirt by `virsh`, or of ESXi; and the ways that they go."""

from collections.abc import Callable
from typing import Any, ClassVar

from labkit.errors import Impossible
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way, Words
from labkit.settings._fields import name, named, pattern
from labkit.settings._ways import PICK, RESTART, ROOT, OnHost, by, picked, script
from labkit.settings.esxi import FIND, of_vmx, quoted

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
# What virsh shows of a machine that is defined, running or not.
VIRSH = ("virsh", "-q")
# What the definition says; a machine that we stopped and have not started again is part of it.
DEFINITION = f"""\
{PICK} || exit
[ ! -e "/run/labkit-ran-$vm" ] || echo stopped"""
# A machine that runs is shut down by its own system, never by pulling the plug.
RESTART_SCRIPT = beside(__file__, "_guest_restarted.sh")
# `pins VM` shows a line of the CPUs of a machine and one of its emulator's; `pin VM N CPUS...` sets
# those of N CPUs and of the emulator; `each_cpu` writes a list such as 0-3 as lines.
PINNED_TO = beside(__file__, "_guest_pins.sh")


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


def guest_name() -> Any:
    """The field that says which guest is meant; the first goes without saying."""
    return pattern("guest", r"[a-z][a-z0-9-]{0,30}", "guest2", which=True, default=FIRST)


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


class OfMachine(OnHost):
    """A setting of the virtual machine of that name."""

    vm: str = name("virtual machine", which=True)


def of_lines(*keys: str, after: tuple[str, ...] = ()) -> Callable[[OfMachine, Host], Way]:
    """The way on ESXi of what is the value of such lines of a machine's description."""
    return by(lambda s: of_vmx(s.vm, s.wanted, dict.fromkeys(keys, s.wanted), after=after))


def of_virsh(program: str, shows: Words, writes: Callable[[str], Words]) -> Way:
    """Way to a line of virsh's output about a running machine, in force until it stops."""
    return Way(
        picked(program, *VIRSH, *shows), lambda value: ((*VIRSH, *writes(value)),),
        needs=ROOT, seconds=0.5,
    )  # fmt: skip


def of_option(program: str, command: str, *options: str) -> Callable[[OfMachine, Host], Way]:
    """The way on KVM of what one virsh command shows, and sets by options with the value in {}."""
    return by(lambda s: of_virsh(
        program, (command, s.vm),
        lambda value: (command, s.vm, *(word.format(value) for word in options)),
    ))  # fmt: skip


def of_definition(program: str, shows: Words, vm: str, writes: Callable[[str], list[str]]) -> Way:
    """Way to what a machine has at its next start; one that runs is shut down and started again."""
    return Way(
        script(f"vm=$1; shift; {DEFINITION}", vm, program, *VIRSH, *shows),
        lambda value: (script(RESTART_SCRIPT, vm, *writes(value)),),
        needs=RESTART, persists=True, seconds=60,
    )  # fmt: skip


def numbers(text: str) -> dict[str, int]:
    """Words such as max=65536, by their names."""
    return {key: int(n) for key, _, n in (word.partition("=") for word in text.split())}
