"""Whether the CPUs of a machine halt when they have nothing to do."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import ClassVar

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Details, Way
from labkit.settings._ways import OnHost, script

HALTS, AWAKE = "halts", "stays awake"
RUN: Mapping[str, Sequence[str]] = {HALTS: (), AWAKE: ("all",)}
"""The CPUs that something keeps awake then."""
NAME = "labkit-awake"
# No command that looks for them, or starts them, has their name on its own command line. A shell
# that is just about to start a program is there twice.
MARK = "labkit-awak[e]-"
# The shell itself reads what it can, and little of that: to start a program takes a guest far
# longer, and `read` asks its kernel for each byte.
CPUS = beside(__file__, "halting_cpus.sh")
TOOLS = """\
for p in setsid taskset chrt grep; do
    command -v $p >/dev/null || { echo "no $p here" >&2; exit 1; }; done"""
# What runs on a host of one CPU has no other.
READS = CPUS + beside(__file__, "halting_shown.sh")
END = beside(__file__, "halting_end.sh")
# One on each CPU, of the policy that runs when nothing else wants to. A guest of User-Mode Linux,
# whose kernel alone has an exitcode in /proc, is awake while its kernel is, and its kernel is not
# while a process of it computes: so `dd` has the kernel clear memory without an end. Elsewhere a
# loop does, which keeps out of the caches. Each is on its CPU before it is left to itself, so that
# a busy machine shows the same as an idle one.
START = END + CPUS + beside(__file__, "halting_start.sh")


class Halting(OnHost):
    """Whether idle CPUs halt, or a program of the lowest priority keeps each of them awake.

    A guest that never halts needs no wake-up: the next study finds it running. It takes all of the
    time that its CPUs can have, so that it belongs on CPUs which it owns.
    """

    gaps: ClassVar = {
        "esxi": "what halts there is a guest: its role, with a Linux in it, is asked",
    }  # fmt: skip

    halts: bool = True
    role: str = field(default="guest", kw_only=True)  # type: ignore[misc]

    @property
    def ours(self) -> tuple[str, ...]:
        """The loops, and what has a kernel clear memory."""
        return (NAME, "dd")

    @property
    def wanted(self) -> str:
        """In words."""
        return HALTS if self.halts else AWAKE

    def on_linux(self, host: Host) -> Way:
        """Processes of the policy SCHED_IDLE in sessions of their own, found by their name."""
        return Way(
            script(READS, MARK),
            lambda value: (script(START, MARK, *RUN.get(value, value.split())),), _value,
            legal="halts or not",
            more=Details(
                settle_seconds=5, seconds=0.3, probe=("sh", "-c", TOOLS), foretold=self._foretold,
            ),
        )  # fmt: skip

    def _foretold(self, text: str) -> str:
        cpus = [line for line in text.splitlines() if line.startswith("cpu:")]
        awake = sorted(line.replace("cpu:", "awake:") for line in cpus) * (not self.halts)
        return "".join(f"{line}\n" for line in (*awake, *cpus))


# One line for each program, then one for each CPU.
def _value(text: str) -> str:
    lines = [line.partition(":") for line in text.splitlines()]
    awake = sorted(cpus for word, _, cpus in lines if word == "awake")
    cpus_all = sorted(cpu for word, _, cpu in lines if word == "cpu")
    return (AWAKE if awake == cpus_all else " ".join(awake)) if awake else HALTS
