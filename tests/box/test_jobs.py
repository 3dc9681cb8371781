"""Jobs on hosts of the box: a guest whose clock really jumps, and hosts that share a kernel."""

import time

import pytest

from labkit.job import State

pytestmark = pytest.mark.box

SPOOL = "/run/jobs"
STROBE = """now=$(date +%s); echo now
while :; do date -s "@$((now + 259200))"; sleep 0.2; date -s "@$now"; sleep 0.2; done >/dev/null"""


@pytest.mark.torture
@pytest.mark.slow
def test_seconds_and_deadlines_stay_right_while_the_clock_jumps_to_and_fro(lab):
    """F21 (I-CLOCK, strobe): three days on and back every 200 ms, while commands and jobs run."""
    guest = lab.host("guest")
    try:
        with guest.stream("sh", "-c", STROBE, seconds=120) as jumps:
            assert next(iter(jumps)).text == "now"
            late = guest.start("sleep", "1000", key="late", seconds=3, spool=SPOOL)
            done = guest.run("sleep", "1")
            assert done.code == 0 and 0.9 <= done.seconds < 60
            whole = guest.start("sleep", "1", key="whole", seconds=60, spool=SPOOL).wait(60)
            assert whole.state is State.FINISHED and 0.9 <= whole.seconds < 60
            status = late.wait(60)
            assert status.state is State.TIMED_OUT and 2.9 <= status.seconds < 60
            clock = {int(guest.check("date", "+%s")) // 86400 for _ in range(40)}
            assert len(clock) > 1, "the clock did not jump"
    finally:
        guest.check("date", "-s", f"@{time.time():.6f}")
    for job in guest.jobs(SPOOL):
        job.forget()


def test_hosts_of_the_box_do_not_see_each_others_jobs(lab):
    jobs = {
        role: lab.host(role).start("sleep", "1000", key="same", seconds=60, spool="/run/jobs")
        for role in ("server", "client")
    }
    assert jobs["server"].cancel(1).state is State.KILLED
    assert jobs["client"].status().state is State.RUNNING
    assert jobs["client"].cancel(1).state is State.KILLED
