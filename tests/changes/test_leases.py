"""Who holds a host, and who has gone: real processes, killed, stopped, hidden, in other boots."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import astuple, replace
from pathlib import Path

import pytest
from knobs import HERE, NEW, OLD, SCRIPT, refused
from waiting import awaited
from watches import end_below, watches_below

from labkit.changes.in_force import InForce
from labkit.changes.journal import hello
from labkit.changes.journal_lines import decoded
from labkit.changes.lease import Lease, Owner
from labkit.changes.restore import restore
from labkit.errors import Busy, Unfinished

PROGRAMS = ("unshare",)

HOME = Path(__file__).resolve().parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a PID namespace")
# One that makes its first change, and the second when it is told to.
HOLDER = """
import sys
from knobs import Knob
from labkit.changes.in_force import in_force
from labkit.host import Host
from labkit.transports.local import Local
a, b = sys.argv[1:]
with in_force({"server": Host("here", "", Local())}) as changes:
    changes.move_to([Knob(a, "new")])
    print("in force", flush=True)
    sys.stdin.readline()
    changes.move_to([Knob(a, "newest"), Knob(b, "new")])
"""


@pytest.fixture
def host():
    return HERE


def python(code, *words, before=(), **more):
    """A process of its own that knows labkit and the tests' knobs."""
    env = {**os.environ, "PYTHONPATH": f"{HOME}/tests/helpers:{HOME}"}
    return subprocess.Popen(
        [*before, sys.executable, "-c", code, *words], env=env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more,
    )  # fmt: skip


@contextmanager
def holding(bench, **asked):
    """A process that holds the host, with `a` changed."""
    with python(HOLDER, str(bench.folder / "a"), str(bench.folder / "b"), **asked) as holder:
        try:
            yield holder
        finally:
            holder.kill()


def lease_of(owner):
    """What a host would say of its lease."""
    name, controller, pid, started, boot, study, token = astuple(owner)
    return Lease(name, controller, pid, started, boot, token, "12:00", study, "boot")


@pytest.mark.parametrize("change", [
    {}, {"controller": "elsewhere", "pid": "999999999"}, {"boot": "before", "pid": "999999999"},
])  # fmt: skip
def test_what_runs_here_or_cannot_be_looked_at_from_here_is_not_called_ended(change):
    assert not lease_of(replace(Owner.me("x"), **change)).ended


@pytest.mark.parametrize("pid", ["?", "-1", "../self", "1" * 5000])
def test_a_lease_of_nonsense_raises_nothing(pid):
    assert lease_of(replace(Owner.me("x"), pid=pid)).ended in (True, False)


def test_a_process_that_was_killed_and_that_nobody_has_waited_for_has_ended():
    with subprocess.Popen(["sleep", "100"]) as other:
        stat = Path(f"/proc/{other.pid}/stat")
        born = stat.read_text().rpartition(")")[2].split()[19]
        lease = lease_of(replace(Owner.me("x"), pid=str(other.pid), started=born))
        assert not lease.ended
        other.kill()
        while " Z " not in stat.read_text():
            time.sleep(0.01)
        assert lease.ended


# One that has ended on this machine, and one whose number a later process has.
@pytest.mark.slow
@pytest.mark.parametrize("change", [{"pid": "999999999", "started": "1"}, {"started": "1"}])
def test_a_lease_of_a_process_that_has_ended_is_taken_over_at_once(bench, host, change):
    gone = replace(Owner.me("x"), **change)
    InForce({"server": host}, gone).move_to([bench.knob("a")])
    assert hello(host).lease.pid == gone.pid and hello(host).lives == "alive"
    refused(Unfinished, "unfinished", [bench.knob("b", "new")], {"server": host})
    assert restore(host).ok and bench.values() == OLD and hello(host).lease is None


# As of a controller that has been started anew, or that nothing is heard of any more.
@pytest.mark.slow
def test_a_lease_that_cannot_be_looked_at_is_taken_over_once_it_is_silent(bench):
    hasty = bench.folder / "hasty.sh"
    hasty.write_text(SCRIPT.read_text().replace('sleep "$step" 8>&-', "sleep 0.2 8>&-"))
    assert "made b" in bench.apply(script=hasty).stdout
    assert "held t1" in bench.restore(script=hasty).stdout and bench.values() == NEW
    end = time.monotonic() + 60
    while "held t1" in (output := bench.restore(script=hasty).stdout):
        assert time.monotonic() < end, decoded(output)
        time.sleep(0.2)
    assert "closed 1" in output and bench.values() == OLD


@pytest.mark.slow
@needs_root
def test_a_process_among_others_of_its_own_is_not_called_ended(bench, host):
    with holding(bench, before=("unshare", "--pid", "--fork", "--kill-child")) as holder:
        assert holder.stdout.readline() == "in force\n"
        refused(Busy, "is held by", [bench.knob("b", "x")], {"server": host})
        assert bench.values() == {"a": "new\n", "b": "old\n"}


HIDDEN = """
import os, subprocess, sys
from dataclasses import replace
from pathlib import Path
from tests.changes.test_leases import Owner, lease_of
me = Owner.me("x")
other = subprocess.Popen(["sleep", "100"])
born = Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()[19]
subprocess.run(["mount", "-o", "remount,hidepid=2", "/proc"], check=True)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
assert not Path(f"/proc/{other.pid}").exists()
lease = lease_of(replace(me, pid=str(other.pid), started=born))
print(lease.ended, lease_of(replace(me, pid="4000000")).ended)
"""


@pytest.mark.slow
@needs_root
def test_a_process_that_is_hidden_from_us_is_not_called_ended():
    before = ("unshare", "--pid", "--mount-proc", "--fork", "--kill-child")
    said, odd = python(HIDDEN, before=before).communicate(timeout=60)
    assert said.split() == ["False", "True"], odd


def stopped_and_taken_over(bench, host, holder):
    """Another takes the host from a holder who is stopped; what the holder then does and says."""
    os.kill(holder.pid, signal.SIGSTOP)
    assert restore(host, "their own", breaking=True).ok
    assert bench.values() == OLD and bench.left() == []
    before = [(bench.folder / name).stat() for name in bench.names]
    os.kill(holder.pid, signal.SIGCONT)
    _, said = holder.communicate("go on\n", timeout=60)
    after = [(bench.folder / name).stat() for name in bench.names]
    assert [one.st_mtime_ns for one in after] == [one.st_mtime_ns for one in before]
    assert bench.values() == OLD and bench.left() == []
    return holder.returncode, said


@pytest.mark.slow
def test_a_holder_who_was_stopped_and_taken_over_writes_nothing_more_and_says_why(bench, host):
    with holding(bench) as holder:
        assert holder.stdout.readline() == "in force\n"
        code, said = stopped_and_taken_over(bench, host, holder)
    assert code == 1 and "our lease has ended, so nothing more was written" in said


# In the midst of a change, of a check, or of putting back.
@pytest.mark.torture
def test_a_holder_who_is_stopped_at_any_moment_writes_nothing_more(bench, host):
    seed = int(os.environ.get("LABKIT_SEED", random.randrange(2**32)))
    print(f"LABKIT_SEED={seed}")
    chance = random.Random(seed)
    for _ in range(60):
        bench.reset()
        with holding(bench) as holder:
            while not bench.left():
                time.sleep(0.002)
            if chance.random() < 0.5:
                holder.stdin.write("go on\n")
                holder.stdin.flush()
            time.sleep(chance.uniform(0, 0.5))
            code, said = stopped_and_taken_over(bench, host, holder)
            assert code == 0 or "our lease has ended" in said, said


@pytest.mark.slow
def test_no_watch_over_a_lease_outlives_the_tests(tmp_path, bench):
    with python(HOLDER, bench.folder / "a", bench.folder / "b") as holder:
        assert holder.stdout.readline() == "in force\n"
        holder.kill()
    assert watches_below(tmp_path), "by itself it waits for a quarter of an hour"
    end_below(tmp_path)
    awaited(lambda: not watches_below(tmp_path))
