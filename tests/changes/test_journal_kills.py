"""No moment at which the host's script is killed, or refused by the disk, loses a value."""

import errno
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from knobs import SCRIPT, Bench

PROGRAMS = ("unshare",)

pytestmark = [
    pytest.mark.when_changed("labkit/changes/"),
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a PID namespace"),
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"),
        reason="system calls are told by their numbers on x86-64",
    ),
]
KILLER = Path(__file__).parents[1] / "helpers/killer.py"
# All processes at once; only the one that calls, as when memory is short; a disk full or broken.
FAULTS = {"kill": "kill", "one": "one", "ENOSPC": errno.ENOSPC, "EIO": errno.EIO}
# In a PID namespace of its own all that the script has started ends with it.
APART = ("unshare", "--pid", "--mount-proc", "--fork")
# All of them in `make torture`; every so-and-so-manieth here, others for each fault.
STRIDE = 12


def again(bench, **asked):
    """A change set goes on: one thing goes back, another is changed once more."""
    more = ("make", "b", "newer", None, "0", "0", f"echo newer > {bench.folder / 'b'}")
    return bench.run("change", lines=[("set", "1"), ("back", "a"), more], flags="joining", **asked)


def together(bench, **asked):
    """Both are changed once more, at the same time."""
    makes = [("make", name, "newer", None, "0", "0", f"echo newer > {bench.folder / name}", "1")
             for name in bench.names]  # fmt: skip
    return bench.run("change", lines=[("set", "1"), *makes], flags="joining", **asked)


def lasting(bench, **asked):
    """One thing outlives a reboot, and its change can cut the way to the host."""
    file = bench.folder / "a"
    hold = ("hold", "a", "old\n", "1", "0", f"cat {file}", f"echo old > {file}")
    make = ("make", "a", "new", None, "0", "1", f"echo new > {file}")
    return bench.run("change", lines=[("set", "1"), hold, make], flags="joining", **asked)


def restore(bench, **asked):
    return bench.restore(**{"token": "t1", "flags": "joining", **asked})


def take_over(bench, **asked):
    return bench.restore(token="t2", flags="breaking", **asked)


def leave(bench, **asked):
    return bench.run("leave", flags="joining", **asked)


PHASES = {
    "apply": (Bench.apply, "made b"), "again": (again, "made b"),
    "together": (together, "made b"), "restore": (restore, "closed"),
    "take over": (take_over, "closed"), "leave": (leave, ""),
}  # fmt: skip
# It has the whole machine's disks synced, which is quick nowhere.
SLOW = {"lasting": (lasting, "made a")}


@pytest.fixture
def bench(tmp_path):
    yield Bench(tmp_path)
    # A watch that finds no lease any more ends.
    Bench(tmp_path).reset()


def lost(bench, script=SCRIPT):
    """What is not as it was once another process has put back all there is to put back."""
    done = bench.restore(flags="breaking", script=script)
    whole = bench.values() == dict.fromkeys(bench.names, "old\n") and not bench.left()
    return "" if whole else f"{bench.values()} {bench.left()} {done.stdout} {done.stderr}"


def points(bench, phase, fault, stride, script=SCRIPT, at=1):
    """Each call of a phase that changes something, and what was lost with a fault there."""
    act, completed = (PHASES | SLOW)[phase]
    log = bench.folder / "log"
    while True:
        bench.reset()
        if phase != "apply":
            first = replace(bench, names=("b",)) if phase in SLOW else bench
            assert first.apply(script=script).returncode == 0
        killer = (sys.executable, "-I", "-S", KILLER, log, str(FAULTS[fault]), str(at))
        done = act(bench, script=script, before=(*killer, *APART))
        calls = log.read_text().splitlines()
        if len(calls) < at:
            assert done.returncode == 0 and completed in done.stdout, done
            return
        undone = bench.values() == dict.fromkeys(bench.names, "old\n")
        yield calls[at - 1], lost(bench, script) or not_said(phase, calls, at, done, undone)
        at += stride


# What is not on the disk may not be acted upon: the first two syncs of a new journal.
def not_said(phase, calls, at, done, undone):
    synced = [n for n, call in enumerate(calls, 1) if call.startswith("fsync") and "1.open" in call]
    failed = "failed" in done.stdout or done.returncode
    refused = phase == "apply" and at in synced[:1]
    return f"went on: {done.stdout}" if refused and not (failed and undone) else ""


def check(bench, phase, fault, stride=1, at=1):
    found = list(points(bench, phase, fault, stride, at=at))
    assert len(found) * stride > (3 if phase == "leave" else 9), "too few calls for that phase"
    print(f"{phase}, {fault}: {len(found)} points")
    assert [(call, why) for call, why in found if why] == []


@pytest.mark.parametrize("phase", ["apply", "restore"])
def test_a_kill_at_any_system_call_loses_no_value(bench, phase):
    check(bench, phase, "kill")


@pytest.mark.parametrize("phase", PHASES)
def test_no_fault_at_a_system_call_loses_a_value(bench, phase):
    for at, fault in enumerate(FAULTS, 1):
        check(bench, phase, fault, STRIDE, at)


@pytest.mark.torture
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("phase", [*PHASES, *SLOW])
def test_no_fault_at_every_single_system_call_loses_a_value(bench, phase, fault):
    check(bench, phase, fault)


@pytest.mark.torture
@pytest.mark.parametrize("fault", ["kill", "one"])
@pytest.mark.parametrize("phase", ["apply", "take over"])
def test_no_kill_leaves_a_host_locked_that_has_no_flock(bench, tmp_path, phase, fault):
    script = tmp_path / "without.sh"
    script.write_text(SCRIPT.read_text().replace("command -v flock", "command -v no-flock"))
    found = list(points(bench, phase, fault, 1, script))
    assert len(found) > 12 and [(call, why) for call, why in found if why] == []


# The oracle bites: a script that writes first and makes its mark afterwards is found out.
def test_a_script_that_writes_before_it_records_is_caught(bench, tmp_path):
    text = SCRIPT.read_text()
    mark = '        [ "$at_once" ] || insist writing "$1" "$2"\n'
    after = '        acted "$6" || { refused_with "$1"; return; }\n'
    assert mark in text and after in text
    wrong = tmp_path / "wrong.sh"
    wrong.write_text(text.replace(mark, "").replace(after, after + mark))
    assert any(why for _, why in points(bench, "apply", "kill", 1, wrong, 26))
