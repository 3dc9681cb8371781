"""Ready time: what the kernel counts for real processes, and how its text is read."""

import os
import re
import time
from pathlib import Path

import pytest
from waiting import alive

from labkit.errors import BadInput, ResultsError, Unknown
from labkit.probes.ready_time import Between, ReadyTime, between

PROGRAMS = ("taskset",)

HERE = Path(__file__).parent
LOOK = HERE.joinpath("look.txt").read_text()
LATER = HERE.joinpath("later.txt").read_text()


def test_what_happened_between_two_looks_is_summed_over_the_threads_of_a_guest():
    between = Between.of(LOOK, LATER)
    assert between.seconds == 2.0 and [*between.counts] == ["guest", "guest2"]
    assert between.ran("guest") == pytest.approx(0.6), "a new thread counts from its beginning"
    assert between.waited("guest") == pytest.approx(1.0) and between.turns("guest") == 43
    assert between.ran("guest2") == between.waited("guest2") == 0
    assert between.busy == pytest.approx(0.25)


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
ESXTOP = HERE.joinpath("esxtop.txt").read_text()


def test_the_ready_time_of_machines_of_esxi_is_their_groups_without_the_first_moment():
    found = between("esxtop guest lab\nesxtop guest2 shop (old)\n", ESXTOP)
    assert found.seconds == 4.0 and found.cpus == (0, 1)
    assert [*found.counts] == ["guest", "guest2"] and found.turns() is None
    assert found.ran("guest") == pytest.approx(0.8) and found.ran() == pytest.approx(4.0)
    assert found.waited("guest") == pytest.approx(0.015)
    rates = {s.metric: s.values[0] for s in ReadyTime.parse("", ESXTOP)}
    assert rates["ready time of guest2"] == pytest.approx(1750), "two CPUs may wait at once"
    assert rates["CPU time of guest"] == pytest.approx(200)


def test_a_last_line_that_was_cut_off_is_left_out_and_too_few_are_refused():
    cut = ESXTOP + '"11/21/2026 12:00:06","50","10'
    assert between("", cut).seconds == 4.0
    with pytest.raises(ResultsError, match="too few"):
        between("", "\n".join(ESXTOP.splitlines()[:4]))


@pytest.mark.parametrize("old, new, wrong", [
    ("guest lab", "guest nobody", "known: lab, shop"), ("% Used", "% Run", "says no % Used of lab"),
    ("(PDH", "(CSV", "not what `esxtop -b` prints"),
    ("0.50", "x", "esxtop: cannot read line 3, field 5"),
])  # fmt: skip
def test_what_esxtop_does_not_say_is_refused_by_name(old, new, wrong):
    with pytest.raises((ResultsError, Unknown), match=re.escape(wrong)):
        between("", ESXTOP.replace(old, new))


@pytest.mark.slow
def test_two_that_want_one_cpu_stand_in_line_half_of_the_time():
    cpu = str(min(os.sched_getaffinity(0)))
    loop = ["taskset", "-c", cpu, "sh", "-c", "while :; do :; done"]
    with alive(loop) as one, alive(loop):
        counted = Path(f"/proc/{one.pid}/schedstat")
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
