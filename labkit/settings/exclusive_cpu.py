"""CPUs that a guest does not have to share, and those of the guests beside it."""

from dataclasses import replace

from labkit.errors import Unknown
from labkit.host import Host
from labkit.machine.cpus import cpus_of, ranges
from labkit.machine.scripts import beside
from labkit.setting import Way, Words
from labkit.settings._fields import aside, name, switch
from labkit.settings._guest import (
    EACH_GUEST,
    FIRST,
    PINNED_TO,
    RESERVED_FIRST,
    OfGuest,
    guest_name,
    machine_of,
)
from labkit.settings._ways import CPUS, ROOT, OnHost, script
from labkit.settings.esxi import of_vmx

PROGRAMS = ("virsh",)

EXCLUSIVE, ALL_CPUS = "last CPU, fifo", "all CPUs, other"
NO_PRIORITY = "this host may give no process real-time priority (chrt)"
ONE_CPU = "a box has its last CPU alone to own, and several guests would share it"
NO_CPU_LEFT = "the guests have as many CPUs as their host: no CPU would be left for it"
CROWD = "a guest of several CPUs would wait for itself on one of the host's"
"""Possible last lines of `guest placement host` (guest.pl)."""

# libvirt: one line of the guest's CPUs, one of its emulator, one of the host's.
PINS = f'{CPUS}{PINNED_TO}pins "$1"; host_cpus'
PIN = CPUS + PINNED_TO + beside(__file__, "exclusive_cpu_pin.sh")

# Of the guests beside it.
APART, EVERYWHERE = "all CPUs but the last", "all CPUs"
READS = f'{CPUS}guest "@$1" placement && host_cpus'
WRITE = 'guest "@$1" set "cpus=$2" policy=other'
WRITE_FOUND = CPUS + beside(__file__, "exclusive_cpu_set.sh")

# libvirt: the CPUs of the machine, its emulator's, how many the owners have, and the host's.
PINS_OF_OTHERS = f'{CPUS}{PINNED_TO}pins "$1"; shift; owned_by "$@"; host_cpus'
PIN_OTHERS = CPUS + PINNED_TO + beside(__file__, "exclusive_cpu_pin_others.sh")


class ExclusiveCpu(OfGuest):
    """All threads of the guest on the host's last CPU, ahead of every ordinary process there.

    In a box whose host has more CPUs than guests, each guest that is exclusive has one of the last.
    What emulates the devices of a guest of QEMU goes ahead of its CPU; it may have only one. Not
    exclusive, they share all of the host's CPUs as ordinary processes do. What the guest starts
    later inherits it. Takes effect at once, without a restart.
    """

    exclusive: bool = switch(ALL_CPUS, EXCLUSIVE, default=True)
    guest: str = guest_name()
    owners: tuple[str, ...] = aside(default=(), kw_only=True)
    """All guests that own CPUs, if not all of the lab's do; on KVM each has others of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.owners and self.guest not in self.owners:
            raise Unknown("owner of CPUs", self.guest, self.owners)

    def on_box(self, host: Host) -> Way:
        """CPUs and policy that all threads of the guest really have, or will start with."""
        return Way(
            (*self.command, "placement", "host"), self._writes, _value, self._refused,
            legal="exclusive or not", several=EACH_GUEST, apart=self.guest,
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
        of, nth = len(owners), owners.index(self.guest)

        def refuse(text: str) -> str:
            guest, _, cpus = text.strip("\n").split("\n")
            has_few = self.exclusive and of * len(guest.split()) >= len(cpus_of(cpus.strip()))
            return NO_CPU_LEFT if has_few else ""

        # In numbers it is a list of CPUs for each of the guest's, then the emulator's.
        def writes(value: str) -> tuple[Words, ...]:
            pins = {EXCLUSIVE: ["exclusive"], ALL_CPUS: ["shared"]}.get(value) or value.split()
            return (script(PIN, vm, str(nth), str(of), *pins),)

        return Way(
            script(PINS, vm), writes, lambda text: _describe_pins(text, nth, of), refuse,
            needs=ROOT, legal="exclusive or not", seconds=1,
            stands_for="pinned, without real-time priority" if self.exclusive else "",
        )  # fmt: skip

    def on_esxi(self, host: Host) -> Way:
        """CPUs of its own come with the sensitivity, and take all memory reserved."""
        level, after = ("high", (RESERVED_FIRST,)) if self.exclusive else (None, ())
        lines = {"sched.cpu.latencySensitivity": level}
        way = of_vmx(self.machine(host), self.wanted, lines, after=after)
        return replace(way, stands_for="CPUs that ESXi chooses" if after else "")


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


class OtherCpus(OnHost):
    """All threads of `guest` on all of the host's CPUs, or `apart` from guests that own the last.

    It goes with ExclusiveCpu of the owners: a CPU is owned when everybody else stays away.
    """

    guest: str = name("guest", default="guest2", which=True)
    apart: bool = switch(EVERYWHERE, APART, default=True)
    owners: tuple[str, ...] = aside(default=(FIRST,), kw_only=True)

    def on_box(self, host: Host) -> Way:
        """The CPUs that all threads of the guest really have, or will start with."""
        return Way(
            script(READS, self.guest), self._writes, _placements, self._refused,
            legal="apart or not", apart=self.guest,
        )  # fmt: skip

    def on_kvm(self, host: Host) -> Way:
        """`vcpupin` and `emulatorpin`; as many of the last CPUs as the owners have are theirs."""
        vm, *owners = (machine_of(host, name) for name in (self.guest, *self.owners))

        def writes(value: str) -> tuple[Words, ...]:
            texts = {APART: ["apart"], EVERYWHERE: ["shared"]}.get(value) or value.split()
            return (script(PIN_OTHERS, vm, " ".join(owners), *texts),)

        return Way(
            script(PINS_OF_OTHERS, vm, *owners), writes, _describe_pins_of_others, self._no_rest,
            needs=ROOT, legal="apart or not", seconds=1, persists=True,
        )  # fmt: skip

    def on_esxi(self, host: Host) -> Way:
        """Nothing to do: ESXi itself keeps everybody off CPUs that a guest owns, and only then."""
        return Way(
            ("echo", "by VMkernel"), lambda _: (), lambda _: self.wanted, legal="apart or not",
            stands_for="what VMkernel does by itself" if self.apart else "",
        )  # fmt: skip

    def _no_rest(self, text: str) -> str:
        *_, owners, cpus = text.splitlines()
        has_few = self.apart and int(owners) >= len(cpus_of(cpus))
        return "guests that own CPUs have as many CPUs as this host" if has_few else ""

    # What its ends mean is asked of the host: the numbers of its CPUs are its own.
    def _writes(self, value: str) -> tuple[Words, ...]:
        if value in (APART, EVERYWHERE):
            return (script(WRITE_FOUND, self.guest, "rest" if value == APART else "all"),)
        return (script(WRITE, self.guest, value),)

    def _refused(self, text: str) -> str:
        *placements, cpus = text.splitlines()
        if len(placements) != 1:
            return f"the threads of {self.guest} differ in placement"
        alone = len(cpus_of(cpus)) == 1
        return "this host has one CPU only" if alone and self.apart else ""


def _placements(text: str) -> str:
    *placements, online = text.splitlines()
    cpus_all = cpus_of(online)
    places = {cpus_all: EVERYWHERE, cpus_all[:-1]: APART}
    texts = []
    for placement in placements:
        cpus, policy = placement.split()
        on = cpus_of(cpus)
        words = places.get(on) or ranges(on)
        texts.append(words if policy == "other" else f"{words}, {policy}")
    return "; ".join(texts)


def _describe_pins_of_others(text: str) -> str:
    guest, emulator, owners, online = text.splitlines()
    cpus_all = cpus_of(online)
    words = {cpus_all[: len(cpus_all) - int(owners)]: APART, cpus_all: EVERYWHERE}
    masks = {cpus_of(mask) for mask in (*guest.split(), emulator)}
    return words.get(min(masks), "") * (len(masks) == 1) or f"{guest} {emulator}"
