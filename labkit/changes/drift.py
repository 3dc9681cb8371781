"""Drift of settings in force while none of us touches them."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from labkit.changes.change_set import ChangeSet
from labkit.changes.journal import Look
from labkit.changes.plan import Step
from labkit.errors import HostError, SettingRefused


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


def read_again(changes: ChangeSet, steps: Sequence[Step], beat: float) -> list[Drift]:
    """Find one host's settings that are no longer as made; the caller knows the times."""
    ways = {step.thing: (step, way) for step in steps if (way := step.way)}
    looks = [Look(thing, way, probing=False) for thing, (_, way) in ways.items()]
    if not looks:
        # Perhaps a guest that is stopped now: it will be asked when it matters.
        with suppress(HostError):
            changes.beat(beat)
        return []
    values = changes.look(looks)
    drifts = []
    for thing, (step, way) in ways.items():
        text = values[thing]
        value = f"unreadable: {text.why.strip()}" if text.why else way.value(text.text)
        runs = way.value(text.live) if way.more.live else value
        if value != step.setting.wanted:
            drifts.append(Drift(changes.host.name, thing, value))
        elif runs != value:
            drifts.append(Drift(changes.host.name, thing, runs, waits=True))
    return drifts


def refusal(drift: Drift) -> SettingRefused:
    """The error for it."""
    waits = "reboot the host with it first; labkit reboots no host"
    fought = "does something else on that host manage this setting?"
    return SettingRefused(str(drift), hint=waits if drift.waits else fought)
