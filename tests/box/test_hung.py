"""A machine that hangs, panics, or loses its power under a job: what is said of it is true."""

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from reborn import LACKING, machine  # noqa: F401

from labkit.errors import HostError
from labkit.job import State

pytestmark = [
    pytest.mark.box,
    pytest.mark.slow,
    pytest.mark.skipif(LACKING, reason="no QEMU, no kernel for its guests, or no mkfs.ext4"),
]
# As one piece, so that what the disk has is a beginning of it.
NUMBERED = "i=0; while :; do echo line $i; i=$((i + 1)); sleep 0.05; done"
WHOLE = b"".join(b"line %d\n" % n for n in range(100_000))
LONG = int(os.environ.get("LABKIT_HUNG_SECONDS", "600"))


def panics(machine, host):  # noqa: F811
    with suppress(HostError):
        host.run("sh", "-c", "echo c >/proc/sysrq-trigger; sleep 60", seconds=120)
    host.close()
    machine.process.wait(60)
    machine.on()


def loses_power(machine, host):  # noqa: F811
    machine.off()
    host.close()
    machine.on()


def reboots(machine, host):  # noqa: F811
    machine.anew(host)


ENDS = [panics, loses_power, reboots]


def lost_at(machine, ends, key, seconds):  # noqa: F811
    """A job under which the machine ends after so many seconds, and one that had ended before."""
    with machine.host() as host:
        done = host.start("sh", "-c", "exit 3", key=f"done-{key}", seconds=60)
        assert done.wait(60).code == 3
        running = host.start("sh", "-c", NUMBERED, key=f"runs-{key}", seconds=600)
        next(running.follow())
        host.check("sync")
        time.sleep(seconds)
        ends(machine, host)
        status = running.wait(60)
        assert status.state is State.LOST and "the host rebooted" in status.why
        kept = running.output()
        # A file system may know how long a file is before it has what is in it.
        written = kept.rstrip(b"\0")
        assert written.startswith(b"line 0\n") and WHOLE.startswith(written)
        assert (done.status().state, done.status().code) == (State.FINISHED, 3)
        for job in (done, running):
            job.forget()


@pytest.mark.torture
@pytest.mark.parametrize("ends", ENDS)
def test_a_job_whose_host_went_down_under_it_is_lost_and_what_had_ended_is_known(
    machine,  # noqa: F811
    ends,
):
    """F14 (I-REBOOT), F15 (I-POWER-G), F24 (sysrq-c)"""
    lost_at(machine, ends, ends.__name__.replace("_", "-"), 0.5)


@pytest.mark.torture
def test_ten_random_moments_make_no_difference(machine):  # noqa: F811
    seed = int(os.environ.get("LABKIT_SEED", random.randrange(2**32)))
    print(f"LABKIT_SEED={seed}")
    chance = random.Random(seed)
    for turn in range(10):
        lost_at(machine, ENDS[turn % len(ENDS)], f"turn-{turn}", chance.uniform(0, 5))


@pytest.mark.torture
@pytest.mark.parametrize("seconds", [25, LONG])
def test_a_machine_that_stands_still_is_unknown_and_then_as_it_was(machine, seconds):  # noqa: F811
    """F24, F22 (I-PAUSE): QEMU stops all its processors, and nobody is told."""
    with machine.host() as host, ThreadPoolExecutor(1) as pool:
        job = host.start("sh", "-c", NUMBERED, key=f"still-{seconds}", seconds=120)
        following = job.follow(patience=seconds + 120)
        said = next(following)
        machine.told("stop")
        try:
            begun = time.monotonic()
            asked = pool.submit(job.status)
            status = asked.result()
            assert status.state is State.UNKNOWN and "box1" in status.why
            assert time.monotonic() - begun <= 40
            time.sleep(max(0.0, begun + seconds - time.monotonic()))
        finally:
            machine.told("cont")
        status = job.status()
        assert status.state is State.RUNNING and status.seconds < seconds
        job.cancel()
        said += b"".join(following)
        assert WHOLE.startswith(said) and said.count(b"\n") > 5
        job.forget()
