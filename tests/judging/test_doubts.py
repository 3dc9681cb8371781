"""Doubts of the runs stand in a verdict's line."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from labkit import studies
from labkit.claim import compare
from labkit.gates.gate import BUSY_CLIENT
from labkit.judging.doubts import SPOILS, TOO_SLOW, Doubts, Loads, unhurried
from labkit.results import Results, Run
from labkit.running.open_lab import recorded
from labkit.verdict import CONTRADICTED, HOLDS, UNDECIDED
from labkit.workloads.fio import Fio
from labkit.workloads.sockperf import Sockperf

BUSY = {"client": {BUSY_CLIENT: "cpu0 was busy for 100.0 % of the time"}}
NO_TIME = SPOILS[BUSY_CLIENT]
ASKING = (Sockperf(),)


@dataclass
class Kept:
    """Results of these runs alone."""

    runs: list
    asked: dict = field(default_factory=dict)

    def readable(self):
        return self.runs, []


def run(condition, block, state="finished", gates=None):
    return Run(condition, block, block, state, "", {}, gates=gates or {})


def verdict_of(low, high):
    blocks = [{n: [base + n / 10 + k / 100 for k in range(40)] for n in range(5)}
              for base in (low, high)]  # fmt: skip
    return compare(*blocks, names=("a", "b"))


@pytest.mark.parametrize("low, high, plain", [(10, 20, HOLDS), (20, 10, CONTRADICTED)])
@pytest.mark.parametrize("busy, borne, latency, undecided", [
    (5, (), True, True), (3, (), True, True), (2, (), True, False),
    (5, (BUSY_CLIENT,), True, False), (5, (), False, False),
])  # fmt: skip
def test_a_busy_client_leaves_a_latency_undecided_unless_tolerated_by_name(
    low, high, plain, busy, borne, latency, undecided
):
    runs = [run("a", n, gates=BUSY if n < busy else None) for n in range(5)]
    runs += [run("b", n) for n in range(5)]
    doubts = Doubts(Kept(runs), {"a": borne, "b": borne})
    before = verdict_of(low, high)
    assert before.verdict == plain
    found = doubts.on(before, {"a", "b"}, latency, ASKING)
    assert found.verdict == (UNDECIDED if undecided else plain)
    told = f"{NO_TIME} in {busy} of 10 runs"
    assert (told in found.why) is (not borne), "what is not decisive is said all the same"


def test_doubts_of_other_conditions_are_not_those_of_a_claim():
    runs = [run("a", 1), run("b", 1), run("c", 1, gates=BUSY), run("c", 1, "invalid")]
    doubts = Doubts(Kept(runs), {}, {"c": (1, 1)})
    before = verdict_of(10, 20)
    assert doubts.on(before, {"a", "b"}, True, ASKING) == before
    why = doubts.on(before, {"a", "c"}, False, ASKING).why
    assert "1 invalid run" in why and "still changing" in why and NO_TIME in why
    # What runs on the server alone is asked by nobody.
    assert NO_TIME not in doubts.on(before, {"a", "c"}, True, (Fio(),)).why


def test_a_claim_is_doubted_by_the_load_alone_that_gave_its_metric():
    study, results = studies.find("docker_netperf"), Results.open(recorded("docker_netperf"))
    loads = Loads(study, results)
    named = {claim.id: [one.name for one in loads.of(claim)] for claim in study.claims}
    assert named["docker-netperf-01"] == ["streams"] and named["docker-netperf-02"] == ["netperf"]
    assert all(len(names) == 1 for names in named.values())


@pytest.mark.parametrize("lost, refused", [
    ({"VMXNET3": (0, 0, 0), "VMXNET3-Latency": (0, 0.001, 0.3)}, True),
    ({"VMXNET3": (0, 0, 0), "VMXNET3-Latency": (0.1, 0.2, 0)}, False),
    ({}, False),
])  # fmt: skip
def test_a_claim_on_throughput_is_judged_where_one_condition_loses_something(lost, refused):
    measured = {
        f"lost: {name}": {block: [share] for block, share in enumerate(shares)}
        for name, shares in lost.items()
    }
    reasons = unhurried(SimpleNamespace(study=studies.find("lat_vmxnet3"), measured=measured))
    assert reasons == ({"lat-vmxnet3-02": TOO_SLOW} if refused else {})


def test_a_load_that_sends_when_it_was_answered_is_never_too_slow():
    assert unhurried(SimpleNamespace(study=studies.find("docker_redis"), measured={})) == {}
