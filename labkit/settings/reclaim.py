"""What a guest has for certain, and its memory that the host takes away when it likes."""

from typing import ClassVar

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way, Words
from labkit.settings._fields import switch
from labkit.settings._guest import RESERVATION, OfGuest, guest_name
from labkit.settings._ways import RESTART, script
from labkit.settings.esxi import EDIT_LINES, FIND, SHOW, edited, lines_of, quoted
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic

PROGRAMS = ("esxcli", "perl")

RECLAIMED, LEFT_ALONE, LOCKED, NOT_LOCKED = "reclaimed", "left alone", "locked", "not locked"
IN_MEMORY = ("tmpfs", "ramfs", "hugetlbfs")
PROGRAM = beside(__file__, "_guest_memory.pl")
# No command that looks for one of them, or starts it, has its name on its own command line. It says
# that it has begun by its name, once the memory is what it makes of it.
MARK = "labkit-memor[y]-{}-{}$"
READS = beside(__file__, "reclaim_shown.sh")
WRITE = beside(__file__, "reclaim_start.sh")


# What a program on the host, given one word, does with the guest's memory while it runs.
class _OfMemory(OfGuest):
    word: ClassVar[str]
    on: ClassVar[str]
    """The value while it does."""

    def on_box(self, host: Host) -> Way:
        """A process on the host, found again by its name."""
        word, on = self.word, self.on
        off = NOT_LOCKED if on == LOCKED else LEFT_ALONE
        arguments = (word, self.named, MARK.format(word, self.named))

        def writes(value: str) -> tuple[Words, ...]:
            program = PROGRAM if value == on else ""
            return (script(WRITE, *arguments, "yes" if value == on else "no", program),)

        def foretell(text: str) -> str:
            return text.partition("\n")[0] + "\n" + f"{word}\n" * (self.wanted == on)

        return Way(
            script(READS, *arguments), writes,
            lambda text: on if word in text.splitlines() else off, self._refused,
            settle_seconds=1, seconds=0.3, probe=("perl", "-e", PROGRAM, f"can-{word}"),
            # A change of its size starts the guest again, with other memory.
            after=("GuestMemory", *("MemoryLock",) * (word == "reclaims")), foretold=foretell,
        )  # fmt: skip

    def _refused(self, text: str) -> str:
        system = text.splitlines()[0].removeprefix("on ")
        if system not in IN_MEMORY:
            return ""
        return (
            f"the memory of {self.named} is a file in memory itself ({system}), so it cannot be "
            'moved out; backing = "disk" in its topology allows that'
        )


class Reclaim(_OfMemory):
    """Five times a second the host writes the guest's memory to disk, and takes what it can of it.

    What the guest touches next comes back from the disk, while it waits. Pages that several
    processes use stay. It goes for guests of a box that are backed by a disk.
    """

    word, on = "reclaims", RECLAIMED
    gaps: ClassVar = {
        "esxi": "VMkernel reclaims when its memory runs short; what keeps it from that is "
        "FullReservation",
        "kvm": "the host reclaims when its memory runs short, and has to have swap; "
        "<memoryBacking><locked/> in the machine's definition keeps it from that, by hand",
    }
    reclaimed: bool = switch(LEFT_ALONE, RECLAIMED, default=True)
    guest: str = guest_name()


class MemoryLock(_OfMemory):
    """All of the guest's memory stays in the host's, whatever reclaims: what a reservation means.

    It takes as much of the host's memory as the guest may ever use.
    """

    word, on = "locks", LOCKED
    gaps: ClassVar = {
        "esxi": "what keeps VMkernel from reclaiming is FullReservation",
        "kvm": "<memoryBacking><locked/> in the machine's definition does that, by hand",
    }
    locked: bool = switch(NOT_LOCKED, LOCKED, default=True)
    guest: str = guest_name()


KEYS = ("sched.mem.min", "sched.mem.minSize", "sched.mem.pin", "sched.cpu.min", "sched.cpu.units",
        "sched.cpu.max")  # fmt: skip
SIZES = ("memSize", "numvcpus")
# It is of all that the guest has, so that comes first.
OF_SIZE = ("GuestMemory", "GuestCpuCount")
# What needs it is gone before it goes: ESXi starts no such machine without it.
WITHOUT = (str(ExclusiveCpu(False)), str(GuestNic("bridge")))
FREE = "nothing"
NO_LIMIT = ("", "-1", "unlimited")
# How much that is, the machine's description and the host say: MiB, and MHz for each of its CPUs.
RESERVE_ALL = beside(__file__, "reclaim_reserved.sh")
WHOLE_CPU = "whole"
SHOWN_ALL = f"""\
{SHOW}
{RESERVE_ALL}
echo "{WHOLE_CPU} = $mhz"
"""
RESERVED_ALL = f"""\
{FIND}
{RESERVE_ALL}
{beside(__file__, "reclaim_lines.sh")}
{EDIT_LINES}"""


class FullReservation(OfGuest):
    """All memory of the guest, and all time of its CPUs, kept for it whatever others want."""

    reserved: bool = switch(FREE, RESERVATION, default=True)
    guest: str = guest_name()
    gaps: ClassVar = {
        "box": "a box has no admission control that checks reservations",
        "kvm": "add <memoryBacking><locked/> to the machine's definition by hand",
    }

    def on_esxi(self, host: Host) -> Way:
        """`sched.mem.*` as large as the machine, `sched.cpu.min` as its CPUs times the host's."""
        vm = self.machine(host)

        def writes(value: str) -> tuple[Words, ...]:
            if value == RESERVATION:
                return (script(RESERVED_ALL, quoted(vm)), self.answers(host, "esxi"))
            pairs = (word.partition("=")[::2] for word in value.split(", "))
            lines = dict.fromkeys(KEYS, "") if value == FREE else dict(pairs)
            return (edited(vm, lines), self.answers(host, "esxi"))

        return Way(
            script(SHOWN_ALL, quoted(vm), *KEYS, *SIZES), writes, _value,
            needs=RESTART, legal="reserved or not", persists=True, settle_seconds=1, seconds=60,
            after=OF_SIZE if self.reserved else WITHOUT,
        )  # fmt: skip


def _value(text: str) -> str:
    values = lines_of(text)
    state = {key: values.get(key.lower(), "") for key in KEYS}
    exact = ", ".join(f"{key}={content}" for key, content in state.items())
    if "stopped" in values:
        return f"{exact}, and stopped"
    if not any(state.values()):
        return FREE
    memory, mhz = values.get("memsize"), state["sched.cpu.min"]
    has_memory = [memory, memory, "TRUE"] == list(state.values())[:3]
    whole = int(values.get(WHOLE_CPU) or 0)
    has_cpu = state["sched.cpu.units"] == "mhz" and mhz.isdigit() and int(mhz) >= whole > 0
    if has_memory and has_cpu and state["sched.cpu.max"] in NO_LIMIT:
        return RESERVATION
    return exact
