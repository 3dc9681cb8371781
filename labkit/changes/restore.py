"""Putting back what was changed on a host, and saying what became of each thing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from labkit.changes.change_set import restore_all
from labkit.changes.journal import ScriptReply, hello, history
from labkit.changes.journal_lines import decoded
from labkit.changes.lease import Owner
from labkit.changes.plan import on_all
from labkit.errors import Unreachable
from labkit.host import Host
from labkit.job.of_runs import RunJob, end_left, of_runs
from labkit.machine.places import out
from labkit.machine.stopping import undisturbed
from labkit.ssh.trust import check_pin

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


def _lost(host: Host, forgetting: bool) -> tuple[JournalCopy, ...]:
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


def went_back(answer: ScriptReply) -> bool:
    """Whether an answer about putting back is no trouble."""
    return answer.word != "back" or answer.fields[2] in ("restored", "already", "handed")


def outcome_words(answer: ScriptReply) -> str:
    """Say in words what became of one thing."""
    _, thing, outcome, value, original, text = answer.fields
    words = {
        "restored": f"is {original.strip()!r} again",
        "already": f"was {original.strip()!r} already",
        "handed": "goes back with a later change set",
        "left": f"was changed by somebody else to {value.strip()!r}; it is left so (it had been "
        f"{original.strip()!r})",
        "lacking": f"cannot be read any more, so {original.strip()!r} is not put back: {value}",
        "failed": f"does not go back to {original.strip()!r}: {text or f'it stays {value!r}'}",
    }
    return f"{thing} {words.get(outcome, outcome)}"


@dataclass(frozen=True)
class Restored:
    """The outcome for everything on a host that had not been put back."""

    answers: tuple[ScriptReply, ...]
    damaged: tuple[str, ...]
    ended: tuple[RunJob, ...] = ()
    """Jobs that a killed run had left on the host, and that are ended now."""
    others: tuple[RunJob, ...] = ()
    """Jobs that go on for a run whose process lives, or cannot be seen from here."""

    lost: tuple[JournalCopy, ...] = ()
    """Changes that the host has no journal of any more."""

    @property
    def ok(self) -> bool:
        """Whether everything is as it was."""
        return not self.damaged and not self.lost and all(map(went_back, self.answers))

    @property
    def lines(self) -> list[str]:
        """A line for each thing."""
        return [
            *map(outcome_words, self.answers),
            *(f"{job} was left by a killed run, and is ended" for job in self.ended),
            *(f"busy with {job}, which is left alone" for job in self.others),
            *map(str, self.lost),
            *(f"{file} is damaged: nothing is put back by guessing; `labkit journal` says where, or"
              " that a later labkit wrote it, and shows the rest" for file in self.damaged),
        ]  # fmt: skip

    def __str__(self) -> str:
        return "\n".join(self.lines or ["nothing to put back"])


def restore(
    host: Host, owner: str = "restore", *, breaking: bool = False, forgetting: bool = False
) -> Restored:
    """Put back whatever is not put back on a host, no matter who changed it and however that ended.

    `breaking` takes the host from somebody who is at work there; `forgetting` closes the journal
    also on what cannot be put back.
    """
    check_pin(host)
    with undisturbed(f"putting back {host.name}", host.verb("restore")):
        answers = restore_all(host, Owner.me(owner), breaking=breaking, forgetting=forgetting)
    ends = end_left(host, everyones=breaking)
    jobs = tuple(job for job in of_runs(host) if job.goes_on)
    backs = tuple(answer for answer in answers if answer.word == "back")
    damages = tuple(answer.fields[0] for answer in answers if answer.word == "damaged")
    return Restored(backs, damages, tuple(ends), jobs, _lost(host, forgetting))


def refuse_left(hosts: Mapping[str, Host], owner: Owner) -> None:
    """Refuse hosts, to be measured and not changed, on which somebody has settings in force."""
    on_all({role: partial(_refuse, host, owner) for role, host in hosts.items()})


# One that cannot be asked is not measured either; a block of this process around ours is meant.
def _refuse(host: Host, owner: Owner) -> None:
    with suppress(Unreachable):
        greeting = hello(host)
        if greeting.lease is None or not greeting.lease.is_of(owner):
            greeting.refuse(host)
