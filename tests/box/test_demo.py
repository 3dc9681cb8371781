"""`labkit demo` that is killed half-way; `.ci/run` begins with one in a fresh Debian."""

import json
import os
import signal
import subprocess
import sys

import pytest
from leftovers import awaited, snapshot_but_for_others

from labkit.box.status import left_over

pytestmark = [pytest.mark.box, pytest.mark.slow]
# Beside other tests a guest's shell may get its turn late; what hangs takes for ever.
END_SECONDS = 300


@pytest.fixture(autouse=True)
def no_box_of_the_user():
    if left_over("demo"):
        pytest.skip("a demo of the user's is under way")


def traces():
    return snapshot_but_for_others("demo")


def begun(out, **how):
    return subprocess.Popen(
        [sys.executable, "-m", "labkit", "demo"], stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "LABKIT_OUT": str(out)}, **how,
    )  # fmt: skip


@pytest.mark.torture
@pytest.mark.parametrize("moment", ["bringing up", "measuring"])
def test_a_demo_killed_half_way_leaves_nothing_after_box_down(labkit, tmp_path, moment):
    before = traces()
    demo = begun(tmp_path, start_new_session=True)
    if moment == "measuring":
        next(line for line in demo.stderr if "measuring" in line)
    else:
        awaited(lambda: left_over("demo"))
    demo.send_signal(signal.SIGKILL)
    demo.wait()
    done = labkit("box", "down", "--name", "demo")
    assert done.returncode == 0, done.stderr
    awaited(lambda: not traces() - before, END_SECONDS)


@pytest.mark.torture
def test_ctrl_c_puts_everything_back_and_takes_the_box_down(tmp_path):
    before = traces()
    demo = begun(tmp_path)
    next(line for line in demo.stderr if "measuring Run" in line)
    demo.send_signal(signal.SIGINT)
    assert demo.wait(END_SECONDS) == 130
    assert "put back" in demo.stderr.read()
    awaited(lambda: not traces() - before, END_SECONDS)
    finished = [json.loads(f.read_text())["state"] for f in tmp_path.rglob("run.json")]
    assert set(finished) <= {"finished", "invalid", "interrupted"}
