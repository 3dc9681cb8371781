"""The journal that each host keeps of what is changed there, and the script that keeps it."""

import hashlib
import re
import secrets
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from labkit.changes.journal_lines import Frame, decoded, encoded, frames
from labkit.changes.lease import Lease
from labkit.errors import (
    Busy,
    CommandFailed,
    HostError,
    JournalDamaged,
    SettingRefused,
    Unfinished,
    readable,
)
from labkit.host import Completed, Host
from labkit.machine.scripts import beside
from labkit.setting import Way, Words

# The script comes after its lines: those by `read`, which takes not a byte more from a pipe, but
# asks for each; the rest by `cat`.
END = "# end of the lines"
RUN = f"""\
keep=$1; shift
lines=; while IFS= read -r line && [ "$line" != "{END}" ]; do lines="$lines$line
"; done; script=$(cat); eval "$script"
"""
# Once we hold a host, it has kept the script by a name that is of this very text. All is then a
# command for a shell that is there already: in a guest without hardware support to send the rest
# takes longer than all else.
UNKEPT = "unkept"
RUN_KEPT = beside(__file__, "run_kept.sh")
SHORT = 10_000
"""Lines longer than that go with the script: a shell takes no command of any length."""
PARTS = ("words", "disk", "commands", "sets", "leases", "restore", "deadman", "looks", "verbs")
"""The files of labkit/changes that make the script, in this order: the last one sets it going."""
BEAT = "beat"
"""The file of the shortest thing to ask for, which goes alone."""
SECONDS = 60.0
Line = Sequence[str | None]
"""A line for the script: its fields, None where there is nothing to say."""


@cache
def script() -> str:
    """The script that runs on the host: plain sh, and the tools that each Linux and BusyBox has."""
    return "".join(map(_part, PARTS))


@cache
def _part(name: str) -> str:
    return files("labkit").joinpath("changes", f"{name}.sh").read_text("utf-8")


@cache
def _kept_as() -> str:
    return f"kept-{hashlib.sha256(script().encode()).hexdigest()[:16]}.sh"


@dataclass(frozen=True)
class ScriptReply:
    """One line of what the script says."""

    word: str
    fields: tuple[str, ...]


@dataclass(frozen=True)
class OpenSet:
    """A change set that is not put back."""

    number: str
    lease: Lease

    def __str__(self) -> str:
        return f"change set #{self.number} by {self.lease}"


@dataclass(frozen=True)
class Greeting:
    """A host's identity, who is changing it, and what is not put back there."""

    user: str
    kinds: tuple[str, ...]
    boot: str
    machine: str
    lives: str
    lease: Lease | None
    open: tuple[OpenSet, ...]

    @property
    def held(self) -> bool:
        """Whether somebody is changing the host now."""
        return bool(self.lease and self.lives == "alive" and not self.lease.ended)

    def trouble(self, name: str) -> str:
        """The reason why nothing can be changed on this host now; otherwise empty."""
        if self.held:
            return f"{name} is held by {self.lease}"
        if not self.open:
            return ""
        since = self.open[0].lease.host_boot not in (self.boot, "?")
        anew = " (the host has rebooted since)" if since else ""
        return f"{name}: unfinished {self.open[0]}{anew}"

    def refuse(self, host: Host) -> None:
        """Refuse a host that somebody is changing, or on which something is not put back."""
        if self.held and self.lease:
            raise _held(host, self.lease)
        if trouble := self.trouble(host.name):
            raise Unfinished(trouble, hint=f"restore it first: {host.verb('restore')}")


@dataclass(frozen=True)
class Look:
    """A thing to look at by its way, or to probe first whether the host can take it."""

    thing: str
    way: Way
    probing: bool = True

    @property
    def line(self) -> Line:
        """The question, with the commands of the way written out."""
        way = self.way
        asked = (way.probe if self.probing else (), way.live, way.reads, way.several)
        return ("show", self.thing, *(shlex.join(words) for words in asked))


@dataclass(frozen=True)
class Sight:
    """A host's answer about one thing: its text, or why it has none."""

    text: str
    why: str
    live: str


def command(words: Iterable[Words]) -> str:
    """Commands as one line for a shell, each only if the one before it ended well."""
    return " && ".join(shlex.join(word) for word in words)


def ask(
    host: Host,
    verb: str,
    *words: str,
    lines: Sequence[Line] = (),
    seconds: float = SECONDS,
    kept: bool = False,
) -> list[ScriptReply]:
    """Have the script do one verb on the host, in one round trip.

    A host that we hold has most likely `kept` the script; else it takes a second one.
    """
    # A host's shell, or a hostile host, may print lines of its own; ours carry a number used once.
    mark = secrets.token_hex(8)
    outcome = _run(host, [verb, mark, *words], lines, seconds, kept)
    # Not splitlines(): a text may hold what Unicode calls a line's end.
    texts = [line for line in outcome.stdout.split("\n") if line.startswith(f"={mark} ")]
    rows = (line.split(" ")[1:] for line in texts)
    answers = [ScriptReply(word, tuple(map(decoded, fields))) for word, *fields in rows]
    if [answer.word for answer in answers] == [UNKEPT]:
        return ask(host, verb, *words, lines=lines, seconds=seconds)
    if not outcome.ok and not answers:
        raise CommandFailed(
            f"{host.name}: `{verb}` of the journal ended with code {outcome.code}",
            said=outcome.stderr,
        )
    return answers


def _run(
    host: Host, words: Sequence[str], lines: Sequence[Line], seconds: float, kept: bool = False
) -> Completed:
    payload = "".join(" ".join(map(encoded, line)) + "\n" for line in lines)
    if kept and len(shlex.quote(payload)) <= SHORT:
        texts = ("sh", "-c", RUN_KEPT, "labkit", _kept_as(), payload, *words)
        return host.run(*texts, seconds=seconds)
    content = f"{payload}{END}\n{script()}".encode("utf-8", "surrogateescape")
    texts = ("sh", "-c", RUN, "labkit", _kept_as(), *words)
    return host.run(*texts, stdin=content, seconds=seconds)


def refuse(host: Host, answers: Sequence[ScriptReply]) -> None:
    """Raise what went wrong, if an answer says that something did."""
    for error in refusals(host, answers):
        raise error
    if open_sets := [answer for answer in answers if answer.word == "open"]:
        sets = [_open_set(script_reply.fields) for script_reply in open_sets]
        raise Unfinished(
            f"{host.name}: unfinished {sets[0]}",
            hint=f"restore it first: {host.verb('restore')}",
        )


def refusals(host: Host, answers: Sequence[ScriptReply]) -> Iterator[HostError]:
    """Yield an error for each answer that says that something went wrong."""
    for answer in answers:
        if error := _error(host, answer.word, answer.fields):
            yield error


def _held(host: Host, lease: Lease) -> Busy:
    hint = f"wait; or, if that has certainly ended: {host.verb('restore')} --break"
    return Busy(f"{host.name} is held by {lease}", hint=hint)


def _error(host: Host, word: str, fields: Sequence[str]) -> HostError | None:
    back, journal = host.verb("restore"), host.verb("journal")
    match word:
        case "failed":
            hint = f"the journal holds the changes: {back}"
            return HostError(f"{host.name}: nothing more was changed", said=fields[0], hint=hint)
        case "held":
            return _held(host, Lease.told(fields))
        case "fenced":
            end = "it was put back meanwhile, or its journal is gone"
            state = f"it is held by {Lease.told(fields[1:])}" if fields[1:] else end
            problem = f"our lease has ended, so nothing more was written; {state}"
            hint = f"{journal} shows the state of the changes"
            return Busy(f"{host.name}: {problem}", hint=hint)
        case "damaged":
            problem = f"the journal {fields[0]} is damaged, so nothing is put back by guessing"
            hint = f"{journal} shows the readable part"
            return JournalDamaged(f"{host.name}: {problem}", hint=hint)
        case "gone":
            hint = ("another process may have put it back, or the host rebooted: "
                    f"{journal}; the controller keeps a copy of the originals: "
                    f"out/journal/{host.name}")  # fmt: skip
            return HostError(f"{host.name}: the change set is closed or gone", hint=hint)
        case "changed":
            thing, value, before = (repr(field.strip()) for field in fields[:3])
            problem = f"{thing[1:-1]} was changed by somebody else from {before} to {value}"
            hint = "does something else on that host manage this setting?"
            return SettingRefused(f"{host.name}: {problem}; it is left so", hint=hint)
        case "refused":
            return SettingRefused(f"{host.name}: {fields[0]} was refused", said=fields[1])
    return None


WORDS = {
    "writing": "about to become", "wrote": "is", "refused": "was refused:",
    "restoring": "about to be put back from", "original": "will go back to",
}  # fmt: skip


def hello(host: Host) -> Greeting:
    """Ask a host what it is; nothing changes there."""
    answers = ask(host, "hello")
    refuse(host, [answer for answer in answers if answer.word != "open"])
    fields_of = {answer.word: answer.fields for answer in answers}
    user, kinds, boot, machine = fields_of["facts"]
    lives, *lease = fields_of.get("lease", ("free",))
    return Greeting(
        user, tuple(kinds.split()), boot, machine, lives, Lease.told(lease) if lease else None,
        tuple(_open_set(answer.fields) for answer in answers if answer.word == "open"),
    )  # fmt: skip


def _open_set(fields: Sequence[str]) -> OpenSet:
    return OpenSet(fields[0], Lease.told(fields[2:]))


def show(host: Host, looks: Sequence[Look], token: str = "") -> dict[str, Sight]:
    """Ask a host to show some things; with a token it also hears that the owner is there."""
    beats = [("beat", token)] if token else []
    lines = [*beats, *(look.line for look in looks)]
    answers = ask(host, "show", lines=lines, kept=bool(token))
    refuse(host, answers)
    return {
        thing: Sight(text, "", live) if state == "is" else Sight("", text or "?", "")
        for thing, state, text, live in (reply.fields for reply in answers if reply.word == "state")
    }


def beat(host: Host, token: str) -> None:
    """Let a host hear that the owner is there; in the shortest way where nothing is odd."""
    if not host.run("sh", "-c", _part(BEAT), "labkit", token).ok:
        show(host, [], token)


@dataclass(frozen=True)
class Chapter:
    """One change set as the host's journal has it; `damage` says where it can be read no more."""

    name: str
    frames: tuple[Frame, ...]
    damage: str


def history(host: Host, sets: int = 20) -> list[Chapter]:
    """The last change sets of a host, oldest first."""
    mark = secrets.token_hex(8)
    text = _run(host, ["journal", mark, str(sets)], [], SECONDS).stdout
    lines: dict[str, list[str]] = {}
    for line in re.findall(f"^={mark} line .*\n?", text, re.MULTILINE):
        name, _, frame = line.removeprefix(f"={mark} line ").partition(" ")
        lines.setdefault(name, []).append(frame)
    return [_chapter(name, chapter, f"{host.name}: {name}") for name, chapter in lines.items()]


def _chapter(name: str, lines: Sequence[str], place: str) -> Chapter:
    read: list[Frame] = []
    try:
        for frame in frames(lines, place):
            read.append(frame)
    except JournalDamaged as error:
        return Chapter(name, tuple(read), str(error))
    return Chapter(name, tuple(read), "")


def given_up(chapter: Chapter) -> tuple[str, ...]:
    """The things of a closed change set that were written and never put back."""
    if not chapter.name.endswith("closed"):
        return ()
    last: dict[str, str] = {}
    for frame in chapter.frames:
        if frame.kind in ("writing", "wrote", "restoring", "restored", "given-up"):
            last[frame.fields[0]] = frame.kind
    return tuple(thing for thing, kind in last.items() if kind != "restored")


def lines_of(chapter: Chapter) -> list[str]:
    """A change set in words, a line for each thing that happened."""
    state = "put back" if chapter.name.endswith("closed") else "NOT put back"
    if losses := given_up(chapter):
        state = f"closed, and NOT put back: {', '.join(losses)} (given up)"
    lines = [f"change set #{chapter.name.split('.')[0]}, {state}"]
    for frame in chapter.frames:
        lines += [f"  {words}" for words in _words(frame.kind, frame.fields)]
    return lines + ([f"  {line}" for line in chapter.damage.splitlines()] if chapter.damage else [])


def _words(kind: str, fields: Sequence[str]) -> list[str]:
    texts = [readable(repr(field.strip())) for field in fields]
    match kind, texts:
        case "begin", _:
            return [f"begun by {Lease.told(fields[1:])}"]
        case "intent", _:
            things = [(fields[i], texts[i + 1]) for i in range(0, len(fields) - 5, 6)]
            return [f"{thing} was {text}" for thing, text in things]
        case ("writing", [_, "'%-'"]):
            return [f"{fields[0]}: about to be written"]
        case (("writing" | "wrote" | "refused" | "restoring" | "original"), [_, text, *_]):
            return [f"{fields[0]}: {WORDS[kind]} {text}"]
        case "given-up", [_, text, last]:
            return [f"{fields[0]}: given up, was {text}; then it was {last}"]
        case "restored", [_, outcome, text]:
            return [f"{fields[0]}: {outcome[1:-1]}, is {text}"]
    return [" ".join([kind, *texts])]
