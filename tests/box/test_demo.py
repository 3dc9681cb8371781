"""`make demo` as a newcomer types it: from a fresh clone, and killed half-way."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from leftovers import awaited, snapshot_but_for_others

from labkit.box.status import left_over

HOME = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.box, pytest.mark.slow]
# Beside other tests a guest's shell may get its turn late; what hangs takes for ever.
END_SECONDS = 300


@pytest.fixture(autouse=True)
def no_box_of_the_user():
    if left_over("demo"):
        pytest.skip("a demo of the user's is under way")


def traces():
    return snapshot_but_for_others("demo")


def give_packages(clone):
    """What `.ci/venv` made here, for the clone; that it does, the start of `make test` shows."""
    made = ["cp", "-al", HOME / ".venv", clone / ".venv"]
    if subprocess.run(made, capture_output=True).returncode:
        subprocess.run(["rm", "-rf", clone / ".venv"], check=True)  # then `make` makes it
        return
    named = [
        *(clone / ".venv/bin").iterdir(),
        *clone.glob(".venv/lib/*/site-packages/*labkit*.pth"),
    ]
    for file in named:
        if not file.is_symlink() and (here := str(HOME).encode()) in (whole := file.read_bytes()):
            mode = file.stat().st_mode
            file.unlink()
            file.write_bytes(whole.replace(here, str(clone).encode()))
            file.chmod(mode)


@pytest.mark.torture  # .ci/run begins with it, in a fresh Debian
def test_make_demo_works_from_a_fresh_clone(tmp_path):
    clone, before = tmp_path / "labkit", traces()
    subprocess.run(["git", "clone", "-q", str(HOME), str(clone)], check=True)
    give_packages(clone)
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "LABKIT_OUT")}
    done = subprocess.run(["make", "demo"], cwd=clone, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    for said in (
        "Positive control", "Negative control", "Smallest difference", "lat-cpu-exclusive-01",
        "response time, µs", "Emulated", "Found: ", "make lab", "labkit doctor",
    ):  # fmt: skip
        assert said in done.stdout, said
    assert "document's median" not in done.stdout, "the document prints none of these"
    assert not [line for line in done.stdout.splitlines() if len(line) > 80 and "/" not in line]
    (report,) = (clone / "out" / "reports").glob("lat_cpu_exclusive-*.html")
    page = report.read_text("utf-8")
    assert "lat-cpu-exclusive-04" in page and "Controls of this lab" in page
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=[\"']?https?:", page)
    runs = list((clone / "out" / "results").glob("lat_cpu_exclusive/*/runs/*/run.json"))
    states = [json.loads(run.read_text())["state"] for run in runs]
    assert states.count("finished") == 8 and set(states) <= {"finished", "invalid"}
    awaited(lambda: not traces() - before, END_SECONDS)


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
