"""A run that is killed or stopped in its middle: whoever is left puts all back."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from leftovers import snapshot_but_for_others
from waiting import awaited

from labkit.box.status import left_over
from labkit.changes.journal import hello

pytestmark = [
    pytest.mark.box,
    pytest.mark.slow,
    pytest.mark.when_changed("labkit/running/", "labkit/changes/", "labkit/box/"),
]
PATIENCE = 60.0
PAUSED_SECONDS = 240.0
"""Conditions come in any order, and the one that pauses a guest may be the last."""


def kernel_of(pid):
    """The kernel among the children of a process; None while there is none."""
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        for number in child.read_text().split():
            if b"ipykernel" in Path(f"/proc/{number}/cmdline").read_bytes():
                return int(number)
    return None


def await_changes(lab, process):
    paused = lambda: "paused" in lab.host("server").check("guest", "state")  # noqa: E731
    awaited(lambda: process.poll() is not None or paused(), PAUSED_SECONDS, "no guest was paused")
    assert process.poll() is None, process.stderr.read()


def test_what_a_killed_kernel_had_in_force_is_put_back_and_said(lab, lab_file, tmp_path):
    words = ["run", "lat_ping", "--where", str(lab_file), "-p", "count=3000", "-p", "repeats=2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "labkit", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "LABKIT_OUT": str(tmp_path)},
    )  # fmt: skip
    try:
        await_changes(lab, process)
        os.kill(kernel_of(process.pid), signal.SIGKILL)
        _, said = process.communicate(timeout=PATIENCE)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and "the kernel of the notebook died" in said
    assert "GuestPower of server is 'running' again" in said, said
    assert [hello(host).open for host in lab.hosts.values()] == [()] * len(lab.hosts)
    assert lab.host("server").check("guest", "state") == "running\n"


def test_what_a_killed_run_left_in_the_temporary_folder_goes_with_the_next(labkit):
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = Path(tempfile.mkdtemp(prefix=f"labkit-run-{ended.pid}-"))
    (left / "progress.jsonl").write_text("{}\n")
    done = labkit("run", "lat_vmxnet3", "--where", "recorded")
    assert done.returncode == 0, done.stderr
    assert not left.exists()
    here = {path.name for path in Path(tempfile.gettempdir()).glob("labkit-run-*")}
    assert not [name for name in here if f"-{done.args and os.getpid()}-" in name]


def test_a_file_where_the_results_should_be_is_an_error_and_no_hang(tmp_path, labkit):
    file = tmp_path / "file"
    file.write_text("")
    done = labkit("run", "lat_vmxnet3", "--where", "recorded", out=file, timeout=PATIENCE)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "LABKIT_OUT" in done.stderr


# Beside other tests a guest's shell may get its turn late; what hangs takes for ever.
END_SECONDS = 300


@pytest.mark.torture
def test_ctrl_c_in_a_demo_puts_everything_back_and_takes_the_box_down(tmp_path):
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
