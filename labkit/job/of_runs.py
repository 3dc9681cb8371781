"""Jobs of runs on a host: whose they are, and the end of those that a killed process has left.

A job outlives the process that began it, so that a study can go on with it. Nobody else waits for
it then: it holds the place of the next, and takes time from whatever is measured beside it.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote

from labkit.files.pipe import Carries
from labkit.job.job import Job, listed
from labkit.job.state import JobStatus
from labkit.machine.process import LabkitProcess

SERVES = "serves-"
"""The part of a server's job key behind those of the run and of the changes."""
OF_RUN = re.compile(rf"[0-9a-f]{{20}}-[0-9a-f]{{20}}-({SERVES})?.+")


@dataclass(frozen=True)
class RunJob:
    """A job that a run began, and what its host knows of it."""

    job: Job
    status: JobStatus

    @property
    def owner(self) -> LabkitProcess:
        """The process that follows it."""
        return LabkitProcess.told(self.status.owner)

    @property
    def goes_on(self) -> bool:
        """Whether anything of it lives."""
        return self.status.alive or not self.status.over

    @property
    def left(self) -> bool:
        """Whether the process that followed it ran here, and runs no more."""
        return self.owner.ended

    def __str__(self) -> str:
        kind = "server" if f"-{SERVES}" in self.job.key else "load"
        run = " ".join(map(unquote, self.status.owner[5:])) or "a run"
        began = datetime.fromtimestamp(self.status.since, UTC).isoformat(timespec="seconds")
        return f"the {kind} of {run}, followed by {self.owner} since {began}"

    def end(self) -> None:
        """End it, and have its host forget it."""
        self.job.cancel()
        self.job.forget()


def of_runs(host: Carries) -> list[RunJob]:
    """All jobs of runs on a host, by any user's process."""
    return [
        RunJob(job, status) for job, status in listed(host).items() if OF_RUN.fullmatch(job.key)
    ]


def end_left(host: Carries, keep: str = "", everyones: bool = False) -> list[RunJob]:
    """End what killed processes have left on a host; return those of them that still went on.

    Keys that begin with `keep` stay, for somebody goes on with them. `everyones` ends those too
    whose process lives, or cannot be seen from here.
    """
    jobs = []
    for job in of_runs(host):
        if (job.left or everyones) and not (keep and job.job.key.startswith(keep)):
            job.end()
            jobs += [job] if job.goes_on else []
    return jobs
