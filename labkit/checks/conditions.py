"""Conditions of studies on a lab, and the pairs of its hosts that they have talk to each other."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from labkit import studies
from labkit.changes.plan import plan
from labkit.check import NOT_SEEN, OK, WARNING, Finding, Subject, check
from labkit.condition import Condition
from labkit.errors import Obstacle, Unknown
from labkit.lab import Lab
from labkit.running import possible
from labkit.study import Study


@dataclass(frozen=True)
class Outlook:
    """Whether a lab can measure a condition of a study; if not, `reason` says why."""

    study: str
    condition: str
    state: str = OK
    reason: str = ""
    fix: str = ""


@check("conditions of studies that can be measured", after="kind", about="lab")
def conditions(place: Subject) -> Iterator[Finding]:
    """Which conditions of the studies can be measured on this lab, and why not the others?"""
    yield from (
        Finding(WARNING, f"a study cannot be read: {x.what}") for x in studies.readable()[1]
    )
    words = {OK: "can be measured", WARNING: "cannot be measured: ", NOT_SEEN: ""}
    for outlook in outlooks(place):
        text = f"{words[outlook.state]}{outlook.reason}"
        where = f"{outlook.study}: {outlook.condition}"
        yield Finding(outlook.state, text, fix=outlook.fix, where=where)


def outlooks(place: Subject) -> Iterator[Outlook]:
    """Ask a lab about each condition of the studies that can be read."""
    # Hosts that cannot be asked are left out, so that one of them does not hide the others.
    lab = replace(place.lab, hosts={role: place.lab.host(role) for role in place.roles})
    readable = studies.readable()[0]
    settings = dict.fromkeys(s for study in readable for s in possible.settings(study, lab))
    plan_there = plan(settings, lab.hosts)
    for study in (possible.with_free_tools(plain, lab) for plain in readable):
        refusals = possible.refusals(study, lab, plan_there)
        for condition in study.conditions:
            reason = refusals.get(condition.name, "")
            outlook = Outlook(study.name, condition.name)
            yield replace(outlook, **_obstacle(place, study, condition, reason))


# What differs from a condition that can be measured.
def _obstacle(place: Subject, study: Study, condition: Condition, reason: str) -> dict[str, str]:
    roles = dict.fromkeys(_roles(condition, study, place.lab))
    silent = [role for role in roles if role not in place.roles]
    cut = [way for way in place.cut if set(way) <= roles.keys()]
    if reason and silent:
        return {"state": NOT_SEEN, "reason": f"{' and '.join(silent)} cannot be asked"}
    fix = place.labkit("plan", study.name, "--condition", condition.name)
    if cut:
        reason, fix = f"no way from {' to '.join(cut[0])}", "first fix what failed above"
    elif not reason:
        return {}
    elif isinstance(reason, Obstacle) and reason.role:
        text = f"labkit box up {study.topology}" if study.topology else "labkit box up"
        table = f"a table [hosts.ROLE] for it in {place.lab.path}"
        fix = f"{text} --name NAME   # a box that has it" if place.lab.emulated else table
    elif isinstance(reason, Obstacle):
        fix, reason = reason.fix, reason.what
    return {"state": WARNING, "reason": reason, "fix": fix}


# The roles of the lab that a condition is about; those that the lab has not are not among them.
def _roles(condition: Condition, study: Study, lab: Lab) -> list[str]:
    players = [condition.roles.get(role, role) for load in study.loads for role in load.roles]
    roles = [name for names in players for name in ([names] if isinstance(names, str) else names)]
    return [role for role in [*roles, *(s.role for s in condition.settings)] if role in lab.hosts]


def pairs(lab: Lab) -> set[tuple[str, str]]:
    """Which hosts of the lab talk to which in the studies: who asks, and who answers."""
    pairs_found = set()
    for study in studies.readable()[0]:
        for condition in study.conditions:
            with suppress(Unknown):
                for between in condition.pairs(lab, study.workload).values():
                    asks, *answer = [host.name for host in between.values()]
                    pairs_found |= {(asks, answerer) for answerer in answer if answerer != asks}
    return pairs_found
