"""The copy of a host's journal that is kept here, for a host that has lost its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from labkit.changes.journal import history
from labkit.changes.journal_lines import decoded
from labkit.host import Host
from labkit.machine.places import out

# A host that was started again since, or a box that was made again, has lost the changes as well.
IDENTITY = "cat /run/labkit-host 2> /dev/null || cat /proc/sys/kernel/random/boot_id"
SETS = 1000


@dataclass
class JournalCopy:
    """All that one process asked of a host, and what that answered."""

    file: Path
    of: str = ""
    """The host as it was since its start."""
    originals: dict[str, str] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    """Numbers of change sets that this process began, and did not see closed."""

    @classmethod
    def read(cls, file: Path) -> JournalCopy:
        """Read a copy; a last line that was cut off counts as far as it goes."""
        copy = cls(file)
        for line in file.read_text("utf-8", "replace").splitlines():
            match line.split(" "):
                case ["answered", "token", _, _, of]:
                    copy.of = of
                case ["asked", "hold", thing, original, *_]:
                    copy.originals.setdefault(decoded(thing), decoded(original))
                case ["answered", "set", number]:
                    copy.open.add(number)
                case ["answered", "closed", number]:
                    copy.open.discard(number)
        return copy

    @property
    def token(self) -> str:
        """The name of its lease."""
        return self.file.stem

    def close(self) -> None:
        """Note that nothing of it is left to put back."""
        with self.file.open("a", encoding="utf-8") as file:
            file.writelines(f"answered closed {number}\n" for number in sorted(self.open))

    def __str__(self) -> str:
        was = ", ".join(f"{name} was {text.strip()!r}" for name, text in self.originals.items())
        return f"the host has no journal of these changes any more; {self.file} has them: {was}"


def lost(host: Host, forgetting: bool = False) -> tuple[JournalCopy, ...]:
    """The copies of change sets that a host knows nothing of, though it has run ever since."""
    files = sorted((out() / "journal" / host.name).glob("*.log"))
    open_copies = [copy for copy in map(JournalCopy.read, files) if copy.open]
    boot_id = host.run("sh", "-c", IDENTITY).stdout.strip() if open_copies else ""
    of_host = [copy for copy in open_copies if copy.of == boot_id]
    if not of_host:
        return ()
    tokens = {frame.fields[1] for chapter in history(host, SETS) for frame in chapter.frames
             if frame.kind == "begin"}  # fmt: skip
    losses = tuple(copy for copy in of_host if copy.token not in tokens)
    for copy in losses if forgetting else ():
        copy.close()
    return losses
