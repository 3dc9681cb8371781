"""The writer of results, ended or refused at every system call by which it changes something.

Whatever happens, what was kept before is the same to the byte, and what was being written is there
whole or not at all. A careless writer is put through the same, and has to be caught.
"""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import writer

from labkit.results import Results, Run
from labkit.runs import bundle
from tests.changes.test_stops import traced

pytestmark = [
    pytest.mark.when_changed("labkit/runs/", "labkit/results.py"), pytest.mark.slow, traced,
]  # fmt: skip
HELPERS = Path(__file__).parents[1] / "helpers"
KEPT = Run("Native", 1, 1, "finished", rows=({"metric": "round trip", "n": 3},))
# A full disk, a broken one; where each of them can appear.
ERRORS = (errno.ENOSPC, errno.EIO)
REFUSED = ("open", "openat", "write", "fsync", "mkdir", "rename", "link")
ACTIONS = ("keep", "begin", "export", "unpack")
KILLED = 128 + signal.SIGKILL


def does(action, results, what="kill", at=0):
    """The code of one action, of which that becomes at its N-th call, and its calls by name."""
    log = results.path.parent.with_suffix(".log")
    env = {**os.environ, "PYTHONPATH": str(HELPERS.parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-I", "-S", HELPERS / "killer.py", log, str(what), str(at),
             sys.executable, HELPERS / "writer.py", action, results.path]  # fmt: skip
    code = subprocess.run(words, env=env, capture_output=True).returncode
    return code, [line.split(" ")[0] for line in log.read_text().splitlines()]


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "elsewhere"))
    made = Results.begin(tmp_path / "home" / "r", {"study": "lat_ping", "label": "x"})
    made.keep(KEPT, {"ping.txt": "hello"})
    bundle.export(made, tmp_path / "home" / "in.labkit")
    return made


def tree(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def cleared(results):
    """Back to one kept run and nothing else."""
    home = results.path.parent
    others = (path for path in (results.path / "runs").iterdir() if path.name != "001-Native-b1")
    new = (results.path / "new", home / "out.labkit", home / "unpacked", *home.glob(".*.half"))
    for path in (*others, *new):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def wrong(results, before, failed):
    """What is not as promised; `failed` if the action said so, and so must have left nothing."""
    now = tree(results.path.parent)
    names = [name for name, text in before.items() if now.get(name) != text]
    runs, damaged = results.readable()
    names += list(damaged) + [line for run in runs for line in run.check()]
    known = {"001-Native-b1", "002-VM-Default-b2", "002-VM-Default-b2.begun"}
    if {run.path.name for run in runs} - known:
        names.append("there are other runs than were written")
    new = results.path / "new" / "study.json"
    if new.exists() and Results.open(new.parent).study != "lat_ping":
        names.append("the question is not the one that was asked")
    if (file := results.path.parent / "out.labkit").exists():
        bundle.examine(file)
    if (folder := results.path.parent / "unpacked").exists():
        names += [x for x in ("study.json",) if tree(folder)[x] != before[f"r/{x}"]]
        names += [line for run in Results.open(folder).runs() for line in run.check()]
    if failed and len(runs) > 1:
        names.append("it said that it failed, and the run is there")
    return names


def killed_at_every_call(action, results):
    """What is wrong after the writer was killed at each call that changes something."""
    before = tree(results.path.parent)
    code, calls = does(action, results)
    assert code == 0
    found = []
    for n, call in enumerate(calls, 1):
        cleared(results)
        assert does(action, results, at=n)[0] == KILLED, f"{call} {n}"
        found += [f"{call} {n}: {what}" for what in wrong(results, before, failed=False)]
    return found, calls


@pytest.mark.parametrize("action", [*ACTIONS, "noted"])
def test_a_writer_killed_at_any_system_call_leaves_whole_results(results, action):
    found, calls = killed_at_every_call(action, results)
    assert found == [] and len(calls) >= 4
    cleared(results)
    assert len(results.runs()) == 1
    results.keep(writer.RUN, {"ping.txt": "and the next one is kept"})
    assert len(results.runs()) == 2


def test_a_careless_writer_is_caught_by_the_same_check(results):
    assert killed_at_every_call("careless", results)[0]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_disk_that_refuses_any_call_loses_nothing_and_is_said(results, action):
    before, refused = tree(results.path.parent), 0
    _, calls = does(action, results)
    points = [(n, call) for n, call in enumerate(calls, 1) if call in REFUSED]
    for error, (n, call) in ((error, point) for error in ERRORS for point in points):
        cleared(results)
        code, _ = does(action, results, error, n)
        assert code in (0, 3), f"{call} {n} {error}: {code}"
        refused += code == 3
        assert wrong(results, before, failed=code == 3) == [], f"{call} {n} {error}"
    assert refused >= 4


def test_what_a_killed_writer_left_is_shown_and_is_no_run(results, typed):
    _, calls = does("keep", results)
    cleared(results)
    assert does("keep", results, at=calls.index("fsync") + 1)[0] == KILLED
    assert [run.path.name for run in results.runs()] == ["001-Native-b1"]
    assert "was being written when its writer ended" in typed(
        "results", "verify", results.path, code=1
    )
