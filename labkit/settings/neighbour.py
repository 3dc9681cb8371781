"""Programs that keep CPUs of a host busy: a neighbour, or what lets none of them halt."""

from dataclasses import field
from typing import ClassVar

from labkit.host import Host
from labkit.machine.cpus import cpus_of, ranges
from labkit.machine.scripts import beside
from labkit.setting import Setting, Way, Words
from labkit.settings._fields import switch, word
from labkit.settings._guest import FIRST, machine_of
from labkit.settings._ways import CPUS, OnHost, script

PROGRAMS = ("taskset", "virsh")

KINDS = ("none", "busy", "memory")
PLACES = ("all CPUs", "all CPUs but the last")
NOBODY = "none"
NAME = "labkit-neighb"
# No command that looks for them, or starts them, has their name on its own command line. A shell
# that is just about to start a program is there twice.
MARK = "labkit-neighbou[r]-[a-z]*"
READS = CPUS + beside(__file__, "neighbour_shown.sh")
ONE_OWNER = "owned=1"
# On KVM, ExclusiveCpu gives a guest as many of the last CPUs as it has itself.
OWNED_BY = 'owned=$(virsh -q vcpupin "$1") || exit; owned=$(echo "$owned" | wc -l); shift'
# `memory` fills 64 MiB again and again: more than the last-level cache of most CPUs holds. A shell
# that computes says its name itself, so that whoever looks for foreign load knows it. Each is on
# its CPU before it is left to itself: whoever looks next need not look again.
START = CPUS + beside(__file__, "neighbour_start.sh")

HALTS, AWAKE = "halts", "stays awake"
AWAKE_NAME = "labkit-awake"
AWAKE_MARK = "labkit-awak[e]-"
# The shell itself reads what it can, and little of that: to start a program takes a guest far
# longer, and `read` asks its kernel for each byte.
EACH_CPU = beside(__file__, "neighbour_awake_cpus.sh")
TOOLS = """\
for p in setsid taskset chrt grep; do
    command -v $p >/dev/null || { echo "no $p here" >&2; exit 1; }; done"""
# What runs on a host of one CPU has no other.
READ_AWAKE = EACH_CPU + beside(__file__, "neighbour_awake_shown.sh")
END = beside(__file__, "neighbour_awake_end.sh")
# One on each CPU, of the policy that runs when nothing else wants to. A guest of User-Mode Linux,
# whose kernel alone has an exitcode in /proc, is awake while its kernel is, and its kernel is not
# while a process of it computes: so `dd` has the kernel clear memory without an end. Elsewhere a
# loop does, which keeps out of the caches. Each is on its CPU before it is left to itself, so that
# a busy machine shows the same as an idle one.
STAY_AWAKE = END + EACH_CPU + beside(__file__, "neighbour_awake_start.sh")


class Neighbour(OnHost):
    """One such program on each of the host's CPUs, or of all but the last, which a guest may own.

    `busy` computes in registers, `memory` fills 64 MiB again and again and so empties the cache
    that CPUs share. A host of one CPU has no "all but the last".
    """

    gaps: ClassVar = {
        "esxi": "a neighbour is another guest (GuestNeighbour): add [hosts.guest2] to lab.toml"
    }

    kind: str = word("kind of neighbour", KINDS, default=NOBODY)
    place: str = word("place of a neighbour", PLACES, default=PLACES[0])

    @property
    def ours(self) -> tuple[str, ...]:
        """The loops, and what goes through memory."""
        return (NAME, "dd")

    @property
    def wanted(self) -> str:
        """The kind, and where."""
        return NOBODY if self.kind == NOBODY else f"{self.kind} on {self.place}"

    def on_linux(self, host: Host) -> Way:
        """Processes in sessions of their own, found again by their name."""
        return self._way(ONE_OWNER)

    def on_kvm(self, host: Host) -> Way:
        """The same; "the last" are as many CPUs as the guest of the lab has, where it has one."""
        if FIRST not in host.guests:
            return self._way(ONE_OWNER)
        return self._way(OWNED_BY, machine_of(host, FIRST))

    def _way(self, count_owners: str, *words: str) -> Way:
        def writes(value: str) -> tuple[Words, ...]:
            return (script(f"{count_owners}\n{START}", *words, MARK, *_parse(value)),)

        return Way(
            script(f"{count_owners}\n{READS}", *words, MARK), writes, _value, self._refused,
            legal="none, or busy or memory on all CPUs or all but the last",
            settle_seconds=2, seconds=0.3,
            probe=script("for p in setsid taskset grep dd; do command -v $p || exit; done"),
            crowds=self.wanted.endswith(PLACES[0]), foretold=self._foretold,
        )  # fmt: skip

    def _foretold(self, text: str) -> str:
        owners, cpus = _host(text)
        on = {PLACES[0]: cpus, PLACES[1]: cpus[:-owners]}[self.place] * (self.kind != NOBODY)
        lines = *sorted(f"{self.kind} {cpu}" for cpu in on), *text.splitlines()[-2:]
        return "".join(f"{line}\n" for line in lines)

    def _refused(self, text: str) -> str:
        owners, cpus = _host(text)
        if len(cpus) > owners or not self.wanted.endswith("last"):
            return ""
        return "this host has one CPU only" if owners == 1 else "its guest has all of its CPUs"


class GuestNeighbour(Neighbour):
    """Such a program on each CPU of another guest, where the host itself runs no programs of ours.

    It is made in place of a Neighbour of the host at the place `of`, and only there.
    """

    of: str = PLACES[0]
    role: str = field(default="guest2", kw_only=True)  # type: ignore[misc]

    gaps: ClassVar = {}

    @property
    def thing(self) -> str:
        """The same programs as those of a Neighbour there."""
        return f"Neighbour of {self.role}"

    @property
    def instead_of(self) -> Setting:
        """The neighbour that the host itself would run."""
        return Neighbour(self.kind, self.of)


def _parse(value: str) -> tuple[str, str]:
    kind, _, place = value.partition(" on ")
    words = {PLACES[0]: "all", PLACES[1]: "rest"}
    return kind, words.get(place) or " ".join(map(str, cpus_of(place) if place else ()))


# How many of its CPUs a guest may own, and all of them.
def _host(text: str) -> tuple[int, tuple[int, ...]]:
    *_, owners, cpus = text.splitlines()
    return int(owners.removeprefix("owned ")), cpus_of(cpus)


# One line for each of them, then the host's CPUs.
def _value(text: str) -> str:
    lines_found, (owners, cpus_all) = text.splitlines()[:-2], _host(text)
    if not lines_found:
        return NOBODY
    pairs = [line.split() for line in lines_found]
    kinds = " and ".join(sorted({kind for kind, _ in pairs}))
    on = tuple(sorted(n for _, cpus in pairs for n in cpus_of(cpus)))
    places = {cpus_all[:-owners]: PLACES[1], cpus_all: PLACES[0]}
    return f"{kinds} on {places.get(on) or ranges(on)}"


class Halting(OnHost):
    """Whether idle CPUs halt, or a program of the lowest priority keeps each of them awake.

    A guest that never halts needs no wake-up: the next study finds it running. It takes all of the
    time that its CPUs can have, so that it belongs on CPUs which it owns.
    """

    gaps: ClassVar = {"esxi": "what halts there is a guest: its role, with a Linux in it, is asked"}

    halts: bool = switch(AWAKE, HALTS, default=True)
    role: str = field(default="guest", kw_only=True)  # type: ignore[misc]

    @property
    def ours(self) -> tuple[str, ...]:
        """The loops, and what has a kernel clear memory."""
        return (AWAKE_NAME, "dd")

    def on_linux(self, host: Host) -> Way:
        """Processes of the policy SCHED_IDLE in sessions of their own, found by their name."""
        return Way(
            script(READ_AWAKE, AWAKE_MARK),
            lambda value: (script(STAY_AWAKE, AWAKE_MARK, *_awake_cpus(value)),), _read_awake,
            legal="halts or not", settle_seconds=5, seconds=0.3, probe=("sh", "-c", TOOLS),
            foretold=self._foretold,
        )  # fmt: skip

    def _foretold(self, text: str) -> str:
        cpus = [line for line in text.splitlines() if line.startswith("cpu:")]
        awake = sorted(line.replace("cpu:", "awake:") for line in cpus) * (not self.halts)
        return "".join(f"{line}\n" for line in (*awake, *cpus))


# The CPUs that something keeps awake then.
def _awake_cpus(value: str) -> list[str]:
    return [] if value == HALTS else ["all"] if value == AWAKE else value.split()


# One line for each program, then one for each CPU.
def _read_awake(text: str) -> str:
    lines = [line.partition(":") for line in text.splitlines()]
    awake = sorted(cpus for word, _, cpus in lines if word == "awake")
    cpus_all = sorted(cpu for word, _, cpu in lines if word == "cpu")
    return (AWAKE if awake == cpus_all else " ".join(awake)) if awake else HALTS
