"""Settings that a killed kernel left in force, put back by the process that started it."""

import os
from pathlib import Path

from labkit import box
from labkit.changes.journal import hello
from labkit.changes.restore import restore
from labkit.errors import LabkitError
from labkit.job.of_runs import of_runs
from labkit.lab import Lab, opened
from labkit.results import Results

TURNS = 2
"""A guest that its host has paused is reached once the host has put that back."""


def put_back(place: str, results: Path | None) -> list[str]:
    """Put back what is in force on the lab of a run, and say what became of each thing."""
    if results is None:
        return ["nothing had started"]
    file = os.path.expanduser(place)
    if not place.endswith(".toml"):
        file = box.status(str(Results.open(results).asked["lab"]["name"])).lab
    if not file:
        return ["its lab is not up any more"]
    with opened(Path(file)) as lab:
        return put_back_on(lab)


def put_back_on(lab: Lab) -> list[str]:
    """The same on every host of this lab; a host that cannot be reached is named."""
    texts: dict[str, list[str]] = {}
    hosts = dict(lab.hosts)
    for _ in range(TURNS):
        for role, host in list(hosts.items()):
            try:
                texts[role] = restore(host, "a killed run").lines if hello(host).open else []
                left = (job for job in of_runs(host) if job.goes_on and job.left)
                texts[role] += [f"{job} goes on: the next run continues or ends it" for job in left]
                del hosts[role]
            except LabkitError as error:
                texts[role] = [f"{error.what}: {host.verb('restore')}"]
    lines = [f"{role}: {line}" for role, text in texts.items() for line in text]
    return lines or ["nothing to put back"]
