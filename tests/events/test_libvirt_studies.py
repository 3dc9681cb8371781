"""A whole study on two hosts with real libvirt: its runs, its figures, and its verdicts.

The machine that moves writes by itself, at one speed; the study's own load runs beside it. So no
verdict on how fast a guest writes can be more than undecided here.
"""

from dataclasses import replace

import pytest
from two_libvirts import VM, two_libvirts

from labkit import studies
from labkit.errors import BadInput
from labkit.judging import judge
from labkit.running.loop import run
from labkit.running.open_lab import study_results
from labkit.settings.egress import Link
from labkit.verdict import NOT_TESTABLE, UNDECIDED
from labkit.workloads.dirty_memory import DirtyMemory

PROGRAMS = ("virsh",)

pytestmark = [pytest.mark.box, pytest.mark.torture]
LINE = 500
"""Mbit/s of the link: the document's 20 Gb/s at the study's scale."""
THERE = {"5.5 [gbps=20]", "6.0 [gbps=20]", "6.0 [dirty=low]", "6.0 [dirty=high]"}


@pytest.fixture
def lab(tmp_path):
    with two_libvirts(tmp_path, LINE) as found:
        yield found


def test_the_large_guest_is_moved_and_judged(lab, own_out):
    study = studies.find("monster_vmotion")
    study = replace(study, workload=replace(study.workload, mebibytes=8))
    results = study_results(study, lab, "hosts.toml", label="libvirt")
    refused = results.asked["refused"]
    assert {condition.name for condition in study.conditions} - set(refused) == THERE
    assert "has 500 Mbit/s, not 250" in refused["6.0 [gbps=10]"]
    run(study, lab, results, repeats=1)
    assert [one.state for one in results.runs()] == ["finished"] * len(THERE)
    for one in results.finished():
        at = {sample.metric: sample.values for sample in study.samples(one)}
        assert at["arrived share"] == 1 and at["switchover time"] > 0
        assert at["bandwidth"].size >= 10 and 0.7 < at["share of line"].max() < 1.1
        assert at["rounds"] > 1 and at["cpu utilization"].max() > 0
    verdicts = {one.claim: one for one in judge(study, results)}
    print(*(f"{v.claim} {v.verdict}: {v.why}" for v in verdicts.values()), sep="\n")
    assert verdicts.pop("monster-vmotion-10").verdict == UNDECIDED
    assert {verdict.verdict for verdict in verdicts.values()} == {NOT_TESTABLE}
    assert "has 500 Mbit/s, not 1000" in verdicts["monster-vmotion-03"].why
    assert lab.host("server").run("virsh", "domstate", VM).stdout.strip() == "running"


def test_a_move_that_is_given_up_is_a_finished_run(lab, own_out):
    study = studies.find("monster_vmotion")
    chosen = study.condition("6.0 [gbps=20]")
    late = replace(chosen.events[0], deadline=3, escape="give up")
    study = replace(
        study, workload=replace(study.workload, mebibytes=8),
        conditions=(replace(chosen, events=(late,)),),
        absent=tuple(condition.name for condition in study.conditions if condition != chosen),
    )  # fmt: skip
    results = study_results(study, lab, "hosts.toml", label="given-up")
    run(study, lab, results, repeats=1)
    (only,) = results.runs()
    at = {sample.metric: sample.values for sample in study.samples(only)}
    assert only.state == "finished" and at["arrived share"] == 0 and "migration time" not in at
    assert lab.host("server").run("virsh", "domstate", VM).stdout.strip() == "running"


def test_a_round_trip_is_given_to_both_ends_of_the_link_by_settings(lab):
    far = studies.find("ld_vmotion").condition("VM [rtt=100ms]")
    assert far.asked(lab) == [Link(500, 50, role=end) for end in ("server", "server2")]
    in_a_box = replace(lab, tier="namespaces", accelerator="tcg")
    assert not far.asked(in_a_box), "its own link has the round trip"


def test_a_link_that_others_have_shaped_is_left_alone_and_named(lab, tmp_path):
    far = studies.find("ld_vmotion")
    study = replace(far, workload=DirtyMemory(mebibytes=8))
    with pytest.raises(BadInput, match="can do no condition of ld_vmotion") as error:
        study_results(study, lab, "hosts.toml", label="far")
    lines = str(error.value).splitlines()
    for condition in study.conditions:
        (line,) = [text for text in lines if f"{condition.name}:" in text]
        # A kernel without netem says so before anybody looks at the queues.
        assert "has queues already" in line or "qdisc kind is unknown" in line
    assert lab.host("server").run("virsh", "domstate", VM).stdout.strip() == "running"
