"""What a detached job costs over a plain command: on this machine, by SSH, and at 20 ms.

Both sleep for the same time in turn, as a run's command does: a job is looked for, started, waited
for, read and forgotten. A run that takes LASTS_SECONDS or more is a job, at 5 % at most.
"""

from contextlib import contextmanager, nullcontext
from dataclasses import replace

from _figures import at_most, beside, median, seconds, write
from _hosts import addresses
from sshd import reached

from labkit.host import Host
from labkit.transports.local import Local
from labkit.workloads._lasting import LASTS_SECONDS, checked, key_of

ROUNDS, SLEEP, SHARE = 15, 1.0, 0.05
ROUND_TRIP = 0.020


def main():
    found = []
    here = nullcontext(Host("here", "127.0.0.1", Local("here")))
    for name, way in (("local", here), ("near", by_ssh()), ("far", by_ssh(ROUND_TRIP))):
        with way as host:
            found += of_way(name, host)
    write("jobs", found)


@contextmanager
def by_ssh(round_trip=0.0):
    """An sshd of our own, at a round trip of so many seconds."""
    with addresses(1, round_trip) as (_, [at]), reached(at) as host:
        yield host


def of_way(name, host):
    """The seconds of each, and what a job's are on top of the shortest run that is one."""
    plain, job = [], []
    for number in range(ROUNDS + 1):
        run = replace(host, measuring=key_of(f"bench {name} {number}", "", ""))
        plain.append(seconds(lambda: checked(host, "sleep", str(SLEEP), seconds=60)))
        job.append(seconds(lambda run=run: checked(run, "sleep", str(SLEEP), seconds=60)))
    # The first of each logs in, and finds nothing in memory.
    command, detached = median(plain[1:]), median(job[1:])
    on_top = detached - command
    what = f"{name}: seconds that a job takes longer"
    yield beside(f"job {name}", f"{name}: seconds of a job", detached, "command", command)
    yield at_most(f"job share {name}", what, on_top, "shortest job", LASTS_SECONDS, SHARE)


if __name__ == "__main__":
    main()
