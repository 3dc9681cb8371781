"""A CPU that the guest does not have to share."""

from dataclasses import field

from labkit.errors import Unknown
from labkit.host import Host
from labkit.machine.cpus import cpus_of, ranges
from labkit.machine.scripts import beside
from labkit.setting import Details, Way, Words
from labkit.settings._esxi import of_vmx
from labkit.settings._guest import EACH_GUEST, FIRST, GUEST, RESERVED_FIRST, OfGuest
from labkit.settings._libvirt import PINNED_TO
from labkit.settings._ways import CPUS, ROOT, script

PROGRAMS = ("virsh",)

EXCLUSIVE, ALL_CPUS = "last CPU, fifo", "all CPUs, other"
NO_PRIORITY = "this host may give no process real-time priority (chrt)"
ONE_CPU = "a box has its last CPU alone to own, and several guests would share it"
CROWD = "a guest of several CPUs would wait for itself on one of the host's"
"""Possible last lines of `guest placement host` (guest.pl)."""

# libvirt: one line of the guest's CPUs, one of its emulator, one of the host's.
PINS = f'{CPUS}{PINNED_TO}pins "$1"; host_cpus'
PIN = CPUS + PINNED_TO + beside(__file__, "exclusive_cpu_pin.sh")


class ExclusiveCpu(OfGuest):
    """All threads of the guest on the host's last CPU, ahead of every ordinary process there.

    In a box whose host has more CPUs than guests, each guest that is exclusive has one of the last.
    What emulates the devices of a guest of QEMU goes ahead of its CPU; it may have only one. Not
    exclusive, they share all of the host's CPUs as ordinary processes do. What the guest starts
    later inherits it. Takes effect at once, without a restart.
    """

    exclusive: bool = True
    guest: str = field(default=FIRST, metadata=GUEST)
    owners: tuple[str, ...] = field(default=(), kw_only=True)
    """All guests that own CPUs, if not all of the lab's do; on KVM each has others of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.owners and self.guest not in self.owners:
            raise Unknown("owner of CPUs", self.guest, self.owners)

    @property
    def wanted(self) -> str:
        """The same words on every host, whatever the numbers of its CPUs."""
        return EXCLUSIVE if self.exclusive else ALL_CPUS

    def on_box(self, host: Host) -> Way:
        """CPUs and policy that all threads of the guest really have, or will start with."""
        return Way(
            (*self.command, "placement", "host"), self._writes, _value, self._refused,
            legal="exclusive or not",
            more=Details(several=EACH_GUEST, apart=self.named),
        )  # fmt: skip

    def _refused(self, text: str) -> str:
        if self.exclusive and len(self.owners) > 1:
            return ONE_CPU
        for reason in (NO_PRIORITY, CROWD):
            if self.exclusive and reason in text:
                return reason
        return "the guest's threads differ in placement" if len(_lines(text)) != 2 else ""

    def _writes(self, value: str) -> tuple[Words, ...]:
        words = {EXCLUSIVE: ("last", "fifo"), ALL_CPUS: ("all", "other")}
        cpus, policy = words.get(value) or value.split()
        return ((*self.command, "set", f"cpus={cpus}", f"policy={policy}"),)

    def on_kvm(self, host: Host) -> Way:
        """Each CPU of the guest on one of the host's last, the next guest's on those before.

        All that emulates their devices is on the others. Nobody else is kept from those CPUs: that
        takes isolcpus, or a cpuset.
        """
        vm, owners = self.machine(host), sorted(self.owners or host.guests)
        of, nth = len(owners), owners.index(self.named)

        def refuse(text: str) -> str:
            guest, _, cpus = text.strip("\n").split("\n")
            has_few = self.exclusive and of * len(guest.split()) >= len(cpus_of(cpus.strip()))
            return (
                "the guests have as many CPUs as their host: no CPU would be left for it" * has_few
            )

        # In numbers it is a list of CPUs for each of the guest's, then the emulator's.
        def writes(value: str) -> tuple[Words, ...]:
            pins = {EXCLUSIVE: ["exclusive"], ALL_CPUS: ["shared"]}.get(value) or value.split()
            return (script(PIN, vm, str(nth), str(of), *pins),)

        return Way(
            script(PINS, vm), writes,
            lambda text: _describe_pins(text, nth, of), refuse, needs=ROOT,
            legal="exclusive or not",
            more=Details(
                seconds=1,
                stands_for="pinned, without real-time priority" if self.exclusive else "",
            ),
        )  # fmt: skip

    def on_esxi(self, host: Host) -> Way:
        """CPUs of its own come with the sensitivity, and take all memory reserved."""
        level = "high" if self.exclusive else None
        way = of_vmx(self.machine(host), self.wanted, {"sched.cpu.latencySensitivity": level})
        after = (RESERVED_FIRST,) if self.exclusive else ()
        return way.plus(Details(stands_for="CPUs that ESXi chooses" if after else "", after=after))


def _describe_pins(text: str, nth: int, of: int) -> str:
    guest, emulator, cpus = (line.strip() for line in text.strip("\n").split("\n"))
    cpus_owned, count = cpus_of(cpus), len(guest.split())
    last = [str(cpu) for cpu in cpus_owned[: len(cpus_owned) - nth * count][-count:]]
    others = cpus_owned[: len(cpus_owned) - of * count]
    if others and guest.split() == last and emulator == ranges(others):
        return EXCLUSIVE
    if set(guest.split()) == {cpus} and emulator == cpus:
        return ALL_CPUS
    return f"{guest} {emulator}"


# A line for each placement that threads of the guest have, then the host's CPUs and the own one.
def _value(text: str) -> str:
    *placements, host = _lines(text)
    cpus, _, cpu = host.partition(" own ")
    names = {f"{cpu} fifo": EXCLUSIVE, f"{cpus} other": ALL_CPUS}
    return "; ".join(names.get(placement, placement) for placement in placements)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line not in (NO_PRIORITY, CROWD)]
