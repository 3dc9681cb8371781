"""No moment at which labkit itself is stopped, or killed, leaves a value behind."""

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from knobs import HERE, OLD

from labkit.changes.in_force import in_force
from labkit.changes.restore import restore
from labkit.errors import SettingRefused
from labkit.machine.stopping import undisturbed

HOME = Path(__file__).resolve().parents[2]
# The program begins when it can be stopped politely: before that nothing is done.
PROGRAM = """
import sys
from knobs import Knob
from labkit.changes.in_force import in_force
from labkit.host import Host
from labkit.machine.stopping import stop_politely
from labkit.transports.local import Local
a, b = sys.argv[1:]
stop_politely()
with in_force({"server": Host("here", "", Local())}) as changes:
    changes.move_to([Knob(a, "new")])
    changes.move_to([Knob(b, "new")])
"""
traced = pytest.mark.skipif(
    (platform.system(), platform.machine(), os.geteuid()) != ("Linux", "x86_64", 0),
    reason="needs root, to have calls stopped, and x86-64, by whose numbers they are told",
)
# All of them in `make torture`; every so-and-so-manieth here, others for each signal.
STRIDE = 24
SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")


def points(bench, name, stride, at):
    """Each call that changes something, and what was wrong after a signal there."""
    log = bench.folder / "log"
    env = {
        **os.environ,
        "PYTHONPATH": f"{HOME}/tests/helpers:{HOME}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    while True:
        bench.reset()
        words = [sys.executable, "-I", "-S", HOME / "tests/helpers/killer.py", log, name, str(at)]
        with subprocess.Popen(
            [*words, sys.executable, "-c", PROGRAM, *(bench.folder / one for one in bench.names)],
            env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as killer:  # fmt: skip
            text = killer.stdout.readline().strip()
            calls = log.read_text().splitlines()
            wrong = left_behind(bench, name, text)
            killer.kill()
            wrong = wrong and f"{wrong}; it said: {killer.stderr.read()}"
        if len(calls) < at:
            assert (text, wrong) == ("ended with 0", "")
            return
        yield calls[at - 1], wrong
        at += stride


# What is killed cannot put back; anybody else can, at once, and by nothing but the journal.
def left_behind(bench, name, said):
    if name == "SIGKILL":
        restore(HERE)
    elif bench.left():
        return f"{said}, and the journal is open"
    return "" if (bench.values(), bench.left()) == (OLD, []) else f"{bench.values()}"


def check(bench, name, stride=1, at=1):
    found = list(points(bench, name, stride, at))
    print(f"{name}: {len(found)} points")
    assert len(found) * stride > 40, "too few calls"
    assert [(call, why) for call, why in found if why] == []


@pytest.mark.when_changed("labkit/changes/", "labkit/machine/stopping.py")
@traced
@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_at_a_system_call_leaves_nothing_behind(bench, name):
    check(bench, name, STRIDE, 1 + 4 * SIGNALS.index(name))


@traced
@pytest.mark.torture
@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_at_every_single_system_call_leaves_nothing_behind(bench, name):
    check(bench, name)


def stands_in(name):
    """Whether the main thread waits in a function of that name."""

    def look():
        frame = sys._current_frames()[threading.main_thread().ident]
        return frame.f_code.co_name == name and (id(frame), frame.f_lasti)

    before = look()
    time.sleep(0.02)
    return before and before == look()


@pytest.mark.slow
def test_a_stop_while_the_settings_are_read_leaves_nothing_behind(bench, interruptible):
    """Whoever puts back waits for the one who reads, and is stopped meanwhile."""
    with ThreadPoolExecutor(1) as pool:

        def read(changes, begun):
            with changes._lock:
                begun.set()
                while not stands_in("put_back"):
                    pass
                os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(KeyboardInterrupt), in_force({"server": HERE}) as changes:
            changes.move_to([bench.knob("a", "new")])
            begun = threading.Event()
            pool.submit(read, changes, begun)
            assert begun.wait(10)
            raise LookupError("a run that failed")
    assert (bench.values(), bench.left()) == (OLD, [])


@pytest.mark.slow
def test_what_did_not_go_back_is_said_also_to_those_who_have_stopped_us(bench, interruptible):
    stuck = bench.folder / "a.stuck"
    with pytest.raises(SettingRefused, match="did not go back"), in_force({"server": HERE}) as now:
        now.move_to([bench.knob("a", "new")])
        stuck.touch()
        with undisturbed("a test"):
            signal.raise_signal(signal.SIGINT)
            now.put_back()


def test_within_something_undisturbed_a_stop_waits_for_the_outer_end(interruptible):
    done = []
    with pytest.raises(KeyboardInterrupt), undisturbed("the whole"):
        with undisturbed("a part"):
            signal.raise_signal(signal.SIGINT)
            done.append("part")
        done.append("whole")
    assert done == ["part", "whole"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_second_stop_ends_it_at_once_and_says_what_to_type(interruptible, capsys):
    with pytest.raises(KeyboardInterrupt), undisturbed("the whole", "labkit restore server"):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("it went on")
    assert "stopped during the whole; to put back: labkit restore server" in capsys.readouterr().err
