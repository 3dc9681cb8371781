"""The sizes of a study: those that all places of a lab have room for, and what they will take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from labkit.changes.in_force import applied
from labkit.changes.plan import AT_ONCE, Plan
from labkit.lab import Lab
from labkit.machine.stopping import together
from labkit.results import Results
from labkit.running import possible
from labkit.runs.capacity import capacity
from labkit.study import Study


def fitted(study: Study, lab: Lab | None) -> Study:
    """The study with the sizes that its lab has room for; of stored results, as it is."""
    if lab is None:
        return study
    there = [c for c in study.conditions if not c.lacks_host(lab, study.workload)]
    pairs = (pair for c in there for pair in c.pairs(lab, study.workload).values())
    hosts = {host.name: host for pair in pairs for host in pair.values()}
    with all_on(lab, possible.plan(study, lab)):
        found = together(capacity, hosts.values(), AT_ONCE)
    return replace(study, workload=study.workload.fitted(found)) if found else study


def scaled(study: Study) -> str:
    """The sizes of all that runs, in words; empty where none can be chosen."""
    return "; ".join(filter(None, (load.scaled for load in study.loads)))


def demands(study: Study, results: Results, repeats: int | str) -> str:
    """What a number of blocks will take, in a sentence: sizes, memory, disk, time."""
    if isinstance(repeats, str):
        return "; ".join(filter(None, (scaled(study), repeats)))
    able = len(study.conditions) - len(results.asked.get("refused", {}))
    runs, each = able * repeats, 3 + sum(load.seconds for load in study.loads)
    sizes = f"{scaled(study)}; " if scaled(study) else ""
    return f"{sizes}{runs} runs of about {each:.0f} s: {runs * each / 60:.0f} min"


# Guests that the study itself will start cannot be asked what they are while they are off.
@contextmanager
def all_on(lab: Lab, plan: Plan) -> Iterator[None]:
    """Start the guests that the study will start, and put them back at the end."""
    changes = [step.setting for step in plan.steps if step.changes]
    off = [one for one in changes if one.starts and lab.hosts.keys() >= set(one.starts)]
    if not off:
        yield
        return
    try:
        with applied(off, lab.hosts):
            yield
    finally:
        for role in (role for one in off for role in one.starts):
            lab.host(role).close()
