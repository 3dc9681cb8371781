"""Putting back what was changed on a host, and saying what became of each thing."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from labkit.changes.change_set import restore_all
from labkit.changes.copies import JournalCopy, lost
from labkit.changes.journal import ScriptReply, hello
from labkit.changes.lease import Owner
from labkit.changes.stages import on_all
from labkit.errors import Unreachable
from labkit.host import Host
from labkit.job.of_runs import RunJob, end_left, of_runs
from labkit.machine.stopping import undisturbed
from labkit.ssh.pins import check_pin


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
    return Restored(backs, damages, tuple(ends), jobs, lost(host, forgetting))


def refuse_left(hosts: Mapping[str, Host], owner: Owner) -> None:
    """Refuse hosts, to be measured and not changed, on which somebody has settings in force."""
    on_all({role: partial(_refuse, host, owner) for role, host in hosts.items()})


# One that cannot be asked is not measured either; a block of this process around ours is meant.
def _refuse(host: Host, owner: Owner) -> None:
    with suppress(Unreachable):
        greeting = hello(host)
        if greeting.lease is None or not greeting.lease.is_of(owner):
            greeting.refuse(host)
