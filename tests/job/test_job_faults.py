"""Jobs when disks are full, processes are refused, output is huge, or the controller dies."""

import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from small_hosts import USUAL, Within

from labkit.errors import HostError
from labkit.host import Host
from labkit.job import State
from labkit.transports.local import Local

PROGRAMS = ("mount", "setpriv", "setsid", "strace", "systemd-run", "umount", "unshare")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.when_changed("labkit/job/", "labkit/transports/"),
]
MIB = 1 << 20
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def here():
    return Host("here", "127.0.0.1", Local())


@pytest.fixture
def spool(tmp_path):
    return str(tmp_path / "spool")


@pytest.fixture
def shared():
    """A folder that every user may write to; pytest's own are for their owner."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


# --- started once, whoever starts it --------------------------------------------------------

HOST = """
import sys
from concurrent.futures import ThreadPoolExecutor
from labkit.host import Host
from labkit.ssh.connection import Address
from labkit.transports.ssh import Ssh

port, user, key, known, spool, log = sys.argv[1:]
host = Host("box1", "127.0.0.1", Ssh(Address("box1", "127.0.0.1", int(port), user, key, (known,))))
"""
STARTS = """
def start(_):
    script = 'echo ran >>"$0"; sleep 0.2; exit 5'
    return host.start("sh", "-c", script, log, key="run-17", seconds=60, spool=spool).wait(30).code

with ThreadPoolExecutor(25) as pool:
    assert set(pool.map(start, range(25))) == {5}
"""
FOLLOWS = """
script = 'echo ran >>"$0"; for i in 1 2 3 4 5 6; do echo line $i; sleep 0.4; done; exec sleep 1000'
for part in host.start("sh", "-c", script, log, key="run-18", seconds=5, spool=spool).follow():
    print(part.decode(), end="", flush=True)
"""


def controller(server, *words, script):
    at = server.address()
    known = [str(at.port), at.user, at.key, *at.known_hosts, *words]
    return subprocess.Popen([sys.executable, "-c", HOST + script, *known], stdout=subprocess.PIPE)


def test_a_hundred_concurrent_starts_of_one_key_are_one_execution(server, spool, tmp_path):
    log = str(tmp_path / "log")
    starters = [controller(server, spool, log, script=STARTS) for _ in range(4)]
    assert [starter.wait(120) for starter in starters] == [0, 0, 0, 0]
    assert Path(log).read_text() == "ran\n"


def test_a_job_outlives_its_controller_and_meets_its_deadline_without_it(
    server, ssh, spool, tmp_path
):
    log = tmp_path / "log"
    killed = controller(server, spool, str(log), script=FOLLOWS)
    assert killed.stdout.readline() == b"line 1\n"
    killed.kill()
    killed.wait()
    job = ssh.job("run-18", spool)
    assert job.status().state is State.RUNNING
    assert b"".join(job.follow()) == b"".join(b"line %d\n" % n for n in range(1, 7))
    status = job.wait(30)
    assert status.state is State.TIMED_OUT and 5 <= status.seconds < 12
    assert log.read_text() == "ran\n"


# --- full disks -----------------------------------------------------------------------------


@contextmanager
def mounted(folder, options):
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@needs_root
@pytest.mark.parametrize("options", ["size=48k", "nr_inodes=12"])
def test_a_job_is_not_begun_where_its_end_could_not_be_kept(here, tmp_path, options):
    with mounted(tmp_path / "disk", options) as disk:
        with pytest.raises(HostError, match=r"not started(.|\n)*nothing was started"):
            here.start("touch", str(tmp_path / "ran"), key="a", seconds=9, spool=str(disk / "jobs"))
        assert list((disk / "jobs").iterdir()) == []
    assert not (tmp_path / "ran").exists()


@needs_root
@pytest.mark.parametrize("options, keeps", [("size=1m", 900_000), ("nr_inodes=32", 60_000)])
def test_a_disk_that_fills_up_costs_output_and_never_the_code(here, tmp_path, options, keeps):
    with mounted(tmp_path / "disk", options) as disk:
        go = tmp_path / "go"
        script = f"until [ -e {go} ]; do sleep 0.02; done; seq {MIB // 2}; exit 9"
        job = here.start(
            "sh", "-c", script, key="a", seconds=60, cap=16 * MIB, spool=str(disk / "jobs")
        )
        if "inodes" in options:
            with suppress(OSError):
                for n in range(32):
                    (disk / f"file{n}").touch()
        go.touch()
        status = job.wait(30)
        output = subprocess.run(["seq", str(MIB // 2)], capture_output=True).stdout
        kept = job.output()
    assert (status.state, status.code) == (State.FINISHED, 9)
    assert status.out.full and status.out.kept == len(kept) >= keeps
    assert output.startswith(kept)
    # What the failed write held is not counted.
    assert len(output) - 65536 <= status.out.size <= len(output)


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace; to get it: make test")
@pytest.mark.parametrize("file", ["runner", "limits", "sup.new", "main.new", "words.new", "log"])
def test_a_disk_that_refuses_any_file_of_a_job_leaves_it_unbegun_or_its_end_true(
    tmp_path, spool, file
):
    """F17 (I-ERR): every write to one of its files ends with ENOSPC, from the first one on."""
    log, refuse = tmp_path / "ran", "inject=write:error=ENOSPC"
    only = ("-e", "trace=write", "-e", refuse, "-P", f"{spool}/full/{file}")
    host = Host("full", "127.0.0.1", Within(("strace", "-D", "-f", "-o", "/dev/null", *only)))
    whole = Host("here", "127.0.0.1", Local())
    try:
        host.start("sh", "-c", 'echo ran >>"$0"; exit 5', str(log), key="full", seconds=60,
                   spool=spool)  # fmt: skip
    except HostError as error:
        assert "nothing was started" in str(error)
        assert not log.exists() and whole.jobs(spool) == {}
        return
    status = whole.job("full", spool).wait(30)
    assert (status.state, status.code) == (State.FINISHED, 5)
    assert log.read_text() == "ran\n"


# --- huge and odd output --------------------------------------------------------------------


def test_a_gigabyte_of_output_is_capped_on_the_host_and_bounded_here(ssh, spool):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    job = ssh.start("head", "-c", str(1 << 30), "/dev/zero", key="big", seconds=120, spool=spool)
    parts, told = 0, []
    for part in job.follow(tell=told.append):
        parts += len(part)
    status = job.wait(60)
    assert status.ok and status.out.size == 1 << 30
    assert 32 * MIB < status.out.kept <= 64 * MIB
    assert sum(f.stat().st_size for f in Path(spool).rglob("out.0*")) <= 64 * MIB
    # A reader who keeps up sees more than is kept, and is told what it missed.
    assert parts >= status.out.kept or told
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024


def test_the_first_and_the_last_of_the_output_are_kept(here, spool):
    script = "seq 1000000; echo the end"
    job = here.start("sh", "-c", script, key="both", seconds=60, cap=MIB, spool=spool)
    assert job.wait(60).ok
    told = []
    kept = b"".join(job.follow(tell=told.append))
    printed = b"".join(b"%d\n" % n for n in range(1, 1_000_001)) + b"the end\n"
    gap = len(printed) - len(kept)
    first = next(
        n for n, (one, other) in enumerate(zip(kept, printed, strict=False)) if one != other
    )
    assert told == [f"{job}: {gap} bytes of output were not kept"]
    assert kept == printed[:first] + printed[first + gap :] and first > 0
    assert (job.status().out.size, job.status().out.kept) == (len(printed), len(kept))
    assert len(kept) <= MIB


def test_binary_output_arrives_byte_for_byte(ssh, spool, tmp_path):
    (tmp_path / "noise").write_bytes(
        os.urandom(3 * MIB) + b"\0\xff\r\n\x1b[2J" + "é\u202e".encode()
    )
    script = f"cat {tmp_path}/noise; cat {tmp_path}/noise >&2"
    job = ssh.start("sh", "-c", script, key="noise", seconds=60, spool=spool)
    assert job.wait(60).ok
    sums = {hashlib.sha256(job.output(stream=name)).digest() for name in ("out", "err")}
    assert sums == {hashlib.sha256((tmp_path / "noise").read_bytes()).digest()}


def test_output_that_looks_like_an_answer_is_output(ssh, spool):
    forged = "labkit-job 0 /x\\nnow b 1\\nmain exit 0 1\\n\\npart 0 0\\n"
    job = ssh.start("sh", "-c", f"printf '{forged}'; exit 3", key="lies", seconds=60, spool=spool)
    assert job.wait(30).code == 3
    assert job.output().decode() == forged.replace("\\n", "\n")


# --- processes that are refused, and what becomes of them -----------------------------------

USER = 64321


def of_user(home, *limit):
    first = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *limit)
    return Host("tight", "127.0.0.1", Within((*first, "env", f"HOME={home}")))


@needs_root
@pytest.mark.parametrize("processes", [1, 2, 4, 7])
def test_where_processes_are_refused_the_state_is_true_all_the_same(shared, processes):
    script, log = f"echo ran >>{shared}/log; sleep 0.3; exit 6", shared / "log"
    try:
        host = of_user(shared, "prlimit", f"--nproc={processes}")
        host.start("sh", "-c", script, key="a", seconds=5)
    except HostError as error:
        assert error.said
    ran = log.exists() and log.read_text()
    for job in of_user(shared).jobs():
        status = job.wait(20)
        assert status.over and status.state is not State.UNKNOWN
        ran = log.exists() and log.read_text()
        if status.state is State.FINISHED and status.code == 6:
            assert ran == "ran\n"
        if "nothing of it ran" in status.why:
            assert not ran
    assert ran in (False, "ran\n")


@contextmanager
def little_memory(name):
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                        ("/sys/fs/cgroup", "memory.max")):  # fmt: skip
        group = Path(root) / f"{name}-{os.getpid()}"
        with suppress(OSError):
            group.mkdir()
            try:
                (group / limit).write_text(str(16 * MIB))
                yield group
            finally:
                group.rmdir()
            return
    pytest.skip("no control group for memory here")


# What the kernel says before it kills names processes as the machine does, not a namespace in it.
THE_MACHINES_OWN = "pid:[4026531836]"


@needs_root
@pytest.mark.skipif(
    os.readlink("/proc/self/ns/pid") != THE_MACHINES_OWN,
    reason="the kernel's log numbers processes otherwise in a namespace of them",
)
def test_a_job_that_the_kernel_ended_for_want_of_memory_says_so(here, spool):
    with little_memory("labkit-oom") as group:
        script = f"echo 0 >{group}/cgroup.procs; exec tail /dev/zero"
        status = here.start("sh", "-c", script, key="hungry", seconds=60, spool=spool).wait(60)
    assert (status.state, status.signal) == (State.KILLED, "KILL")
    assert "for want of memory" in status.why


# --- systemd that does not answer (test_systemd.py has a real one) ----------------------------


def with_systemd(shared):
    """A host that looks as if systemd had started it; its own systemd-run gets no answer."""
    (shared / "bin").mkdir()
    (shared / "home").mkdir()
    for name in [*USUAL, "mount", "perl", "systemd-run", "setpriv", "true"]:
        (shared / "bin" / name).symlink_to(shutil.which(name) or "/bin/false")
    seem = 'mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec env -i "$@"'
    first = (
        "unshare", "-m", "sh", "-c", seem, "sh", f"PATH={shared}/bin", f"HOME={shared}/home",
        "setpriv", "--clear-groups",
    )  # fmt: skip
    return Host("systemd", "127.0.0.1", Within(first))


@needs_root
def test_where_systemd_does_not_answer_a_job_is_started_without(shared):
    job = with_systemd(shared).start("true", key="unit", seconds=30, spool=f"{shared}/spool")
    assert job.wait(20).ok
    assert (shared / "spool/unit/log").read_text() or not shutil.which("systemd-run")


def test_a_signal_to_the_whole_session_of_a_login_does_not_reach_the_job(server, ssh, spool):
    job = ssh.start("sleep", "2", key="session", seconds=30, spool=spool)
    groups = {os.getpgid(pid) for pid in server.processes()} - {os.getpgid(0)}
    assert groups
    for group in groups:
        os.killpg(group, signal.SIGKILL)
    assert job.wait(30).ok
