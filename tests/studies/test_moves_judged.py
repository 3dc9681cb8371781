"""Moves: what they ask of a lab, and what a study makes of raw text that was planted."""

import json
from dataclasses import replace

import pytest
from planted import results

from labkit import studies
from labkit.event import Say
from labkit.events._seen import SPAN
from labkit.judging import judge
from labkit.lab import Lab
from labkit.results import Run
from labkit.settings.egress import Link
from labkit.studies.monster_vmotion import over
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE

BEGUN, ENDED = 1020.0, 1035.0
ENOUGH = 10
"""Values of a bandwidth in one run, of which the most is taken."""


def moved(condition, mbit=400.0, ended=ENDED, still=0.8):
    """The lines of a move as that condition asks for it, over which so much came in."""
    say, rate = Say(), condition.events[0].rate_mbit
    say(moves="guest", origin="server", to="server2", rate_mbit=rate, t=BEGUN)
    say(host="server", event="MIGRATION", status="setup", at=BEGUN, t=BEGUN)
    for n in range(round(10 * (ended - BEGUN)) + 5):
        say(host="server2", t=BEGUN + n / 10, net={"data0": [int(mbit * n * 12500), 0]})
    say(host="server", event="STOP", at=ended - 0.2 - still, t=ended)
    say(host="server2", event="RESUME", at=ended - 0.2, t=ended)
    say(host="server", event="MIGRATION", status="completed", at=ended, t=ended)
    return {"live_migration.txt": say.text}


def shop(meanwhile):
    """The driver's lines: 100 orders a second, `meanwhile` as a share of it during the copying."""
    levels = [100 * meanwhile if 20 <= n < 34 else 0 if n == 34 else 100 for n in range(45)]
    seconds = [f"s {1000.999 + n:.3f} {orders:.0f} 0 1 1 0" for n, orders in enumerate(levels)]
    whole = round(sum(levels))
    end = json.dumps({"orders": whole, "short": 0, "cpu": 1.0, "ended": whole})
    head, tail = ["shop 1 {}", "measuring 1000.000"], [f"h 9000 {whole}", f"end {end}"]
    return {"dvdstore.txt": "\n".join([*head, *seconds, *tail, 'checked {"wrong": []}'])}


def writes():
    """The lines of a guest that writes all the while."""
    counts = [f"{1000 + n / 10:.3f} {n / 10:.2f} {400 * n}" for n in range(400)]
    return {"dirty_memory.txt": "\n".join(["pages 20480", *counts])}


def verdicts(study, path, texts, tier="hosts"):
    """By claim what the study says of five blocks of such texts."""
    absent = tuple(condition.name for condition in study.conditions if condition.name not in texts)
    study = replace(study, conditions=tuple(map(study.condition, texts)), absent=absent)
    kept = results(path, tier, **study.asked(tier, 1))
    for block in range(1, 6):
        for name, text in texts.items():
            kept.keep(Run(name, block, block, "finished"), text)
    return {one.claim: one for one in judge(study, kept)}


@pytest.mark.parametrize("meanwhile, wanted", [(1, HOLDS), (0.25, CONTRADICTED)])
def test_orders_that_fall_while_a_database_is_copied_contradict_a_minimal_impact(
    tmp_path, meanwhile, wanted
):
    study, far = studies.find("ld_vmotion"), "VM [rtt=100ms]"
    texts = {far: moved(study.condition(far)) | shop(meanwhile)}
    assert verdicts(study, tmp_path, texts)["ld-vmotion-04"].verdict == wanted
    boxed = verdicts(study, tmp_path, texts, "root")["ld-vmotion-04"]
    assert boxed.verdict == NOT_TESTABLE and "emulate the guest" in boxed.why


@pytest.mark.parametrize("still, wanted", [(0.78, HOLDS), (1.4, CONTRADICTED)])
def test_a_guest_that_stands_still_for_three_times_as_long_does_so_more_than_marginally(
    tmp_path, still, wanted
):
    study, near, far = studies.find("ld_vmotion"), "VM [rtt=5ms]", "VM [rtt=100ms]"
    texts = {
        near: moved(study.condition(near), still=0.5) | shop(1),
        far: moved(study.condition(far), still=still) | shop(1),
    }
    assert verdicts(study, tmp_path, texts, "root")["ld-vmotion-02"].verdict == wanted


@pytest.mark.parametrize("share, wanted", [(0.26, HOLDS), (0.9, CONTRADICTED)])
def test_the_bandwidths_of_two_releases_are_compared_on_the_documents_lines(
    tmp_path, share, wanted
):
    study = over(studies.find("monster_vmotion"), 1)
    older, newer = "5.5 [gbps=80]", "6.0 [gbps=80, dirty=all]"
    texts = {
        older: moved(study.condition(older), 64_000 * share) | writes(),
        newer: moved(study.condition(newer), 64_000) | writes(),
    }
    assert verdicts(study, tmp_path, texts)["monster-vmotion-07"].verdict == wanted


def test_fast_lines_carry_a_guest_that_writes_without_a_pause_and_are_seen_often_enough():
    study = studies.find("monster_vmotion")
    fast = [condition for condition in study.conditions if condition.events[0].rate_mbit >= 1000]
    assert len(fast) == 7
    for one in fast:
        assert one.load(study.workload).rate == 0, one.name
        move, text = one.events[0], moved(one, ended=BEGUN + one.events[0].deadline)
        seen = {
            sample.metric: sample.values for sample in move.parse(text["live_migration.txt"], {})
        }
        assert seen["bandwidth"].size >= ENOUGH and move.deadline >= ENOUGH * SPAN, one.name


def test_the_far_end_of_a_link_is_asked_only_where_the_lab_has_it(tmp_path):
    far = studies.find("ld_vmotion").condition("VM [rtt=100ms]")
    file = tmp_path / "lab.toml"
    file.write_text(
        '[hosts.client]\ncontrol = "192.0.2.1"\n[hosts.server]\ncontrol = "192.0.2.2"\n'
    )
    assert far.asked(Lab.read(file)) == [Link(500, 50)]
    file.write_text(file.read_text() + '[hosts.server2]\ncontrol = "192.0.2.3"\n')
    assert far.asked(Lab.read(file)) == [Link(500, 50), Link(500, 50, role="server2")]
