"""The command that a run measures with: if it lasts, a detached job that outlives this process.

A study that lost its connection, or whose process was killed, goes on with the job that still runs:
the job's key says which run it is of, under which changes, and which command it is.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping

from labkit.errors import CommandFailed, TimedOut
from labkit.host import Host
from labkit.job import Job, JobStatus, State
from labkit.workload import Workload

LASTS_SECONDS = 8.0
"""A shorter command is sooner repeated than found again; of a longer one a job is at most 5 %."""
DIGITS = 20


def digest(*parts: object) -> str:
    """A part of a key: the same for the same things, and different for others."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:DIGITS]


def key_of(run: object, state: object) -> str:
    """What the keys of a run's jobs begin with; `state` is what the hosts were changed to."""
    return f"{digest(run)}-{digest(state)}"


def lasts(workload: Workload) -> bool:
    """Whether its command is worth a job."""
    return workload.seconds >= LASTS_SECONDS


def under_way(workload: Workload, pairs: Mapping[str, Mapping[str, Host]], measuring: str) -> str:
    """What an earlier process has started of a run and is there still; empty if there is nothing.

    Counters of hosts were not read when that began, so a run has to keep this beside its text.
    """
    if not lasts(workload) or len(pairs) > 1:
        return ""
    hosts = {host.name: host for hosts in pairs.values() for host in hosts.values()}
    return "".join(
        f"{job}: {status}, {status.seconds:.1f} s after its beginning\n"
        for host in hosts.values()
        for job, status in host.jobs().items()
        if job.key.startswith(f"{measuring}-")
    )


def checked(host: Host, *words: str, seconds: float) -> str:
    """Run a command that must end with code 0; return all that it printed.

    Within a run that lasts it is a job, or the one that an earlier process started for this run.
    """
    if not host.measuring:
        return host.check(*words, seconds=seconds)
    key = f"{host.measuring}-{digest(words)}"
    _end_others(host, key)
    job = host.start(*words, key=key, seconds=seconds)
    try:
        status = job.wait()
        said = job.output(), b"" if status.ok else job.output(stream="err")
    except KeyboardInterrupt:
        job.cancel()
        job.forget()
        raise
    job.forget()
    return _insisted(host, words, status, *(part.decode("utf-8", "replace") for part in said))


# What an earlier try of this run left, under other changes or to a server that is gone.
def _end_others(host: Host, key: str) -> None:
    run, _, _ = key.partition("-")
    for job in host.jobs():
        if job.key.startswith(f"{run}-") and job.key != key:
            _end(job)


def _end(job: Job) -> None:
    job.cancel()
    job.forget()


def _insisted(host: Host, words: tuple[str, ...], status: JobStatus, out: str, err: str) -> str:
    command = f"{host.name}: `{shlex.join(words)}`"
    if status.state is State.TIMED_OUT:
        raise TimedOut(
            f"{command} had not ended at its deadline", said=err,
            hint="it was asked to end; is the host far busier than usual?",
        )  # fmt: skip
    if not status.ok:
        raise CommandFailed(f"{command} {status}", said=err or out)
    if status.out.kept < status.out.size:
        raise CommandFailed(
            f"{command} printed {status.out.size} bytes; {status.out.kept} were kept"
        )
    return out
