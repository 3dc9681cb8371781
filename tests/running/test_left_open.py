"""What stands in the way of a study: settings that a crash has left, a workload with a mistake."""

import multiprocessing
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from knobs import Knob

from labkit.changes.in_force import applied
from labkit.changes.restore import restore
from labkit.errors import LabkitError, ResultsError
from labkit.running import loop
from labkit.workloads.ping import Ping
from tests.running.test_study import A, a_study

PROGRAMS = ("ping",)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("ping"), reason="needs iputils-ping"),
]


def left_by_a_crash(knob, lab):
    """The change set of a process that was killed with a setting in force."""

    def die():
        with applied([Knob(str(knob), "new")], lab.hosts):
            os.kill(os.getpid(), signal.SIGKILL)

    knob.write_text("old\n")
    child = multiprocessing.get_context("fork").Process(target=die)
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL and knob.read_text() == "new\n"
    (left,) = Path(os.environ["LABKIT_CHANGES"]).glob("*.open")
    return left


@pytest.mark.parametrize("damaged", [False, True])
def test_nothing_is_measured_on_what_a_crash_left(lab, results, tmp_path, damaged):
    left = left_by_a_crash(tmp_path / "knob", lab)
    content = left.read_bytes()
    if damaged:
        left.write_bytes(content.replace(b"old", b"odl"))
    with pytest.raises(LabkitError, match="unfinished change set") as error:
        loop.run(a_study(A), lab, results, repeats=1)
    assert "labkit restore" in str(error.value) and results.runs() == []
    left.write_bytes(content)
    assert restore(lab.host("server"), "a test").lines
    loop.run(a_study(A), lab, results, repeats=1)
    assert len(results.finished()) == 1


def test_a_block_of_ones_own_around_a_study_is_meant(lab, results, tmp_path):
    (tmp_path / "knob").write_text("old\n")
    with applied([Knob(str(tmp_path / "knob"), "new")], lab.hosts):
        loop.run(a_study(A), lab, results, repeats=1)
    assert len(results.finished()) == 1


@pytest.mark.parametrize("method, does, said", [
    ("run", lambda self, hosts: 1 / 0, r"Broken: its `run` failed\n  ZeroDivisionError"),
    ("run", lambda self, hosts: None, r"(?s)Broken: its `run` failed.*printed text, not None"),
    ("parse", lambda text: {}["x"], r"(?s)left_open.py:\d+: Broken: its `parse` failed.*'x'"),
    ("parse", lambda text: {"a": 1}, r"(?s)Broken: its `parse` failed.*list of Sample, not"),
])  # fmt: skip
def test_a_mistake_in_a_workload_is_told_of_it_and_kept(lab, results, method, does, said):
    does = staticmethod(does) if method == "parse" else does
    broken = type("Broken", (Ping,), {method: does, "name": "ping"})
    study = replace(a_study(A), workload=broken(count=2, interval=0.002))
    with pytest.raises(ResultsError, match=said):
        loop.run(study, lab, results, repeats=1)
    (run,) = results.runs()
    assert run.state == "failed" and "Broken" in run.why
