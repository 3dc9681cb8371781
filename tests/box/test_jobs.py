"""Jobs on hosts of the box: a guest that really reboots, and hosts that share a kernel."""

import time
from dataclasses import replace

import pytest
from small_hosts import Within

from labkit.box.view import GUESTS
from labkit.changes.in_force import applied
from labkit.errors import CommandFailed, OutcomeUnknown
from labkit.job import State
from labkit.settings.guest_power import GuestPower

PROGRAMS = ("mount", "setpriv", "umount")

pytestmark = pytest.mark.box

SPOOL = "/run/jobs"
STROBE = """now=$(date +%s); echo now
while :; do date -s "@$((now + 259200))"; sleep 0.2; date -s "@$now"; sleep 0.2; done >/dev/null"""
# The one folder that outlives the guest is the server's, who lends it to a user of its own.
KEPT = "/var/tmp/kept"
# Linux 6.11 has given the option a name.
LEND = f"""mkdir -p {KEPT}; for option in '' hostfs=; do
    mount -t hostfs none {KEPT} -o "$option/run/{GUESTS}/guest/run" && exit; done; exit 1"""


@pytest.fixture
def guest(lab):
    yield lab.host("guest")
    lab.host("server").check("guest", "start")


def stop(lab, _):
    lab.host("server").check("guest", "stop")


def panic(_, guest):
    """F24: the kernel ends without a word to anybody (sysrq-trigger, c)."""
    with pytest.raises(OutcomeUnknown) as cut:
        guest.run("sh", "-c", "echo c >/proc/sysrq-trigger; sleep 1000", seconds=120)
    assert "the connection was lost during" in str(cut.value)


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.parametrize("ends", [stop, panic])
def test_a_job_on_a_host_that_rebooted_is_lost_and_its_output_kept(lab, guest, ends):
    guest.check("sh", "-c", LEND)
    owner = guest.check("stat", "-c", "%u", KEPT).strip()
    as_user = ("setpriv", f"--reuid={owner}", "--clear-groups", "env", f"HOME={KEPT}")
    user = replace(guest, transport=Within(as_user, guest.transport))
    before = guest.check("cat", "/proc/sys/kernel/random/boot_id")
    running = user.start("sh", "-c", "echo begun; sync; sleep 1000", key="running", seconds=600)
    ended = user.start("sh", "-c", "exit 3", key="ended", seconds=60)
    gone = guest.start("sleep", "1000", key="gone", seconds=600, spool="/root/jobs")
    assert ended.wait(30).code == 3
    assert next(running.follow()) == b"begun\n"
    ends(lab, guest)
    assert running.status().state is State.UNKNOWN
    lab.host("server").check("guest", "start")
    guest.check("sh", "-c", LEND)
    assert guest.check("cat", "/proc/sys/kernel/random/boot_id") != before
    status = running.wait(30)
    assert status.state is State.LOST and "the host rebooted" in status.why
    assert running.output() == b"begun\n"
    assert ended.status().code == 3 and ended.status().state is State.FINISHED
    assert "nothing is kept" in gone.wait(30).why
    with pytest.raises(CommandFailed):
        guest.check("test", "-e", "/root/jobs")
    for job in user.jobs():
        job.forget()
    guest.check("umount", KEPT)


@pytest.mark.torture
@pytest.mark.slow
def test_seconds_and_deadlines_stay_right_while_the_clock_jumps_to_and_fro(lab, guest):
    """F21 (I-CLOCK, strobe): three days on and back every 200 ms, while commands and jobs run."""
    try:
        with guest.stream("sh", "-c", STROBE, seconds=120) as jumps:
            assert next(iter(jumps)).text == "now"
            late = guest.start("sleep", "1000", key="late", seconds=3, spool=SPOOL)
            done = guest.run("sleep", "1")
            assert done.code == 0 and 0.9 <= done.host_seconds < 60 and 0.9 <= done.seconds < 60
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


@pytest.mark.torture
def test_a_job_meets_its_deadline_though_its_host_stood_still_and_its_clock_jumped(
    lab, guest, monkeypatch
):
    job = guest.start("sleep", "1000", key="late", seconds=4, spool=SPOOL)
    try:
        guest.check("date", "-s", f"@{time.time() + 3 * 86400:.6f}")
        reading = lab.fleet.clocks().check()["guest"]
        assert abs(reading.offset - 3 * 86400) < 60
        assert job.status().seconds < 60
    finally:
        guest.check("date", "-s", f"@{time.time():.6f}")
    monkeypatch.setattr("labkit.job.job.ANSWER_SECONDS", 0.5)
    monkeypatch.setattr("labkit.ssh.connection.CONNECT_SECONDS", 1.0)
    with applied([GuestPower("paused")], lab.hosts):
        status = job.status()
        assert status.state is State.UNKNOWN and "guest" in status.why
    monkeypatch.undo()
    status = job.wait(60)
    assert status.state is State.TIMED_OUT and 3.9 <= status.seconds < 60
    job.forget()


def test_hosts_of_the_box_do_not_see_each_others_jobs(lab):
    jobs = {
        role: lab.host(role).start("sleep", "1000", key="same", seconds=60, spool="/run/jobs")
        for role in ("server", "client")
    }
    assert jobs["server"].cancel(1).state is State.KILLED
    assert jobs["client"].status().state is State.RUNNING
    assert jobs["client"].cancel(1).state is State.KILLED
