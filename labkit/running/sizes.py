"""The sizes of a study: those that all places of a lab have room for, and what they will take.

How long earlier runs took says how long the next will take. What a lab lacks for the document's
scale is known before the start.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from labkit.box import topology
from labkit.box.box import DEFAULT
from labkit.box.growing import numbered
from labkit.box.machine import Machine
from labkit.changes.in_force import applied
from labkit.changes.plan import AT_ONCE, Plan
from labkit.condition import Condition
from labkit.errors import BadInput, LabkitError
from labkit.lab import Lab
from labkit.machine.stopping import together
from labkit.results import Results, stored
from labkit.running import possible
from labkit.runs.bundle import recorded
from labkit.runs.capacity import Capacity, capacity
from labkit.study import DOCUMENT, FIT, MOST_COUNT, Had, Study
from labkit.workload import Workload

TWIN = "native"
"""The role of a bare machine beside a hypervisor that is no Linux."""
SERVER = "server"
AROUND_SECONDS = 3.0
"""Beside its load: settings are made and gates are looked at."""
FIRMWARE = 0.9
"""The share of its memory that a machine shows at least: its firmware takes some."""
GIB = 1 << 20
"""In KiB."""


@dataclass(frozen=True)
class Demand:
    """Needs of a number of runs; memory and disk are those of each server, in KiB."""

    sizes: str
    runs: int
    seconds: float
    memory: int
    disk: int

    @classmethod
    def of(cls, study: Study, conditions: Collection[Condition], repeats: int) -> Demand:
        """Of the study with the sizes that it has; its runs take as long as those before."""
        seconds_planned, slower = by_plan(study, study.workload), factors(study)
        usual = fmean(slower.values()) if slower else 1.0
        seconds_of = [seconds_planned[c.name] * slower.get(c.name, usual) for c in conditions]
        loads = [c.load(load) for c in conditions for load in study.loads]
        differs = "; ".join(filter(None, (scaled(study), substitutes(study))))
        return cls(
            differs, repeats * len(seconds_of), repeats * sum(seconds_of),
            max((load.memory for load in loads), default=0),
            max((load.disk for load in loads), default=0),
        )  # fmt: skip

    def __str__(self) -> str:
        if not self.runs:
            return "no condition can be measured there"
        return "; ".join(filter(None, (self.sizes, self.room, self.time)))

    @property
    def room(self) -> str:
        """Memory and disk, in words; empty where both are little."""
        kinds = {"memory": self.memory, "disk": self.disk}
        return " and ".join(f"{kib >> 10:,} MiB of {kind}" for kind, kib in kinds.items() if kib)

    @property
    def time(self) -> str:
        """The number of runs and the time that all take, in words."""
        seconds_of_run = self.seconds / self.runs
        total = f"{self.seconds / 60:.0f} min" if self.seconds >= 120 else f"{self.seconds:.0f} s"
        return f"{self.runs} runs of about {seconds_of_run:.0f} s: {total}"

    def told(self) -> dict[str, Any]:
        """The same for a machine to read."""
        return {
            "sizes": self.sizes, "runs": self.runs, "seconds": round(self.seconds, 1),
            "memory_kib": self.memory, "disk_kib": self.disk,
        }  # fmt: skip


def fitted(study: Study, lab: Lab | None) -> Study:
    """The study with sizes that its lab has room for and tools that it has; as it is without one.

    What is not free, and not there, is done with free tools.
    """
    if lab is None:
        return study
    study = grown(study, lab)
    with all_on(lab, possible.plan(study, lab)):
        study = possible.with_free_tools(study, lab)
        return _fit(study, found(study, lab))


def grown(study: Study, lab: Lab | None) -> Study:
    """The study with as many guests as the lab has, at most as many as its document.

    Beside a server that is no Linux, a bare machine of the lab plays what runs in no guest.
    """
    if lab is None:
        return study
    if TWIN in lab.hosts:
        study = with_twin(study, lab.host("server").guests)
    larger = {}
    for name, role in study.grows.items() if study.scale == FIT else ():
        number = sum(player in lab.hosts for player in numbered(role, MOST_COUNT))
        if number > int(study.sizes[name]):
            larger[name] = min(number, int(study.document.sizes[name]))
    return study.sized(**larger)


def found(study: Study, lab: Lab) -> dict[str, Capacity]:
    """The capacity of each host of the lab that a condition of the study has its load on."""
    able = [c for c in study.conditions if not c.lacks_host(lab, study.workload)]
    return _found_for(able, study, lab)


def _found_for(conditions: Iterable[Condition], study: Study, lab: Lab) -> dict[str, Capacity]:
    pairs = (pair for c in conditions for pair in c.pairs(lab, study.workload).values())
    hosts = {host.name: host for pair in pairs for host in pair.values()}
    return dict(zip(hosts, together(capacity, hosts.values(), AT_ONCE), strict=True))


def _fit(study: Study, capacities: Mapping[str, Capacity]) -> Study:
    places = list(capacities.values())
    return replace(study, workload=study.workload.fitted(places)) if places else study


def foretold(
    study: Study, lab: Lab, plan: Plan, repeats: int, condition: str | None = None
) -> tuple[Demand, dict[str, Capacity], dict[str, list[str]]]:
    """The study's demand there, the capacity of its hosts, and why conditions are left out.

    Nothing is touched. What a guest that is off or paused has is not known.
    """
    study = possible.with_free_tools(grown(study, lab), lab)
    conditions = [study.condition(condition)] if condition else [*study.conditions]
    obstacles = {
        c.name: [reason for load in study.loads for reason in c.obstacles(lab, load, plan)]
        for c in conditions
    }  # fmt: skip
    off = {step.setting for step in plan.steps if step.changes and step.setting.starts}
    awake = [c for c in conditions if not obstacles[c.name] and not off & {*c.asked(lab)}]
    lacks = possible.refusals(replace(study, conditions=tuple(awake), claims=()), lab, plan)
    refusals = {
        c.name: [*dict.fromkeys(obstacles[c.name])] or [lacks[c.name]]
        for c in conditions if obstacles[c.name] or c.name in lacks
    }  # fmt: skip
    capacities = _found_for(awake, study, lab)
    able = [c for c in conditions if c.name not in refusals]
    return Demand.of(_fit(study, capacities), able, repeats), capacities, refusals


def substitutes(study: Study) -> str:
    """The tools in place of the document's, in words; empty where there are none."""
    return "; ".join(dict.fromkeys(filter(None, (load.substitutes for load in study.loads))))


def scaled(study: Study) -> str:
    """The sizes of all that runs, in words; empty where none can be chosen."""
    return "; ".join(filter(None, (load.scaled for load in study.loads)))


def demands(study: Study, results: Results, repeats: int | str) -> str:
    """The demand of a number of blocks, in a sentence: sizes, memory, disk, time."""
    if isinstance(repeats, str):
        return "; ".join(filter(None, (scaled(study), repeats)))
    refusals = results.asked.get("refused", {})
    able = [condition for condition in study.conditions if condition.name not in refusals]
    return str(Demand.of(study, able, repeats))


# Guests that the study itself will start cannot be asked what they are while they are off.
@contextmanager
def all_on(lab: Lab, plan: Plan) -> Iterator[None]:
    """Start the guests that the study will start, and put them back at the end."""
    changes = [step.setting for step in plan.steps if step.changes]
    off = [change for change in changes if change.starts and lab.hosts.keys() >= set(change.starts)]
    if not off:
        yield
        return
    try:
        with applied(off, lab.hosts):
            yield
    finally:
        for role in (role for setting in off for role in setting.starts):
            lab.host(role).close()


def by_plan(study: Study, workload: Workload) -> dict[str, float]:
    """Seconds of a run of each condition, by what its loads and events say of themselves."""
    seconds = dict.fromkeys((c.name for c in study.conditions), AROUND_SECONDS)
    for c in study.conditions:
        seconds[c.name] += sum(c.load(load).seconds for load in (workload, *study.also))
        seconds[c.name] += sum(e.after + e.seconds + e.settle for e in c.events)
    return seconds


def factors(study: Study) -> dict[str, float]:
    """By condition: how many times the plan's seconds its runs took, in the newest that tell.

    Those with the knobs of the study come first: a quick run is mostly what no knob changes.
    """
    for results, load in sorted(_before(study), key=lambda pair: pair[1] != study.workload):
        with suppress(LabkitError, TypeError, ValueError):
            plan, seconds = by_plan(study, load), defaultdict(list)
            for run in results.finished():
                seconds[run.condition].append(run.seconds)
            took = {name: fmean(seconds[name]) / plan[name] for name in plan if name in seconds}
            if took:
                return took
    return {}


# Their knobs may be others than those of the study now, and the plan's seconds follow them. A knob
# that is 0 now is fitted to the lab, as it was then.
def _before(study: Study) -> Iterator[tuple[Results, Workload]]:
    knobs_now = vars(study.workload)
    for path in [*reversed(stored(study.name)), None]:
        with suppress(LabkitError, TypeError, ValueError):
            results = Results.open(path or recorded(study.name))
            knobs_then = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in results.asked.get("workload", {}).items()
                if name in knobs_now and knobs_now[name] != 0
            }
            yield results, replace(study.workload, **knobs_then)


def with_twin(study: Study, guests: Collection[str]) -> Study:
    """The study with the twin in the server's place, in each condition that has no guest.

    A study without guests asks about the hypervisor itself, so a twin would answer for another.
    """
    conditions = tuple(c if _is_in(c, guests) else _move(c) for c in study.conditions)
    if not any(_is_in(condition, guests) for condition in study.conditions):
        return study
    return replace(study, conditions=conditions)


def _is_in(condition: Condition, guests: Collection[str]) -> bool:
    if condition.in_guest is not None:
        return condition.in_guest
    players = {player for role in condition.roles for player in condition.players(role)}
    return bool(players & {*guests})


def _move(condition: Condition) -> Condition:
    players_of = {role: condition.players(role) for role in (SERVER, *condition.roles)}
    roles = {
        role: tuple(TWIN if player == SERVER else player for player in players)
        for role, players in players_of.items()
    }
    there: dict[str, Any] = {"role": TWIN}
    settings, optional = (
        tuple(replace(s, **there) if vars(s).get("role") == SERVER else s for s in settings_of)
        for settings_of in (condition.settings, condition.optional)
    )
    return replace(condition, roles=roles, settings=settings, optional=optional)


def takes(study: Study) -> list[str]:
    """Sizes and machines of the document, and the line between them: a text each."""
    sizes = ", ".join(f"{name} = {value}" for name, value in study.document.sizes.items())
    machines = []
    for role, had in study.document.machines.items():
        parts = {"CPUs": had.cpus, "GiB": had.gib, "NUMA nodes": had.nodes}
        texts = [f"{value:g} {unit}" for unit, value in parts.items() if value]
        machines.append(f"{role}: {', '.join(texts)}")
    line = [f"line: {study.document.line:g} Gbit/s"] if study.document.line else []
    return [*([sizes] if sizes else []), *machines, *line]


def lacks_of_box(study: Study, machine: Machine) -> list[str]:
    """Lacks of a box on this machine, against the document's scale: a text each."""
    plan = topology.find(study.topology or DEFAULT, machine)
    machines = {guest.role: Had(int(guest.vcpus), guest.mebibytes / 1024) for guest in plan.guests}
    for host in plan.hosts:
        cpus = {*host.among(machine.cpus, machine.by_node)}
        nodes = sum(bool(cpus & {*node}) for node in machine.by_node)
        machines[host.role] = Had(len(cpus), machine.free / 1024, nodes)
    bits, line = plan.link("client").bits, study.document.line
    slow = [f"the line: {bits / 1e9:g} of {line:g} Gbit/s"] if 0 < bits < line * 1e9 else []
    return [*_absent(study, {*plan.roles}), *_smaller(study, machines), *slow]


def lacks_of_hosts(study: Study, capacities: Mapping[str, Capacity]) -> list[str]:
    """Lacks of hosts that were asked, against the document's scale: a text each."""
    hosts = capacities.items()
    machines = {name: Had(host.cpus, host.memory / GIB, host.nodes) for name, host in hosts}
    return list(_smaller(study, machines))


def check_box(study: Study) -> None:
    """Refuse the document's scale where a box here cannot carry it, before the box is started."""
    if study.scale == DOCUMENT:
        refuse(study, "a box on this machine", lacks_of_box(study, Machine.read()))


def refuse(study: Study, place: str, lacks: list[str]) -> None:
    """Refuse the document's scale for what is lacking, if anything is."""
    if lacks:
        command = f"labkit plan {study.name} -p scale=document"
        hint = f"scale = {FIT}, or single sizes: `{command}` lists all of them"
        problem = f"{study.name}: {place} cannot carry the document's scale"
        raise BadInput(problem, said="; ".join(lacks), hint=hint)


# All that the conditions play a role with; those that follow each other stand as a span.
def _absent(study: Study, roles: set[str]) -> Iterator[str]:
    players = dict.fromkeys(
        player for c in study.conditions for load in study.loads for role in load.roles
        for player in c.players(role)
    )  # fmt: skip
    families: dict[str, list[str]] = {}
    for player in sorted(players.keys() - roles, key=_number):
        families.setdefault(player.rstrip("0123456789"), []).append(player)
    for names in families.values():
        yield f"no {' to '.join(dict.fromkeys((names[0], names[-1])))}"


def _number(role: str) -> int:
    return int(re.sub(r"\D", "", role) or 1)


def _smaller(study: Study, machines: Mapping[str, Had]) -> Iterator[str]:
    for role, had in study.document.machines.items():
        like = {name: host for name, host in machines.items() if name.rstrip("0123456789") == role}
        lacks: dict[str, list[str]] = {}
        for name, host in sorted(like.items(), key=lambda item: _number(item[0])):
            lacks.setdefault(_lack(had, host), []).append(name)
        for lack, names in lacks.items():
            yield from [f"{', '.join(names)}: {lack}"] if lack else []


def _lack(had: Had, host: Had) -> str:
    parts = (("CPUs", host.cpus, had.cpus, 1), ("GiB", host.gib, had.gib, FIRMWARE),
             ("NUMA nodes", host.nodes, had.nodes, 1))  # fmt: skip
    return ", ".join(f"{have:.3g} of {need:g} {unit}" for unit, have, need, share in parts
                     if have < need * share)  # fmt: skip
