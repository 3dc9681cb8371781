"""The command that a run measures with: if it lasts, a detached job that outlives a connection.

A run that lost its connection goes on once its host is reached again. What a killed process has
left is ended by the next study there.
"""

import hashlib
import secrets
from dataclasses import dataclass

from labkit.errors import CommandFailed, TimedOut, command_line
from labkit.host import Host
from labkit.job import Job, State
from labkit.workload import Workload

LASTS_SECONDS = 8.0
"""A shorter command is sooner repeated than found again; of a longer one a job is at most 5 %.

A job took 0.18 s longer here, 0.23 s by SSH and 0.38 s at 20 ms (`tests/bench/jobs.py`, two CPUs).
"""
DIGITS, KILL_CODE = 20, 128 + 9


def key_of(results: object) -> str:
    """A new beginning of the keys of a run's jobs; what is of the same results begins alike."""
    digest = hashlib.sha256(repr(results).encode()).hexdigest()[:DIGITS]
    return f"{digest}-{secrets.token_hex(DIGITS // 2)}"


def lasts(workload: Workload) -> bool:
    """Whether one of its commands is worth a job."""
    return workload.longest >= LASTS_SECONDS


def checked(host: Host, *words: str, seconds: float) -> str:
    """Run a command that must end with code 0; return all that it printed.

    Within a run that lasts it is a job.
    """
    if not host.measuring:
        return host.check(*words, seconds=seconds)
    job_end, problem = ended(host, words, seconds), f"{host.name}: `{command_line(words)}`"
    if job_end.late:
        raise TimedOut(
            f"{problem} had not ended at its deadline", said=job_end.err,
            hint="it was asked to end; is the host far busier than usual?",
        )  # fmt: skip
    if not job_end.ok:
        raise CommandFailed(f"{problem} {job_end.how}", said=job_end.err or job_end.out)
    return job_end.out


@dataclass(frozen=True)
class CommandEnd:
    """The end of a run's command, in words too, and what it printed."""

    ok: bool
    how: str
    out: str
    err: str
    killed: bool = False
    """Whether the kernel has done so, or somebody who is as rude."""
    late: bool = False


def ended(host: Host, words: tuple[str, ...], seconds: float) -> CommandEnd:
    """Run a command to its end, within a run that lasts as a job."""
    if not host.measuring:
        result = host.run(*words, seconds=seconds)
        killed = result.signal == "KILL" or result.code == KILL_CODE
        how = f"ended with code {result.code}"
        return CommandEnd(result.ok, how, result.stdout, result.stderr, killed)
    clear(host)
    job = host.start(*words, key=f"{host.measuring}-{secrets.token_hex(4)}", seconds=seconds)
    try:
        status = job.wait()
        out, err = job.output(), b"" if status.ok else job.output(stream="err")
    except KeyboardInterrupt:
        end(job)
        raise
    job.forget()
    complete = status.out.kept == status.out.size
    cut = "" if complete else f": it printed {status.out.size} bytes; {status.out.kept} were kept"
    return CommandEnd(
        status.ok and complete, f"{status}{cut}", out.decode("utf-8", "replace"),
        err.decode("utf-8", "replace"), status.signal == "KILL" or status.code == KILL_CODE,
        status.state is State.TIMED_OUT,
    )  # fmt: skip


def clear(host: Host) -> None:
    """End what an earlier run of the same results has left, whose host was not reached any more."""
    results, _, _ = host.measuring.partition("-")
    for job in host.jobs():
        if job.key.startswith(f"{results}-") and not job.key.startswith(host.measuring):
            end(job)


def end(job: Job) -> None:
    """End a job, and have its host forget it."""
    job.cancel()
    job.forget()
