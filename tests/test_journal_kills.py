"""No moment at which the host's script is killed, or refused by the disk, loses a value."""

import os
import shutil

import pytest
from knobs import SCRIPT, Bench

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("strace"), reason="no strace; to get it: make test"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a PID namespace"),
]
CALLS = "openat,write,fsync,rename,renameat2,unlink,unlinkat,ftruncate,mkdir,execve,wait4"
# All of them in `make torture`; every so-and-so-manieth here.
STRIDE = 5


def injected(calls, what, at):
    # In a PID namespace of its own all that the script has started ends with it.
    return (
        "strace", "-f", "-o", "/dev/null", "-e", f"trace={calls}", "-e",
        f"inject={calls}:{what}:when={at}", "unshare", "--pid", "--fork", "--kill-child",
    )  # fmt: skip


@pytest.fixture
def bench(tmp_path):
    yield Bench(tmp_path)
    # A watch that finds no lease any more ends.
    Bench(tmp_path).reset()


def lost(bench):
    """What is not as it was once another process has put back all there is to put back."""
    done = bench.restore(flags="breaking")
    whole = bench.values() == dict.fromkeys(bench.names, "old\n") and not bench.left()
    return "" if whole else f"{bench.values()} {bench.left()} {done.stdout} {done.stderr}"


def points(bench, phase, what, stride, script=SCRIPT, at=1):
    """Each kill point of a phase, until the phase runs to its end; yields what was lost."""
    while True:
        bench.reset()
        if phase != "apply":
            assert bench.apply(script=script).returncode == 0
        act, flags = (bench.apply, "first") if phase == "apply" else (bench.restore, "joining")
        done = act(script=script, before=injected(CALLS, what, at), token="t1", flags=flags)
        yield at, lost(bench)
        clean = done.returncode == 0 and "failed" not in done.stdout
        if clean and ("closed" if phase == "restore" else "made b") in done.stdout:
            return
        at += stride
        assert at < 1000, done.stdout + done.stderr


def check(bench, phase, what, stride, **asked):
    found = list(points(bench, phase, what, stride, **asked))
    assert len(found) * stride > 50, "the phase cannot have run under strace"
    assert [(at, why) for at, why in found if why] == []


@pytest.mark.parametrize("phase", ["apply", "restore"])
def test_a_kill_at_any_system_call_loses_no_value(bench, phase):
    check(bench, phase, "signal=SIGKILL", STRIDE)


@pytest.mark.torture
@pytest.mark.parametrize("phase", ["apply", "restore"])
def test_a_kill_at_every_single_system_call_loses_no_value(bench, phase):
    check(bench, phase, "signal=SIGKILL", 1)


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("file", ["1.open", "lease.new", "labkit.sh.new", "."])
def test_a_full_or_broken_disk_at_any_write_loses_no_value(bench, file, error):
    calls = "write,fsync,rename,renameat2,ftruncate,openat"
    only = ("-P", str(bench.changes / file))
    for at in (1, 2, 3):
        bench.reset()
        bench.changes.mkdir()
        strace, *rest = injected(calls, f"error={error}", at)
        bench.apply(before=(strace, *only, *rest))
        assert lost(bench) == "", at


# The oracle bites: a script that writes first and makes its mark afterwards is found out.
def test_a_script_that_writes_before_it_records_is_caught(bench, tmp_path):
    text = SCRIPT.read_text()
    mark = '        insist writing "$1" "$2"\n'
    after = '        act "$6" || refused_with "$1"\n'
    assert mark in text and after in text
    wrong = tmp_path / "wrong.sh"
    wrong.write_text(text.replace(mark, "").replace(after, after + mark))
    assert any(why for _, why in points(bench, "apply", "signal=SIGKILL", 1, wrong, 48))
