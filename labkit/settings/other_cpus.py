"""The CPUs of the guests beside one that owns the last CPU."""

from dataclasses import field

from labkit.host import Host
from labkit.machine.cpus import cpus_of, ranges
from labkit.machine.scripts import beside
from labkit.setting import Details, Way, Words
from labkit.settings._guest import FIRST, machine_of
from labkit.settings._libvirt import PINNED_TO
from labkit.settings._values import NAMING, name
from labkit.settings._ways import CPUS, ROOT, OnHost, script

PROGRAMS = ("virsh",)

APART, ALL_CPUS = "all CPUs but the last", "all CPUs"
READS = f'{CPUS}guest "@$1" placement && host_cpus'
WRITE = 'guest "@$1" set "cpus=$2" policy=other'
WRITE_FOUND = CPUS + beside(__file__, "other_cpus_set.sh")

# libvirt: the CPUs of the machine, its emulator's, how many the owners have, and the host's.
PINS = f'{CPUS}{PINNED_TO}pins "$1"; shift; owned_by "$@"; host_cpus'
PIN = CPUS + PINNED_TO + beside(__file__, "other_cpus_pin.sh")


class OtherCpus(OnHost):
    """All threads of `guest` on all of the host's CPUs, or `apart` from guests that own the last.

    It goes with ExclusiveCpu of the owners: a CPU is owned when everybody else stays away.
    """

    guest: str = field(default="guest2", metadata=NAMING | name("guest"))
    apart: bool = True
    owners: tuple[str, ...] = field(default=(FIRST,), kw_only=True)

    @property
    def wanted(self) -> str:
        """The same words on every host, whatever the numbers of its CPUs."""
        return APART if self.apart else ALL_CPUS

    def on_box(self, host: Host) -> Way:
        """The CPUs that all threads of the guest really have, or will start with."""
        return Way(
            script(READS, self.guest), self._writes, _value, self._refused,
            legal="apart or not",
            more=Details(apart=self.guest),
        )  # fmt: skip

    def on_kvm(self, host: Host) -> Way:
        """`vcpupin` and `emulatorpin`; as many of the last CPUs as the owners have are theirs."""
        vm, *owners = (machine_of(host, name) for name in (self.guest, *self.owners))

        def writes(value: str) -> tuple[Words, ...]:
            texts = {APART: ["apart"], ALL_CPUS: ["shared"]}.get(value) or value.split()
            return (script(PIN, vm, " ".join(owners), *texts),)

        return Way(
            script(PINS, vm, *owners), writes, _describe_pins, self._no_rest, needs=ROOT,
            legal="apart or not",
            more=Details(seconds=1, persists=True),
        )  # fmt: skip

    def on_esxi(self, host: Host) -> Way:
        """Nothing to do: ESXi itself keeps everybody off CPUs that a guest owns, and only then."""
        return Way(
            ("echo", "by VMkernel"), lambda _: (), lambda _: self.wanted,
            legal="apart or not",
            more=Details(stands_for="what VMkernel does by itself" if self.apart else ""),
        )  # fmt: skip

    def _no_rest(self, text: str) -> str:
        *_, owners, cpus = text.splitlines()
        has_few = self.apart and int(owners) >= len(cpus_of(cpus))
        return "guests that own CPUs have as many CPUs as this host" if has_few else ""

    # What its ends mean is asked of the host: the numbers of its CPUs are its own.
    def _writes(self, value: str) -> tuple[Words, ...]:
        if value in (APART, ALL_CPUS):
            return (script(WRITE_FOUND, self.guest, "rest" if value == APART else "all"),)
        return (script(WRITE, self.guest, value),)

    def _refused(self, text: str) -> str:
        *placements, cpus = text.splitlines()
        if len(placements) != 1:
            return f"the threads of {self.guest} differ in placement"
        alone = len(cpus_of(cpus)) == 1
        return "this host has one CPU only" if alone and self.apart else ""


def _value(text: str) -> str:
    *placements, online = text.splitlines()
    cpus_all = cpus_of(online)
    places = {cpus_all: ALL_CPUS, cpus_all[:-1]: APART}
    texts = []
    for placement in placements:
        cpus, policy = placement.split()
        on = cpus_of(cpus)
        words = places.get(on) or ranges(on)
        texts.append(words if policy == "other" else f"{words}, {policy}")
    return "; ".join(texts)


def _describe_pins(text: str) -> str:
    guest, emulator, owners, online = text.splitlines()
    cpus_all = cpus_of(online)
    words = {cpus_all[: len(cpus_all) - int(owners)]: APART, cpus_all: ALL_CPUS}
    masks = {cpus_of(mask) for mask in (*guest.split(), emulator)}
    return words.get(min(masks), "") * (len(masks) == 1) or f"{guest} {emulator}"
