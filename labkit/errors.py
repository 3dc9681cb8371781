"""The possible errors, on one page.

Each prints as up to three lines: what happened and where, the tool's last words, what to try.
"""

import difflib
import shlex
import textwrap
from collections.abc import Iterable, Sequence
from typing import ClassVar


def readable(text: str) -> str:
    """`text` with control characters shown as escapes, so that a terminal never obeys a host."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def sendable(text: object) -> bool:
    """Whether it is text that a program can be given: no NUL, no half of a surrogate pair."""
    try:
        return isinstance(text, str) and b"\0" not in text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False


LONGEST_COMMAND, LONGEST_SCRIPT = 240, 48


def command_line(words: Sequence[str]) -> str:
    """A command for an error: on one line, a long one, or a script in it, without the middle."""
    shown = (_shortened(word, LONGEST_SCRIPT) if "\n" in word else word for word in words)
    return _shortened(shlex.join(shown), LONGEST_COMMAND)


def _shortened(text: str, longest: int) -> str:
    line, half = " ".join(text.split()), longest // 2
    return line if len(line) <= longest else f"{line[:half]} ... {line[-half:]}"


LAST_WORDS = 3
WIDE = 80
"""Columns that what is printed keeps to."""
HINT, BLANK = "  hint: ", "\xa0"


def last_words(text: str, lines: int = LAST_WORDS) -> str:
    """The last lines that a tool printed, safe to show."""
    texts = [line.rstrip() for line in readable(text).splitlines() if line.strip()]
    return "\n".join(texts[-lines:])


def nearest(word: str, words: Iterable[str]) -> str:
    """The known word that was most likely meant, however it was capitalized; empty if none is."""
    plain = {word_known.casefold(): word_known for word_known in words}
    near = difflib.get_close_matches(word.casefold(), plain, n=1)
    return plain[near[0]] if near else ""


# A name is not broken at a blank in it.
def _lines(names: Iterable[str]) -> list[str]:
    text = f"known: {', '.join(name.replace(' ', BLANK) for name in names)}"
    lines = textwrap.wrap(text, WIDE - len(HINT), subsequent_indent=" ", break_long_words=False,
                          break_on_hyphens=False)  # fmt: skip
    return [line.replace(BLANK, " ") for line in lines]


class LabkitError(Exception):
    """An error and its place; `said` is the tool's last words, `hint` what to try, a line each."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, said: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what, self.said, self.hint = readable(what), last_words(said), hint

    def __str__(self) -> str:
        said = [f"  {line}" for line in self.said.splitlines()]
        hints = [f"{'' if line.startswith(' ') else HINT:<{len(HINT)}}{line.strip()}"
                 for line in self.hint.splitlines()]  # fmt: skip
        return "\n".join([self.what, *said, *hints])

    # A notebook shows what happened, not the way through our code (IPython looks for this name).
    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class BadInput(LabkitError):
    """The caller's request is wrong."""

    exit_code = 2


class Unknown(BadInput):
    """A name that is not known; the nearest comes first, then the known ones, or what lists them.

    Few of them stand in the sentence.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], listed_by: str = "") -> None:
        self.name, names = name, sorted(known)
        near = nearest(name, names)
        what, listed = f"unknown {kind} {name!r}", f"known: {', '.join(names) or 'none'}"
        hints = [f"did you mean {near!r}?"] if near else []
        if len(f"labkit: {what}; {listed}") <= WIDE:
            what = f"{what}; {listed}"
        elif listed_by:
            hints.append(f"`{listed_by}` lists all {len(names)}")
        else:
            hints += _lines(names)
        super().__init__(what, hint="\n".join(hints))


class Impossible(BadInput):
    """A setting that this kind of host cannot have; the plan says so before anything changes."""


class NotInstalled(BadInput):
    """Packages of an extra are missing here; the hint is the command that installs them."""


def insist_each(values: object, kind: type, what: str, example: str) -> None:
    """Refuse what is no list of such values, as `what` has to be."""
    if not isinstance(values, list | tuple):
        raise BadInput(f"{what} must be a list, not {values!r}"[:200], hint=f"such as [{example}]")
    for value in values:
        if not isinstance(value, kind):
            raise BadInput(
                f"{what}: {value!r} is no {kind.__name__}"[:200], hint=f"such as {example}"
            )


class Obstacle(str):
    """A reason why a lab cannot do something, whose words end with `fix`: how to get what lacks."""

    what: str
    fix: str
    role: str
    """The role of the host that the lab lacks, if that is the reason."""

    def __new__(cls, what: str, fix: str = "", role: str = "") -> "Obstacle":
        """Make the reason of its parts."""
        obstacle = super().__new__(cls, f"{what}, to get it: {fix}" if fix else what)
        obstacle.what, obstacle.fix, obstacle.role = what, fix, role
        return obstacle


def absence(program: str, place: str, fix: str) -> Obstacle:
    """The reason that a place lacks a program."""
    return Obstacle(f"{program} is missing on {place}", fix)


def no_host(role: str) -> Obstacle:
    """The reason that a lab has no host of this role."""
    return Obstacle(f"the lab has no host for it: no {role}", role=role)


class HostError(LabkitError):
    """A host did not do what it was asked."""


class Unreachable(HostError):
    """No connection to the host, or the connection was lost."""


class LoginRefused(Unreachable):
    """The host does not let us in; for a minute it is not asked again."""


class OutcomeUnknown(Unreachable):
    """The connection, or the command's shell, was lost before the command had said how it ended."""


class NothingRun(Unreachable):
    """The connection was lost before the command could begin."""


class HostKeyRefused(HostError):
    """The host's key is not the one we know, so nothing was sent to it."""

    command = ""
    """The command that makes a key known that is not."""


class WrongHost(HostError):
    """The key is right, but the machine is not the one that was trusted: nothing is changed."""


class CommandFailed(HostError):
    """A command ended with a code other than 0."""


class TimedOut(HostError):
    """A command was still running at its deadline and was stopped, or could not begin by then.

    The message says which.
    """


class SudoRefused(HostError):
    """The host does not let this login act as root, or it wants a password that nobody gave."""


class CopyFailed(HostError):
    """A file did not arrive whole, or may not be written or read; what was there is as it was."""


class FleetFailed(HostError):
    """Some of several hosts failed; the message names each and says why."""


class SettingRefused(HostError):
    """A setting did not take, or did not go back."""


class Busy(HostError):
    """Somebody else is changing the host; the message says who, and since when."""


class Unfinished(HostError):
    """An earlier change of the host is not put back; `labkit restore` does it."""


class JournalDamaged(HostError):
    """The host's journal cannot be trusted, so nothing is put back by guessing."""


class BoxError(LabkitError):
    """The lab in a box cannot do this on this machine."""


class StayedBehind(LabkitError):
    """A guest was on its way to another host, did not get there, and runs where it was."""


class EndedAfterMove(BoxError):
    """A guest went on at its destination and ended: to wake its old memory would undo work."""


class ResultsError(LabkitError):
    """Stored results are missing, damaged or too new."""


class ClusterError(LabkitError):
    """A Dask cluster cannot run this; the message says what it lacks."""


class NoScheduler(ClusterError):
    """No scheduler answers at the address."""


class UnlikeVersions(ClusterError):
    """The cluster has other versions of dask, of Python or of labkit than are here."""


class NoWorker(ClusterError):
    """No worker of the cluster offers a lab that points need."""


class KernelDied(LabkitError):
    """The process that ran a notebook's cells has ended, by itself or by a signal."""


class Stopped(LabkitError):
    """The user asked to stop; everything has been put back."""

    exit_code = 130
