"""Memory of a guest that its host takes away when it likes, and what keeps it from that."""

from dataclasses import field
from typing import ClassVar

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Details, Way, Words
from labkit.settings._guest import FIRST, GUEST, OfGuest
from labkit.settings._values import switch
from labkit.settings._ways import script

PROGRAMS = ("perl",)

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
            lambda text: on if word in text.splitlines() else off,
            self._refused,
            more=Details(
                settle_seconds=1, seconds=0.3, probe=("perl", "-e", PROGRAM, f"can-{word}"),
                # A change of its size starts the guest again, with other memory.
                after=("GuestMemory", *("MemoryLock",) * (word == "reclaims")), foretold=foretell,
            ),
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
    reclaimed: bool = field(default=True, metadata=switch(LEFT_ALONE, RECLAIMED))
    guest: str = field(default=FIRST, metadata=GUEST)


class MemoryLock(_OfMemory):
    """All of the guest's memory stays in the host's, whatever reclaims: what a reservation means.

    It takes as much of the host's memory as the guest may ever use.
    """

    word, on = "locks", LOCKED
    gaps: ClassVar = {
        "esxi": "what keeps VMkernel from reclaiming is FullReservation",
        "kvm": "<memoryBacking><locked/> in the machine's definition does that, by hand",
    }
    locked: bool = field(default=True, metadata=switch(NOT_LOCKED, LOCKED))
    guest: str = field(default=FIRST, metadata=GUEST)
