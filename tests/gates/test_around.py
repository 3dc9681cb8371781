"""Other work on the machine around a lab in a box: counted, kept, and never the lab's own."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from labkit.condition import Condition
from labkit.gates import around
from labkit.results import Results
from labkit.running import loop
from labkit.running.remarks import remarks
from labkit.transports.local import Local
from tests.running.test_gated import STRICT, a_lab
from tests.running.test_study import a_study

PROGRAMS = ("dash", "ping")

LOOP = "while :; do :; done >/dev/null 2>&1 & echo $!"
LOOKS = """
import time
from labkit.gates import around
first = around.look([int(word) for word in {box!r}.split()])
time.sleep(0.8)
print(first, end="---")
print(around.look([int(word) for word in {box!r}.split()]), end="")
"""


@contextmanager
def busy_loops(number=2):
    """Busy loops that are nobody's children, as of another user."""
    pids = []
    try:
        for _ in range(number):
            pids.append(int(subprocess.check_output(["dash", "-c", LOOP])))
        yield pids
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


def looks(box=""):
    """Two looks by another process, each as numbers by name."""
    said = subprocess.check_output([sys.executable, "-c", LOOKS.format(box=box)], text=True)
    return said.split("---")


def rose(name, before, after):
    first, last = (int(text.split(f"{name}:")[1].split("\n")[0]) for text in (before, after))
    return last - first


@pytest.mark.slow
def test_what_others_do_is_other_work_and_what_the_box_does_is_not():
    with busy_loops() as pids:
        others = looks()
        own = looks(" ".join(map(str, pids)))
    assert around.between(*others).much and rose("other", *others) > 10
    assert rose("ours", *own) > 10 > rose("ours", *others)


@pytest.fixture
def results(tmp_path):
    return Results.begin(tmp_path / "r", {"study": "lat_ping", "seed": 1, "refused": {}})


A = Condition("a", "a", "a")


@pytest.mark.slow
def test_beside_busy_loops_each_of_twenty_runs_says_so_and_so_does_their_head(results):
    study = a_study(A)
    with busy_loops():
        loop.run(study, a_lab(Local("here")), results, repeats=20)
    runs = results.finished()
    assert len(runs) == 20 and all("other work" in run.gates[around.ROLE] for run in runs)
    assert all("other work took" in run.gates[around.ROLE]["other work"] for run in runs)
    (said,) = [line for line in remarks(study, results) if line.startswith("machine: ")]
    assert said.startswith("machine: gate other work tripped in 20 of 20 runs, such as: other work")
    assert around.told(results).endswith("more than a tenth in 20 of 20 runs")


@pytest.mark.slow
def test_hosts_of_ones_own_say_themselves_what_they_do(results):
    loop.run(a_study(A), a_lab(Local("here"), tier="hosts", tolerates=(*STRICT, "foreign load")),
             results, repeats=1)  # fmt: skip
    (run,) = results.finished()
    assert around.BEFORE not in run.raw and around.of_run(run) is None and not around.told(results)


def looked(at, other, *, cpus=2, waited=0, stolen=0):
    return (
        f"at:{at:.3f}\ncpus:{cpus}\nours:70000\nother:{other}\n"
        f"/proc/stat:cpu  {100 * at} 0 0 {100 * at} 0 0 0 {stolen} 0 0\n"
        f"/proc/pressure/cpu:some avg10=0.00 avg60=0.00 avg300=0.00 total={waited}\n"
        "/proc/loadavg:3.25 1.00 1.00 2/300 4000\n"
    )


@pytest.mark.parametrize(("ticks", "cpus", "much"), [
    (0, 2, False), (190, 2, False), (210, 2, True), (1300, 2, True), (490, 64, False),
    (510, 64, True), (90, 1, False), (110, 1, True),
])  # fmt: skip
def test_a_quiet_machine_has_no_remark_and_a_tenth_of_its_cpus_is_one(ticks, cpus, much):
    found = around.between(looked(10, 500, cpus=cpus), looked(20, 500 + ticks, cpus=cpus))
    assert found.much is much is not found.gate.ok


def test_the_remark_says_how_much_was_taken_how_long_was_waited_and_what_was_stolen():
    found = around.between(looked(10, 500), looked(20, 1800, waited=8_000_000, stolen=40))
    assert found.gate.why.startswith("other work took 1.3 of 2 CPUs (load 3.2, something waited")
    assert "waited 80.0 % of time, 2.0 % was stolen" in found.gate.why


@pytest.mark.parametrize("text", ["", "at:1\n", "at:x\n", looked(10, 1).replace("stat", "sta")])
def test_looks_that_say_too_little_say_nothing(text):
    assert around.between(looked(10, 1), text) is None
    assert around.between(looked(10, 1), looked(10, 1)) is None, "no time has passed"


def test_a_machine_that_counts_no_pressure_says_the_rest():
    plain = [text.replace("pressure", "none") for text in (looked(10, 500), looked(20, 1800))]
    assert around.between(*plain).gate.why == "other work took 1.3 of 2 CPUs (load 3.2)"
