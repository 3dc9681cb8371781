"""Other work on the machine around a lab in a box: counted, kept, and never the lab's own."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from labkit import studies
from labkit.check import Subject
from labkit.checks.linux import around as check
from labkit.condition import Condition
from labkit.gates import around
from labkit.pages.old_and_new import old_and_new
from labkit.pages.report_head import head_of
from labkit.results import Results, Run
from labkit.running import loop
from labkit.running.open_lab import stored_results
from labkit.running.remarks import remarks
from labkit.transports.local import Local
from tests.running.test_gated import STRICT, a_lab
from tests.running.test_study import a_study

PROGRAMS = ("dash", "ping")

LAB = {"name": "box", "tier": "root", "accelerator": "uml", "hosts": {}}
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
    output = subprocess.check_output([sys.executable, "-c", LOOKS.format(box=box)], text=True)
    return output.split("---")


@pytest.mark.slow
def test_what_others_do_is_other_work_and_what_the_box_does_is_not():
    with busy_loops() as pids:
        others = looks()
        own = looks(" ".join(map(str, pids)))
    assert around.between(*others).much
    counted = [[text.count(f"\n{pid} ") for pid in pids] for text in (*others, *own)]
    assert counted == [[1, 1], [1, 1], [0, 0], [0, 0]]


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
        f"at:{at:.3f}\ncpus:{cpus}\n77 500:{other} 0\n"
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


@pytest.mark.slow
def test_the_doctor_sees_a_busy_machine_under_a_box_and_leaves_other_hosts_to_themselves():
    box, own = (Subject(a_lab(Local("here"), tier=t), ("client",)) for t in ("loopback", "hosts"))
    with busy_loops():
        (found,) = check.made(box)
    assert (found.state, found.where) == ("warning", "machine")
    assert re.match(r"other work took \d+\.\d of \d+ CPUs", found.found) and "top -b" in found.fix
    assert check.made(own) == []


def kept(folder, other):
    """Results of lat_ping beside whose runs other work took so many ticks a second."""
    found = Results.begin(folder, {"study": "lat_ping", "seed": 1, "refused": {}, "lab": LAB})
    text = stored_results("lat_ping", "recorded").finished()[0].text("ping.txt")
    looks = {around.BEFORE: looked(10, 500), around.AFTER: looked(20, 500 + 10 * (other or 0))}
    for block in range(1, 4):
        run = Run("Native", block, block, "finished")
        found.keep(run, {"ping.txt": text, **(looks if other is not None else {})})
    return found


@pytest.mark.parametrize(("other", "much"), [(None, False), (1, False), (130, True)])
def test_a_head_and_a_comparison_name_a_busy_machine_and_nothing_else(tmp_path, other, much):
    new, old = kept(tmp_path / "new", other), kept(tmp_path / "old", None)
    facts = dict(head_of(studies.find("lat_ping"), new, []).facts)
    text = "other work took 1.3 of 2 CPUs (median); it was more than a tenth in 3 of 3 runs"
    assert facts.get("beside it", "") == (text if much else "")
    both = old_and_new(old, new)
    for text_of in (both.text(), both.markdown(), both.page()):
        plain = " ".join(text_of.split())
        assert (f"The machine was busy with other work (new: {text})" in plain) is much


def test_what_lived_for_a_moment_is_counted_by_its_parent_and_what_had_run_before_is_not():
    before, after = looked(10, 500), looked(20, 510)
    before += "80 100:9000 40\n81 200:40 0\n"
    # The parent 77 has waited for 80 and 81, and for one that lived between the looks.
    after = after.replace(":510 0", ":510 9330") + "90 900:7 0\n"
    found = around.between(before, after)
    assert found.other == pytest.approx((10 + 7 + (9330 - 9080)) / 100 / 10)
    # One that nobody waited for takes what it did with it.
    assert around.between(before, looked(20, 510)).other == pytest.approx(10 / 100 / 10)
