"""Ready time: what the kernel counts for real processes, and how its text is read."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from labkit.errors import BadInput, ResultsError, Unknown
from labkit.probes.ready_time import Between, ReadyTime, of_esxtop

LOOK = """cpus 0-1
at 100.5
task guest 7 1000000000 200000000 50
task guest2 9 5 5 1
cpu0 10 0 10 80 0 0 0 0 0 0
cpu1 0 0 0 100 0 0 0 0 0 0
"""
LATER = """cpus 0-1
at 102.5
task guest 7 1500000000 1200000000 90
task guest 8 100000000 0 3
task guest2 9 5 5 1
cpu0 110 0 10 180 0 0 0 0 0 0
cpu1 0 0 0 250 50 0 0 0 0 0
"""


def test_what_happened_between_two_looks_is_summed_over_the_threads_of_a_guest():
    between = Between.of(LOOK, LATER)
    assert between.seconds == 2.0 and between.guests == ["guest", "guest2"]
    assert between.ran("guest") == pytest.approx(0.6), "a new thread counts from its beginning"
    assert between.waited("guest") == pytest.approx(1.0) and between.turns("guest") == 43
    assert between.ran("guest2") == between.waited("guest2") == 0
    assert between.busy((0,)) == pytest.approx(0.5) and between.busy((1,)) == 0
    assert between.busy() == pytest.approx(0.25)


def test_each_guest_has_its_ready_time_in_milliseconds_for_each_second():
    found = {s.metric: s.values[0] for s in ReadyTime.parse(LOOK, LATER)}
    assert found["ready time of guest"] == pytest.approx(500)
    assert found["CPU time of guest"] == pytest.approx(300)
    assert found["ready time of guest2"] == 0


@pytest.mark.parametrize("damaged", ["", LOOK[:9], LOOK.replace("task", "tusk"), LATER + "x\n"])
def test_text_that_is_not_whole_is_refused(damaged):
    with pytest.raises(ResultsError, match="ready time"):
        Between.of(damaged, LATER)


def test_a_clock_that_goes_back_is_refused():
    with pytest.raises(ResultsError, match="went back"):
        Between.of(LATER, LOOK)


def test_a_name_that_a_shell_would_read_is_refused():
    with pytest.raises(BadInput):
        ReadyTime(("guest; reboot",))


# The form of `esxtop -b`; the names and figures are made up, as no ESXi was at hand.
ESXTOP = """\
"(PDH-CSV 4.0) (UTC)(0)","\\\\h\\Group Cpu(7:lab)\\% Ready","\\\\h\\Group Cpu(8:lab2)\\% Ready"
"11/21/2026 12:00:00","0.50","150.00"
"11/21/2026 12:00:05","0.25","200.00"
"""


def test_the_ready_time_of_a_machine_of_esxi_is_its_group_s_in_the_same_unit():
    assert list(of_esxtop(ESXTOP, "lab").values) == [5.0, 2.5]
    assert list(of_esxtop(ESXTOP, "lab2").values) == [1500, 2000]
    with pytest.raises(Unknown, match="known: lab, lab2"):
        of_esxtop(ESXTOP, "other")
    for cut in (ESXTOP.splitlines()[0], ESXTOP[:-12]):
        with pytest.raises(ResultsError, match="esxtop"):
            of_esxtop(cut, "lab2")


def test_two_that_want_one_cpu_stand_in_line_half_of_the_time():
    cpu = str(min(os.sched_getaffinity(0)))
    loop = ["taskset", "-c", cpu, "sh", "-c", "while :; do :; done"]
    both = [subprocess.Popen(loop) for _ in range(2)]
    try:
        counted = Path(f"/proc/{both[0].pid}/schedstat")
        before = [int(word) for word in counted.read_text().split()]
        until = time.monotonic() + 60
        while time.monotonic() < until:
            ran, waited, _ = (
                int(now) - was for now, was in zip(counted.read_text().split(), before, strict=True)
            )
            if ran > 5e8:
                break
            time.sleep(0.02)
        assert waited > 0.5 * ran, "another that wants the CPU gets as much of it"
    finally:
        for one in both:
            one.kill()
            one.wait()
