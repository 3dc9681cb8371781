"""The writer of results, ended or refused at every system call that it makes.

Whatever happens, what was kept before is the same to the byte, and what was being written is there
whole or not at all. A careless writer is put through the same, and has to be caught.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import writer

from labkit.results import Results, Run
from labkit.runs import bundle

PROGRAMS = ("strace",)

pytestmark = [
    pytest.mark.when_changed("labkit/runs/", "labkit/results.py"),
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("strace"), reason="no strace; to get it: make test"),
]
KEPT = Run("Native", 1, 1, "finished", rows=({"metric": "round trip", "n": 3},))
# A full disk, a broken one; where each of them can appear.
REFUSALS = [
    (error, call) for error in ("ENOSPC", "EIO") for call in ("openat", "write", "fsync", "mkdir",
                                                             "rename", "link", "close")
]  # fmt: skip
ACTIONS = ("keep", "begin", "export", "unpack")


class Writer:
    """A writer whose every system call can be made its last."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).parents[1] / "helpers/writer.py"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def does(self, action, path, log, inject=()):
        """The exit code of one action, traced; negative is the signal that ended it."""
        self.process.stdin.write(json.dumps({"action": action, "path": str(path)}) + "\n")
        self.process.stdin.flush()
        pid = int(self.process.stdout.readline())
        words = ["strace", "-f", "-o", str(log), *(f"-einject={inject}" for _ in [0] if inject)]
        tracer = subprocess.Popen([*words, "-p", str(pid)], stderr=subprocess.PIPE, text=True)
        said = tracer.stderr.readline()
        os.kill(pid, signal.SIGCONT)
        code = int(self.process.stdout.readline())
        tracer.wait(20)
        tracer.stderr.close()
        if "attached" not in said:
            pytest.skip(f"strace may not trace here: {said.strip()}")
        return code

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def tracing():
    made = Writer()
    yield made
    made.close()


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "elsewhere"))
    made = Results.begin(tmp_path / "r", {"study": "lat_ping", "label": "x"})
    made.keep(KEPT, {"ping.txt": "hello"})
    bundle.export(made, tmp_path / "in.labkit")
    return made


def tree(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def calls(tracing, action, results, log):
    """How often each system call is made in one undisturbed action."""
    assert tracing.does(action, results.path, log) == 0
    return Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE))


def cleared(results):
    """Back to one kept run and nothing else."""
    for path in (results.path / "runs").iterdir():
        if path.name != "001-Native-b1":
            shutil.rmtree(path)
    for name in ("out.labkit", "unpacked"):
        path = results.path.parent / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    shutil.rmtree(results.path / "new", ignore_errors=True)
    for left in results.path.parent.glob(".*.half"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()


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


def killed_at_every_call(tracing, action, results, log, every=1):
    """The faults found when the writer is killed at each system call that it makes."""
    before = tree(results.path.parent)
    counted = calls(tracing, action, results, log)
    found, points = [], [(name, n) for name, most in counted.items() for n in range(1, most + 1)]
    for name, n in points[::every]:
        cleared(results)
        code = tracing.does(action, results.path, log, f"{name}:signal=SIGKILL:when={n}")
        assert code in (-signal.SIGKILL, 0), f"{name} {n}: {code}"
        found += [f"{name} {n}: {what}" for what in wrong(results, before, failed=False)]
    return found, len(points[::every])


@pytest.mark.parametrize("action", [*ACTIONS, "noted"])
def test_a_writer_killed_at_any_system_call_leaves_whole_results(
    tracing, results, tmp_path, action
):
    found, points = killed_at_every_call(tracing, action, results, tmp_path / "log")
    assert found == []
    assert points > 10
    cleared(results)
    assert len(results.runs()) == 1
    results.keep(writer.RUN, {"ping.txt": "and the next one is kept"})
    assert len(results.runs()) == 2


def test_a_careless_writer_is_caught_by_the_same_check(tracing, results, tmp_path):
    found, _ = killed_at_every_call(tracing, "careless", results, tmp_path / "log", every=3)
    assert found


@pytest.mark.parametrize("action", ACTIONS)
def test_a_disk_that_refuses_any_call_loses_nothing_and_is_said(tracing, results, tmp_path, action):
    log, before = tmp_path / "log", tree(results.path.parent)
    counted, refused = calls(tracing, action, results, log), 0
    for error, name in REFUSALS:
        for n in range(1, counted[name] + 1):
            cleared(results)
            code = tracing.does(action, results.path, log, f"{name}:error={error}:when={n}")
            assert code in (0, 3), f"{name} {n} {error}: {code}"
            refused += code == 3
            assert wrong(results, before, failed=code == 3) == [], f"{name} {n} {error}"
    assert refused >= 4


def test_what_a_killed_writer_left_is_shown_and_is_no_run(tracing, results, tmp_path, capsys):
    from labkit.cli import main

    tracing.does("keep", results.path, tmp_path / "log", "fsync:signal=SIGKILL:when=2")
    assert [run.path.name for run in results.runs()] == ["001-Native-b1"]
    assert main(["results", "verify", str(results.path)]) == 1
    assert "was being written when its writer ended" in capsys.readouterr().out
