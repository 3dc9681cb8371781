"""A plan: what settings would change on the hosts of a lab, and in which stages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

from labkit.changes.journal import Greeting, Look, Sight, command, hello, show
from labkit.errors import Impossible, LabkitError, SettingRefused, Unknown
from labkit.host import Host
from labkit.machine.stopping import together
from labkit.setting import Setting, Way, held, way_among

AT_ONCE = 16
"""Hosts that are asked at the same time."""
T = TypeVar("T")
WAITS = "waits for a reboot"
"""The state of what is configured, and counts from the host's next start on."""


@dataclass(frozen=True)
class Step:
    """One setting on one host: what is there, and what would become of it.

    `text` is what the host showed; `undo` the commands that bring that back. A step with a `why` is
    impossible, and has neither. `live` is what really runs, where that can be something else.
    """

    setting: Setting
    host: str
    kind: str = ""
    way: Way | None = field(default=None, repr=False)
    text: str = ""
    undo: str = ""
    why: str = ""
    live: str = ""

    @property
    def thing(self) -> str:
        """The thing that is changed."""
        return self.setting.thing

    @property
    def current(self) -> str:
        """The value that is there now; empty where the setting is impossible."""
        return self.way.value(self.text) if self.way and not self.why else ""

    @property
    def changes(self) -> bool:
        """Whether anything has to be written."""
        return not self.why and self.current != self.setting.wanted

    @property
    def waits(self) -> bool:
        """Whether what is configured is what is wanted, and only the next start will bring it."""
        live = self.way.live if self.way and not self.why and not self.changes else ()
        return bool(live and self.way and self.way.value(self.live) != self.setting.wanted)

    def with_original_of(self, first: Step) -> Step:
        """The same, with what there was before another step about its thing."""
        if self is first or self.why or first.why:
            return self
        return replace(self, text=first.text, undo=first.undo)

    @property
    def barrier(self) -> bool:
        """Whether other hosts wait until this is done, as it may take a guest away from them.

        A guest that is paused answers nobody, and is asked again only when it goes on.
        """
        away = self.setting.resting or (self.way and self.way.cuts_management)
        return bool(self.way and (away or self.way.needs - {"root"}))

    def told(self) -> dict[str, Any]:
        """The step in plain words, for JSON and tables."""
        way = self.way or Way((), lambda _: ())
        state = "possible" if self.changes else WAITS if self.waits else "in force"
        return {
            "host": self.host, "role": self.setting.role, "thing": self.thing, "kind": self.kind,
            "current": self.current, "wanted": self.setting.wanted,
            "state": "impossible" if self.why else state,
            "why": self.why, "stands_for": way.stands_for, "needs": sorted(way.needs),
            "cuts_management": way.cuts_management, "persists": way.persists, "legal": way.legal,
            "seconds": way.seconds + way.settle_seconds if self.changes else 0.0,
            "text": self.text,
        }  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """The intended changes, in order, and the obstacles; `digest` is of the hosts' state."""

    steps: tuple[Step, ...]
    hosts: Mapping[str, Greeting]
    warnings: tuple[str, ...] = ()
    """Notes on who holds a host, and on what is not put back there."""

    @property
    def digest(self) -> str:
        """Differs as soon as one of the things that the plan is about has changed."""
        state = sorted({(step.host, step.thing, step.text, step.why) for step in self.steps})
        return hashlib.sha256(repr(state).encode()).hexdigest()[:16]

    @property
    def seconds(self) -> float:
        """About how long making it takes, without the way to the hosts."""
        return float(sum(step.told()["seconds"] for step in self.steps))

    def told(self) -> dict[str, Any]:
        """The plan for a machine to read."""
        return {
            "digest": self.digest, "seconds": round(self.seconds, 1), "warnings": self.warnings,
            "steps": [step.told() for step in self.steps],
            "hosts": {name: asdict(host) for name, host in self.hosts.items()},
        }  # fmt: skip

    def check_fresh(self, texts: Mapping[tuple[str, str], str], digest: str) -> None:
        """Refuse to go by an older plan when the hosts are no longer as they were then."""
        if self.digest == digest:
            return
        present = {(step.host, step.thing): step.text for step in self.steps}
        differ = [
            f"{host}: {thing}: was {texts.get(key, '')!r}, is {present.get(key, '')!r}"
            for key in sorted({*texts, *present})
            for host, thing in [key]
            if texts.get(key) != present.get(key)
        ]
        raise SettingRefused(
            "the plan is stale: the hosts have changed since it was made; nothing was changed",
            said="\n".join(differ[:3]),
            hint="make a new plan, then apply it",
        )


def plan(
    settings: Iterable[Setting],
    hosts: Mapping[str, Host],
    greetings_known: Mapping[str, Greeting] | None = None,
) -> Plan:
    """Ask the hosts that the settings are about; two round trips each, all at the same time."""
    settings_of: dict[str, list[Setting]] = {}
    order = list(dict.fromkeys(settings))
    for setting in order:
        if setting.role not in hosts:
            raise Unknown("role", setting.role, hosts)
        settings_of.setdefault(setting.role, []).append(setting)

    def ask(role: str) -> tuple[Greeting, list[Step]]:
        return _plan(hosts[role], settings_of[role], (greetings_known or {}).get(role))

    steps_of = dict(zip(settings_of, together(ask, settings_of, AT_ONCE), strict=True))
    steps = _in_place(
        {step.setting: step for _, steps_here in steps_of.values() for step in steps_here}
    )
    greetings = {role: greeting for role, (greeting, _) in steps_of.items()}
    warnings = (
        trouble if greeting.held else f"{trouble}: {hosts[role].verb('restore')}"
        for role, greeting in greetings.items() if (trouble := greeting.trouble(role))
    )  # fmt: skip
    return Plan(tuple(in_order([steps[setting] for setting in order])), greetings, tuple(warnings))


# Where a setting can be made, what would replace it is not.
def _in_place(steps: Mapping[Setting, Step]) -> dict[Setting, Step]:
    def is_made(setting: Setting | None) -> bool:
        return setting is not None and setting in steps and not steps[setting].why

    return {
        setting: Step(setting, step.host, why=f"not needed: {step.host} has {setting.instead_of}")
        if is_made(setting.instead_of) and not step.why else step
        for setting, step in steps.items()
    }  # fmt: skip


def _plan(
    host: Host, settings: Sequence[Setting], greeting_known: Greeting | None
) -> tuple[Greeting, list[Step]]:
    greeting = greeting_known or hello(host)
    ways = [_way(setting, host, greeting) for setting in settings]
    looks = {step.thing: Look(step.thing, step.way) for step in ways if step.way and not step.why}
    values = show(host, list(looks.values())) if looks else {}
    return greeting, [
        step if step.why else _look_at(step, values[step.thing], host) for step in ways
    ]


def _way(setting: Setting, host: Host, greeting: Greeting) -> Step:
    try:
        kind, way = way_among(setting, greeting.kinds, host)
    except LabkitError as no:
        return Step(setting, host.name, why=no.what)
    lacks = "root" in way.needs and greeting.user != "0"
    reason = f"it needs root, and labkit is not root on {host.name}" if lacks else ""
    return Step(setting, host.name, kind, way, why=reason)


def _look_at(step: Step, sight: Sight, host: Host) -> Step:
    assert step.way
    if sight.why:
        return replace(step, why=f"{host.name}: {sight.why.strip()}")
    if "\ufffd" in sight.text:
        return replace(step, why=f"{host.name}: what it shows of {step.thing} is not text")
    way, text = held(step.way, sight.text)
    try:
        if reason := way.refuses(text):
            return replace(step, why=reason)
        undo = command(way.writes(way.value(text))) or "true"
    except (ValueError, LookupError, LabkitError) as error:
        reason = f"{host.name}: {text.strip()!r} could not be put back ({error})"
        return replace(step, why=reason)
    return replace(step, way=way, text=text, undo=undo, live=sight.live)


def in_order(steps: Sequence[Step]) -> list[Step]:
    """The order as asked, but for what is to be made after something else."""
    sorter, order = TopologicalSorter(_waits(steps)), list[Step]()
    try:
        sorter.prepare()
    except CycleError as error:
        names = " after ".join(steps[n].thing for n in reversed(error.args[1]))
        problem = f"these settings depend on each other in a circle: {names}"
        raise Impossible(problem) from None
    free = list(sorter.get_ready())
    heapify(free)
    while free:
        order.append(steps[number := heappop(free)])
        sorter.done(number)
        for follower in sorter.get_ready():
            heappush(free, follower)
    return order


# By place in the order as asked: the places of those that are to be made before it.
def _waits(steps: Sequence[Step]) -> dict[int, set[int]]:
    numbers_of: dict[tuple[str, str], set[int]] = {}
    for n, step in enumerate(steps):
        for name in (step.thing, type(step.setting).__name__, str(step.setting)):
            numbers_of.setdefault((step.host, name), set()).add(n)
    return {
        n: {
            first
            for name in (step.way.after if step.way else ())
            for first in numbers_of.get((step.host, name), ())
            if steps[first].thing != step.thing
        }
        for n, step in enumerate(steps)
    }


@dataclass(frozen=True)
class Op:
    """One thing to do on the host of a role: put it back, or make it."""

    role: str
    step: Step
    back: bool
    there: bool = False
    """Whether it is in force already, and so only looked at."""

    @property
    def barrier(self) -> bool:
        """Whether other hosts wait until this is done."""
        return self.step.barrier and not self.there

    @property
    def crowds(self) -> bool:
        """Whether guests of the host are slow from then on."""
        return bool(self.step.way and self.step.way.crowds) and not (self.back or self.there)


def replaced(step: Step, host: Host) -> str:
    """The role of the guest whose devices a change replaces, or that it starts again; or ""."""
    way, setting = step.way, step.setting
    if not way or way.replaces or "guest restart" not in way.needs:
        return way.replaces if way else ""
    vm = str(getattr(setting, "vm", ""))
    of_vm = next((role for role, guest in host.guests.items() if guest.vm == vm), vm)
    return str(getattr(setting, "named", "")) or of_vm


def stages(ops: Sequence[Op]) -> list[dict[str, list[Op]]]:
    """Group what can be done at the same time: each host in its order, and alone around a barrier.

    What takes time from guests waits until others have put back what they have to.
    """
    crowds = {op.role for op in ops if op.crowds}
    if not crowds or any(op.barrier for op in ops):
        return _stages(ops)
    first = [op for op in ops if op.back and op.role not in crowds]
    return _stages(first) + _stages(op for op in ops if op not in first)


def _stages(ops: Iterable[Op]) -> list[dict[str, list[Op]]]:
    groups: list[dict[str, list[Op]]] = []
    alone = False
    for op in ops:
        has_others = bool(groups) and set(groups[-1]) != {op.role}
        if not groups or (has_others and (alone or op.barrier)):
            groups.append({})
            alone = False
        groups[-1].setdefault(op.role, []).append(op)
        alone = alone or op.barrier
    return groups


def on_all(work: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Do something on each host; all are waited for, then the first failure is raised."""
    if len(work) == 1:
        return {role: work_of() for role, work_of in work.items()}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = {role: pool.submit(work_of) for role, work_of in work.items()}
    return {role: future.result() for role, future in futures.items()}
