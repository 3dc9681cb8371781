"""The command that a run measures with: if it lasts, a detached job that outlives this process.

A study that lost its connection, or whose process was killed, goes on with the job that still runs:
the job's key says which run it is of, under which changes, and which command it is.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from labkit.errors import CommandFailed, TimedOut, command_line
from labkit.fleet.fleet import AT_ONCE
from labkit.host import Host
from labkit.job import Job, JobStatus, State
from labkit.job.of_runs import SERVES as SERVES
from labkit.machine.stopping import together
from labkit.setting import Words
from labkit.workload import Workload

LASTS_SECONDS = 8.0
"""A shorter command is sooner repeated than found again; of a longer one a job is at most 5 %.

A job took 0.18 s longer here, 0.23 s by SSH and 0.38 s at 20 ms (`tests/bench/jobs.py`, two CPUs).
"""
DIGITS, KILL_CODE = 20, 128 + 9


def digest(*parts: object) -> str:
    """A part of a key: the same for the same things, and different for others."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:DIGITS]


def key_of(results: object, run: object, state: object) -> str:
    """The beginning of the keys of a run's jobs; `state` is what the hosts were changed to."""
    return f"{results_key(results)}{digest(run)[: DIGITS // 2]}-{digest(state)}"


def results_key(results: object) -> str:
    """The beginning of the keys of all jobs of these results."""
    return digest(results)[: DIGITS // 2]


def results_of(host: Host) -> str:
    """The same, of the results that this host measures for; empty outside of a run that lasts."""
    return host.measuring[: DIGITS // 2]


def lasts(workload: Workload) -> bool:
    """Whether one of its commands is worth a job."""
    return workload.longest >= LASTS_SECONDS


def under_way(workload: Workload, pairs: Mapping[str, Mapping[str, Host]], measuring: str) -> str:
    """The jobs of a run that an earlier process started and that still exist; empty if none do.

    Counters of hosts were not read when that began, so a run has to keep this beside its text.
    """
    if not lasts(workload) or len(pairs) > 1:
        return ""
    hosts = {host.name: host for hosts in pairs.values() for host in hosts.values()}
    return "".join(
        f"{job}: {status}, {status.seconds:.1f} s after its beginning\n"
        for jobs in together(lambda host: asked(host, measuring), hosts.values(), AT_ONCE)
        for job, status in jobs.items()
    )


def apart(host: Host) -> Host:
    """The host, for a job that no other process can go on with; one of this run is ended first."""
    run, _, state = host.measuring.partition("-")
    return replace(host, measuring=f"{run}-{digest(state, time.time_ns())}" if run else "")


def checked(host: Host, *words: str, seconds: float) -> str:
    """Run a command that must end with code 0; return all that it printed.

    Within a run that lasts it is a job, or the one that an earlier process started for this run.
    """
    return timed(host, words, lambda: words, seconds)[0]


def timed(
    host: Host, name: object, words: Callable[[], Words], seconds: float
) -> tuple[str, float]:
    """Run the command called `name` as `checked` does; return its output, and seconds that it took.

    `words` are asked for it if it is not under way: what is made ready there is made ready once.
    """
    if not host.measuring:
        words_asked, start = words(), time.monotonic()
        return host.check(*words_asked, seconds=seconds), time.monotonic() - start
    end_of_job = ended(host, name, words, seconds)
    if end_of_job.late:
        raise TimedOut(
            f"{end_of_job.command} had not ended at its deadline", said=end_of_job.err,
            hint="it was asked to end; is the host far busier than usual?",
        )  # fmt: skip
    if not end_of_job.ok:
        problem = f"{end_of_job.command} {end_of_job.how}"
        raise CommandFailed(problem, said=end_of_job.err or end_of_job.out)
    return end_of_job.out, end_of_job.seconds


@dataclass(frozen=True)
class CommandEnd:
    """The end of a run's command, in words too, and what it printed."""

    command: str
    ok: bool
    how: str
    out: str
    err: str
    seconds: float
    killed: bool = False
    """Whether the kernel has done so, or somebody who is as rude."""
    late: bool = False


def ended(host: Host, name: object, words: Callable[[], Words], seconds: float) -> CommandEnd:
    """Return the end of this run's command of that name, if it lasts of a job begun by any process.

    The host forgets it then.
    """
    if not host.measuring:
        result = host.run(*words(), seconds=seconds)
        killed = result.signal == "KILL" or result.code == KILL_CODE
        return CommandEnd(result.command, result.ok, f"ended with code {result.code}",
                          result.stdout, result.stderr, result.seconds, killed)  # fmt: skip
    key, run = f"{host.measuring}-{digest(name)}", host.measuring.partition("-")[0]
    jobs = {job.key: job for job in host.jobs()}
    # What an earlier try of this run left, under other changes or to a server that is gone.
    for other in [job for at, job in jobs.items() if at.startswith(f"{run}-") and at != key]:
        if not other.key.startswith(f"{host.measuring}-{SERVES}"):
            end(other)
    job = jobs.get(key)
    if job:
        job.go_on(host.owner)
    words_asked = () if job else words()
    job = job or host.start(*words_asked, key=key, seconds=seconds)
    try:
        status = job.wait()
        out, err = job.output(), b"" if status.ok else job.output(stream="err")
    except KeyboardInterrupt:
        end(job)
        raise
    job.forget()
    complete = status.out.kept == status.out.size
    lack = "" if complete else f": it printed {status.out.size} bytes; {status.out.kept} were kept"
    return CommandEnd(
        f"{host.name}: `{command_line(words_asked)}`" if words_asked else str(job),
        status.ok and complete, f"{status}{lack}", out.decode("utf-8", "replace"),
        err.decode("utf-8", "replace"), status.seconds,
        status.signal == "KILL" or status.code == KILL_CODE, status.state is State.TIMED_OUT,
    )  # fmt: skip


def found(host: Host, beginning: str) -> dict[Job, JobStatus]:
    """The jobs of a host whose key begins so, and the known facts about each."""
    return {job: status for job, status in host.jobs().items() if job.key.startswith(beginning)}


def asked(host: Host, run: str) -> dict[Job, JobStatus]:
    """The jobs that a host measures with in this run; none where the run is too short for jobs."""
    of_run = found(host, f"{run}-").items() if run else ()
    return {job: status for job, status in of_run if SERVES not in job.key}


def end(job: Job) -> None:
    """End a job, and have its host forget it."""
    job.cancel()
    job.forget()
