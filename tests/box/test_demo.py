"""`labkit demo` that is stopped half-way; `.ci/run` begins with one in a fresh Debian."""

import json
import os
import signal
import subprocess
import sys

import pytest
from leftovers import awaited, snapshot_but_for_others

from labkit.box.status import left_over

pytestmark = [pytest.mark.box, pytest.mark.slow, pytest.mark.torture]
# Beside other tests a guest's shell may get its turn late; what hangs takes for ever.
END_SECONDS = 300


def test_ctrl_c_puts_everything_back_and_takes_the_box_down(tmp_path):
    if left_over("demo"):
        pytest.skip("a demo of the user's is under way")
    before = snapshot_but_for_others("demo")
    demo = subprocess.Popen(
        [sys.executable, "-m", "labkit", "demo"], stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "LABKIT_OUT": str(tmp_path)},
    )  # fmt: skip
    next(line for line in demo.stderr if "measuring Run" in line)
    demo.send_signal(signal.SIGINT)
    assert demo.wait(END_SECONDS) == 130
    assert "put back" in demo.stderr.read()
    awaited(lambda: not snapshot_but_for_others("demo") - before, END_SECONDS)
    finished = [json.loads(f.read_text())["state"] for f in tmp_path.rglob("run.json")]
    assert set(finished) <= {"finished", "invalid", "interrupted"}
