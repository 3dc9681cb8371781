"""What a study takes is known before it starts: sizes, memory, disk and time."""

from collections import defaultdict
from dataclasses import replace
from statistics import fmean
from typing import ClassVar

import pytest

from labkit import studies
from labkit.changes.plan import Plan, Step
from labkit.commands.plan import demanded, rendered
from labkit.condition import Condition
from labkit.host import Host
from labkit.lab import Lab
from labkit.machine.places import HOME
from labkit.results import Results
from labkit.running import possible, sizes
from labkit.running.notebook import as_run
from labkit.running.sizes import Demand, demands, foretold
from labkit.runs.bundle import recorded
from labkit.runs.capacity import Capacity, capacity
from labkit.settings.guest_power import GuestPower
from labkit.settings.neighbour import GuestNeighbour
from labkit.study import Study
from labkit.transports.local import Local
from labkit.workloads.fio import Fio
from labkit.workloads.five_tests import FiveTests
from labkit.workloads.linpack import Linpack

HERE = Condition("here", "m", "h")
SMALL = Condition("small", "m", "h", knobs={"duration": 1})


def study(workload, *conditions):
    return Study("s", "t", "q", "s", workload, conditions or (HERE,), "max iops", "1/s", ())


class Untooled(Fio):
    """A load whose program no machine has."""

    tools: ClassVar = {"no-such-program": "build it"}


@pytest.fixture
def lab():
    host = Host("here", "127.0.0.1", Local("here"))
    return Lab("loopback", dict.fromkeys(("server", "client", "host"), host))


def test_a_plan_takes_the_sizes_that_fit_and_says_disk_and_time(lab):
    asked = study(Fio(duration=5), HERE, SMALL)
    demand, there, refused = foretold(asked, lab, possible.plan(asked, lab), 3)
    disk = capacity(lab.host("server")).disk
    assert not refused
    assert demand.runs == 6 and there["here"].disk == pytest.approx(disk, rel=0.1)
    fits = Fio(duration=5).fitted([there["here"]])
    short = replace(fits, duration=1)
    assert demand.disk == fits.size << 10 and demand.memory == 0
    assert demand.seconds == pytest.approx(3 * (2 * 3 + fits.seconds + short.seconds))
    assert f"{fits.size} MiB of disk" in str(demand) and "6 runs of about" in str(demand)


def test_a_condition_of_hosts_that_the_lab_has_not_is_no_part_of_it(lab):
    elsewhere = replace(HERE, name="elsewhere", roles={"server": "guest9"})
    asked = study(Fio(mebibytes=8), HERE, elsewhere)
    demand, there, refused = foretold(asked, lab, possible.plan(asked, lab), 2)
    assert demand.runs == 2 and [*there] == ["here"]
    assert refused == {"elsewhere": ["the lab has no host for it: no guest9"]}


def test_a_plan_leaves_out_what_a_run_leaves_out_and_says_each_reason_once(lab):
    guests = ("guest", "guest2", "guest3")
    on = tuple(GuestPower("on", guest) for guest in guests)
    needs = replace(HERE, name="needs", settings=on[:2], knobs={"duration": 1})
    asked = study(Fio(mebibytes=8), replace(HERE, optional=on), needs, replace(needs, name="too"))
    planned = possible.plan(asked, lab)
    demand, _, refused = foretold(asked, lab, planned, 2)
    assert demand.runs == 2 and refused.keys() == possible.refusals(asked, lab).keys()
    text = rendered("t", planned, refused)
    assert text.count("has no guest of the box") == 1 and "  needs; too: here has no" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    alone = study(Fio(mebibytes=8), replace(HERE, optional=on))
    planned = possible.plan(alone, lab)
    demand, _, refused = foretold(alone, lab, planned, 2)
    text = rendered("t", planned, refused)
    assert demand.runs == 2 and not refused and "Left out" not in text
    assert "no condition is left out for it:\n  GuestPower: here has no guest" in text


def test_of_several_guests_one_says_what_lacks_and_what_is_replaced_does_not_lack(lab):
    on = tuple(GuestPower("on", guest) for guest in ("guest", "guest2"))
    steps = [Step(setting, "here", why=f"{setting.named}: no power") for setting in on]
    asked = replace(HERE, settings=on)
    assert asked.obstacles(lab, Fio(), Plan(tuple(steps), {})) == ["guest: no power"]
    beside = GuestNeighbour("busy")
    steps = [Step(beside.instead_of, "here"), Step(beside, "here", why="not needed")]
    assert "not needed" not in rendered("t", Plan(tuple(steps), {}), {})
    assert "not needed" in rendered("t", Plan(tuple(steps[1:]), {}), {})


def test_a_program_that_a_host_lacks_is_a_reason_of_the_plan_too(lab):
    asked = study(Untooled(mebibytes=8))
    _, _, refused = foretold(asked, lab, possible.plan(asked, lab), 1)
    assert refused == {name: [why] for name, why in possible.refusals(asked, lab).items()} != {}


def test_of_several_tests_after_each_other_the_largest_counts():
    five = FiveTests(percent=10, millions=40, mebibytes=64)
    assert five.memory == five.loads["stream"].memory > Linpack(percent=10).memory > 0
    assert five.disk == 64 << 10


def test_a_host_with_too_little_is_named_before_the_start():
    demand = Demand("", 4, 40, memory=2 << 20, disk=3 << 20)
    text = demanded(demand, {"poor": Capacity(1, 1 << 20, 1 << 19, disk=4 << 20)})
    said = " ".join(text.split())
    assert "2,048 MiB of memory and 3,072 MiB of disk; 4 runs of about 10 s: 40 s" in said
    assert "poor has 512 MiB of memory free" in said and "MiB of disk free" not in said


def test_a_notebook_says_what_the_plan_says(tmp_path):
    results = Results.begin(tmp_path / "results", {"refused": {"small": "no such host"}})
    said = demands(study(Fio(mebibytes=64, duration=2), HERE, SMALL), results, 5)
    assert "64 MiB of disk; 5 runs of about" in said


@pytest.fixture
def no_results(own_out):
    """None but the recorded ones: whoever runs the tests may have others."""


@pytest.mark.slow
@pytest.mark.usefixtures("no_results")
@pytest.mark.parametrize("name", [
    name for name in studies.names() if (HOME / f"data/recorded/{name}.labkit").exists()
])  # fmt: skip
def test_the_time_of_a_plan_is_that_of_the_recorded_run(name):
    """Within a factor of two, by condition; of other knobs it follows what the load says."""
    asked, _ = as_run(studies.find(name), {}, "box")
    runs = defaultdict(list)
    for run in Results.open(recorded(name)).finished():
        runs[run.condition].append(run.seconds)
    measured = [condition for condition in asked.conditions if condition.name in runs]
    assert measured
    for condition in measured:
        planned = Demand.of(asked, [condition], 1).seconds
        assert planned / 2 <= fmean(runs[condition.name]) <= planned * 2, condition.name


@pytest.mark.usefixtures("no_results")
def test_a_run_of_other_knobs_takes_as_many_times_its_plan_as_the_recorded_one():
    recorded_study = studies.find("lat_cpu_exclusive")
    short = replace(recorded_study, workload=replace(recorded_study.workload, duration=2))
    conditions = recorded_study.conditions
    usual, less = (Demand.of(s, conditions, 1).seconds for s in (recorded_study, short))
    planned, of_less = (sum(sizes.by_plan(s, s.workload).values()) for s in (recorded_study, short))
    assert less / usual == pytest.approx(of_less / planned, rel=0.2) and usual > 2 * planned
