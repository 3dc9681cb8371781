"""The changes of one process on one host, and whether they stay; its journal has all of them."""

import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from labkit.changes.journal import (
    SECONDS,
    Line,
    Look,
    ScriptReply,
    ask,
    beat,
    command,
    refuse,
    show,
)
from labkit.changes.journal_lines import encoded
from labkit.changes.lease import Lease, Owner
from labkit.changes.plan import Step
from labkit.errors import Busy, HostError, ResultsError, SettingRefused, Unreachable
from labkit.host import Host
from labkit.machine.places import out

SILENCE_SECONDS = 900
"""A host that has not heard of its owner for so long puts everything back by itself."""
DEADMAN_SECONDS = 60
"""A change that can cut the way to the host goes back after so long, unless it is confirmed."""
RESTORE_SECONDS = 600.0


@dataclass(frozen=True)
class Drift:
    """A setting that somebody else changed: between `after` and `seen` it became `now`.

    One that `waits` is as it was made, but `now` runs until the host's next start.
    """

    host: str
    thing: str
    now: str
    after: str = ""
    seen: str = ""
    waits: bool = False

    def __str__(self) -> str:
        if self.waits:
            return f"{self.host}: {self.thing} waits for the next start; until then {self.now!r}"
        return f"{self.host}: {self.thing} became {self.now!r} between {self.after} and {self.seen}"

    @property
    def refusal(self) -> SettingRefused:
        """The error for it."""
        waits = "reboot the host with it first; labkit reboots no host"
        fought = "does something else on that host manage this setting?"
        return SettingRefused(str(self), hint=waits if self.waits else fought)


@dataclass
class ChangeSet:
    """The things of one host that are ours, from the first change until all is put back."""

    host: Host
    owner: Owner
    silence: int = SILENCE_SECONDS
    deadman: int = DEADMAN_SECONDS
    number: str = "new"
    token: str = ""
    lease: str = ""
    """The line that says over there that we hold it."""
    held: dict[str, Step] = field(default_factory=dict)
    armed_until: float = 0.0
    heard: float = 0.0
    """Time by our clock at which the host last heard us."""
    whole: tuple[str, ...] = ()
    """Checksum and length of its journal over there, as the last change left it."""

    def change(
        self, holds: Sequence[Step], backs: Sequence[str], makes: Sequence[tuple[Step, str]]
    ) -> list[ScriptReply]:
        """Journal what is new, put some things back and make others, in one go.

        Each of `makes` comes with a text that is known to show what is wanted, or "".
        """
        lines: list[Line] = [
            ("set", self.number, *self.whole),
            *(_hold(step) for step in holds if step.thing not in self.held),
            *(("back", back) for back in backs),
            *(
                _make(step, text, number)
                for number, steps in enumerate(_rounds(makes), 1)
                for step, text in steps
            ),
        ]
        ways = [step.way for step, _ in makes if step.way]
        cuts = any(way.cuts_management for way in ways)
        seconds = SECONDS + sum(10 * way.seconds + way.settle_seconds for way in ways)
        try:
            answers = self._ask("change", lines, seconds)
        except HostError as error:
            raise (self._cut_off(error) if cuts else error) from None
        if stale := [answer for answer in answers if answer.word == "stale"]:
            raise _stale(self.host.name, stale, {step.thing: step.text for step in holds})
        self.held |= {step.thing: step for step in holds}
        if any(answer.word == "armed" for answer in answers):
            self._confirm()
        refuse(self.host, answers)
        return answers

    def drifts(self, steps: Sequence[Step], after: float) -> list[Drift]:
        """Find the settings that are no longer as made; the caller knows the times.

        The host hears that we are there; without any to read, if it has not for `after` seconds.
        """
        ways = {step.thing: (step, way) for step in steps if (way := step.way)}
        looks = [Look(thing, way, probing=False) for thing, (_, way) in ways.items()]
        if not looks:
            # Perhaps a guest that is stopped now: it will be asked when it matters.
            with suppress(HostError):
                if time.monotonic() - self.heard >= after:
                    beat(self.host, self.token)
                    self.heard = time.monotonic()
            return []
        values = show(self.host, looks, self.token)
        self.heard = time.monotonic()
        drifts = []
        for thing, (step, way) in ways.items():
            text = values[thing]
            value = f"unreadable: {text.why.strip()}" if text.why else way.value(text.text)
            runs = way.value(text.live) if way.live else value
            if value != step.setting.wanted:
                drifts.append(Drift(self.host.name, thing, value))
            elif runs != value:
                drifts.append(Drift(self.host.name, thing, runs, waits=True))
        return drifts

    def restore(self) -> list[ScriptReply]:
        """Put back what is ours, latest first, and let go of the host."""
        if self.number == "new":
            return []
        while True:
            try:
                return self._ask("restore", [], RESTORE_SECONDS, self.number)
            except Unreachable:
                if time.monotonic() > self.armed_until:
                    raise
                time.sleep(1)

    def leave(self) -> None:
        """Let go of the host with everything as it is made."""
        refuse(self.host, self._ask("leave", [], SECONDS))

    def anew(self) -> None:
        """Forget what a host that has been started again does not know either."""
        self.number, self.token, self.lease, self.held, self.whole = "new", "", "", {}, ()

    def _ask(
        self, verb: str, lines: Sequence[Line], seconds: float, *words: str
    ) -> list[ScriptReply]:
        flags = "joining" if self.token else "first"
        answers = self._tell(verb, flags, lines, seconds, words)
        if _holder_ended(answers):
            answers = self._tell(verb, "breaking", lines, seconds, words)
        for answer in answers:
            if answer.word == "token":
                self.token, self.lease = (*answer.fields, "")[:2]
            elif answer.word == "set":
                self.number = answer.fields[0]
            elif answer.word == "whole":
                self.whole = answer.fields
        self.heard = time.monotonic()
        self._copy(verb, "answered", [(reply.word, *reply.fields) for reply in answers])
        return answers

    def _tell(
        self, verb: str, flags: str, lines: Sequence[Line], seconds: float,
        words: Sequence[str],
    ) -> list[ScriptReply]:  # fmt: skip
        introduction = self.introduction(flags)
        self._copy(verb, "asked", lines)
        questions = [introduction, *lines]
        return ask(self.host, verb, *words, lines=questions, seconds=seconds, kept=bool(self.token))

    def introduction(self, flags: str) -> tuple[str, ...]:
        """The asker's identity, in the form that the script expects."""
        by = self.owner
        return (
            "as", self.token or by.token, by.name, by.controller, by.pid, by.started, by.boot,
            by.study, str(self.silence), str(self.deadman), flags, self.lease,
        )  # fmt: skip

    # Should the host's disk die, this says what was there before. Should ours be full, nothing is
    # changed; but putting back is better than the copy of it.
    def _copy(self, verb: str, side: str, lines: Sequence[Line]) -> None:
        folder = out() / "journal" / self.host.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / f"{self.owner.token}.log").open("a", encoding="utf-8") as file:
                file.writelines(f"{side} {' '.join(map(encoded, line))}\n" for line in lines)
        except OSError as error:
            if verb == "change":
                raise ResultsError(
                    f"{self.host.name}: no copy of its journal can be kept here: {error}",
                    hint="make room there, or name another folder: LABKIT_OUT=FOLDER",
                ) from None

    def _confirm(self) -> None:
        self.armed_until = time.monotonic() + self.deadman + 10
        self.host.close()
        try:
            answers = ask(self.host, "confirm", self.number, seconds=15)
        except HostError as error:
            raise self._cut_off(error) from None
        if answers[0].word != "confirmed":
            raise SettingRefused(
                f"{self.host.name}: the change was not confirmed over a new connection in time",
                said=answers[0].word,
                hint=f"the host puts it back by itself {self.deadman} s after the change",
            )
        self.armed_until = 0.0

    def _cut_off(self, error: HostError) -> HostError:
        self.armed_until = time.monotonic() + self.deadman + 10
        if isinstance(error, Busy):
            return error
        return Unreachable(
            f"{self.host.name}: no answer since a change that can cut the connection",
            said=error.what,
            hint=f"the host puts it back by itself within {self.deadman} s",
        )


def restore_all(host: Host, owner: Owner, *, breaking: bool, forgetting: bool) -> list[ScriptReply]:
    """Put back all changes that are still open on a host, from any user and after any end."""
    flags = ",".join(["first"] + ["breaking"] * breaking + ["forgetting"] * forgetting)
    changes = ChangeSet(host, owner)
    introduction = changes.introduction(flags)
    answers = ask(host, "restore", "all", lines=[introduction], seconds=RESTORE_SECONDS)
    if _holder_ended(answers):
        return restore_all(host, owner, breaking=True, forgetting=forgetting)
    refuse(host, [answer for answer in answers if answer.word != "damaged"])
    return answers


def _holder_ended(answers: Sequence[ScriptReply]) -> bool:
    """Whether the host is held by one whose lease has ended, so that it may be taken over."""
    holder = next((reply for reply in answers if reply.word == "held"), None)
    return holder is not None and Lease.told(holder.fields).ended


def _stale(host: str, stale: Sequence[ScriptReply], texts: Mapping[str, str]) -> SettingRefused:
    return SettingRefused(
        f"{host}: the plan is stale: the host has changed since; nothing was changed",
        said="\n".join(
            f"{thing} was {texts[thing].strip()!r}, is {text.strip()!r}"
            for thing, text in (answer.fields for answer in stale)
        ),
        hint="make a new plan, then apply it",
    )


def _hold(step: Step) -> tuple[str, ...]:
    assert step.way
    way = step.way
    return (
        "hold", step.thing, step.text, "1" if way.persists else "0",
        _tenths(way.settle_seconds), shlex.join(way.reads), step.undo,
    )  # fmt: skip


# What is made at the same time: of each thing that is apart from others its first change, then its
# second. The rest takes turns as it stands.
def _rounds(makes: Sequence[tuple[Step, str]]) -> list[list[tuple[Step, str]]]:
    rounds: list[list[tuple[Step, str]]] = []
    earliest, last = 0, dict[str, int]()
    for step, text in makes:
        apart = _apart(step)
        at = max(earliest, last.get(apart, -1) + 1) if apart else len(rounds)
        rounds[at:] = rounds[at:] or [[]]
        rounds[at].append((step, text))
        last[apart] = at
        earliest = earliest if apart else len(rounds)
    return rounds


def _apart(step: Step) -> str:
    way = step.way
    alone = not way or way.persists or way.cuts_management or way.after
    return "" if alone or not way else way.apart


# What a text says is known here alone, unless the text itself is the value.
def _make(step: Step, sight: str, number: int) -> tuple[str | None, ...]:
    assert step.way
    way, value = step.way, step.setting.wanted
    if not sight:
        texts = (step.text, way.foretold(step.text))
        sight = next((text for text in texts if text and way.value(text) == value), "")
    return (
        "make", step.thing, value if way.value is str.strip else None, sight or None,
        _tenths(way.settle_seconds), "1" if way.cuts_management else "0",
        command(way.writes(value)) or "true", str(number if _apart(step) else 0),
        shlex.join(way.several),
    )  # fmt: skip


def _tenths(seconds: float) -> str:
    return str(round(seconds * 10))
