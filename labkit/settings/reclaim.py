"""Memory of a guest that its host takes away when it likes, and what keeps it from that."""

from dataclasses import dataclass

from labkit.errors import Impossible
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Details, Way, Words
from labkit.settings._guest import FIRST, OfGuest
from labkit.settings._ways import script

PROGRAMS = ("perl",)

RECLAIM_WORD, LEAVE_WORD, LOCK_WORD, NO_LOCK_WORD = (
    "reclaimed",
    "left alone",
    "locked",
    "not locked",
)
IN_MEMORY = ("tmpfs", "ramfs", "hugetlbfs")
PROGRAM = beside(__file__, "_guest_memory.pl")
# No command that looks for one of them, or starts it, has its name on its own command line. It says
# that it has begun by its name, once the memory is what it makes of it.
MARK = "labkit-memor[y]-{}-{}$"
READS = beside(__file__, "reclaim_shown.sh")
WRITE = beside(__file__, "reclaim_start.sh")
REASONS = {
    "esxi": "VMkernel reclaims when its memory runs short; what keeps it from that is "
    "FullReservation",
    "kvm": "the host reclaims when its memory runs short, and has to have swap; "
    "<memoryBacking><locked/> in the machine's definition keeps it from that, by hand",
}


@dataclass(frozen=True)
class _OfMemory(OfGuest):
    # What a program on the host, given one word, does with the guest's memory while it runs.
    def _of_box(self, kind: str, host: Host, word: str, values: tuple[str, str]) -> Way:
        if kind != "box":
            problem = f"{host.name}: {type(self).__name__} is for guests of the box"
            raise Impossible(f"{problem}: {REASONS[kind]}" if kind in REASONS else problem)
        off, on = values
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
            legal=f"{on} or {off}",
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


@dataclass(frozen=True)
class Reclaim(_OfMemory):
    """Five times a second the host writes the guest's memory to disk, and takes what it can of it.

    What the guest touches next comes back from the disk, while it waits. Pages that several
    processes use stay. It goes for guests of a box that are backed by a disk.
    """

    reclaimed: bool = True
    guest: str = FIRST

    @property
    def wanted(self) -> str:
        """In words."""
        return RECLAIM_WORD if self.reclaimed else LEAVE_WORD

    def way(self, kind: str, host: Host) -> Way:
        """A process on the host, by process_madvise(2), found again by its name."""
        return self._of_box(kind, host, "reclaims", (LEAVE_WORD, RECLAIM_WORD))


@dataclass(frozen=True)
class MemoryLock(_OfMemory):
    """All of the guest's memory stays in the host's, whatever reclaims: what a reservation means.

    It takes as much of the host's memory as the guest may ever use.
    """

    locked: bool = True
    guest: str = FIRST

    @property
    def wanted(self) -> str:
        """In words."""
        return LOCK_WORD if self.locked else NO_LOCK_WORD

    def way(self, kind: str, host: Host) -> Way:
        """A process on the host that has the same memory, and locks it by mlock(2)."""
        return self._of_box(kind, host, "locks", (NO_LOCK_WORD, LOCK_WORD))
