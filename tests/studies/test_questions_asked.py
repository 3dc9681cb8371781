"""The latency studies ask what their document asks; where a box decides by its nature, they say so.

Real topologies, claims and recorded text; samples are drawn, so that both outcomes are seen.
"""

import re
from dataclasses import replace

import numpy as np
import pytest

from labkit import studies
from labkit.box import topology
from labkit.claims import published
from labkit.judging import judge
from labkit.machine.places import HOME
from labkit.running.open_lab import named_results
from labkit.statistics.quantity import Quantity
from labkit.verdict import HOLDS, NOT_TESTABLE, UNDECIDED
from labkit.workloads.sockperf import Sockperf

RECORDED = HOME / "data" / "recorded"


def recorded(study, **hosts):
    """A recorded run, as if its hosts had said something else of themselves."""
    results = named_results(str(RECORDED / f"{study}.labkit"))
    lab = results.asked["lab"]
    told = {role: {**one, **hosts.get(role, {})} for role, one in lab["hosts"].items()}
    return replace(results, asked={**results.asked, "lab": {**lab, "hosts": told}})


def verdicts(study, results):
    return {one.claim: one for one in judge(studies.find(study), results)}


def test_what_is_named_after_the_documents_adapter_passes_by_both_kernels():
    study = studies.find("lat_10us")
    asked = {c.name: c.load(study.workload) for c in study.conditions}
    past = {name for name, load in asked.items() if isinstance(load, Sockperf) and load.onload}
    assert past == {"Native-SFC", "VM-Latency-SFC"}
    assert {asked[name].spin for name in past} == {"both"}
    spoken = {name for claim in study.claims for name in claim.names()}
    assert spoken == past | {"Native-Intel"}, "of what only spins nothing is claimed"


@pytest.mark.slow
def test_a_box_has_no_adapter_with_a_stack_so_no_claim_of_ten_microseconds_is_judged_there():
    judged = verdicts("lat_10us", recorded("lat_10us"))
    assert {one.verdict for one in judged.values()} == {NOT_TESTABLE}
    for name in ("lat-10us-01", "lat-10us-02", "lat-10us-03", "lat-10us-04"):
        assert "no adapter of a box has a network stack" in judged[name].why


@pytest.mark.parametrize("cpus, client, server", [
    ([0], (0,), (0,)), ([0, 1], (0,), (0, 1)), ([0, 1, 2], (0,), (1, 2)),
    ([2, 3, 6, 7], (2,), (3, 6, 7)),
])  # fmt: skip
def test_the_client_has_a_cpu_for_itself_where_there_are_three(cpus, client, server):
    for study in ("lat_cpu_exclusive", "lat_feature"):
        hosts = {host.role: host for host in topology.find(studies.find(study).topology).hosts}
        assert hosts["client"].among(cpus) == client and hosts["server"].among(cpus) == server


@pytest.mark.slow
def test_a_client_that_shares_cpus_with_the_guests_decides_no_claim_by_its_own_waiting():
    apart = {"client": {"allowed": "0"}, "server": {"allowed": "1-2"}}
    shared = {"client": {"allowed": "0"}, "server": {"allowed": "0-1"}}
    for hosts, shares in ((apart, False), (shared, True), ({}, True)):
        judged = verdicts("lat_cpu_exclusive", recorded("lat_cpu_exclusive", **hosts))
        for name in ("lat-cpu-exclusive-01", "lat-cpu-exclusive-02"):
            told = "the client shares CPUs" in judged[name].why
            assert told is shares and (judged[name].verdict == NOT_TESTABLE) is shares
        assert judged["lat-cpu-exclusive-03"].verdict in (HOLDS, UNDECIDED)


def claim(study, number):
    return published.of(study)[number - 1]


def test_no_claim_asks_more_than_its_document_says():
    """ "May lower" contradicts only a rise; what is hurt by no CPU is no order of three amounts."""
    (used,) = claim("lat_cpu_exclusive", 4).comparisons()
    assert used.low == float("-inf") and used.high > 1
    assert len(claim("lat_cpu_exclusive", 5).comparisons()) == 1
    (woken,) = claim("lat_feature", 5).comparisons()
    assert set(woken.what.names) == {"wake_up_time: CPU owned", "wake_up_time: Default"}
    statistics = {c.what.statistic for one in published.of("docker_netperf")
                  for c in one.comparisons()}  # fmt: skip
    assert statistics == {"mean"}, "the average of multiple runs"


def test_what_no_document_says_is_in_no_claim_and_no_notebook():
    assert "vms=20" not in str(claim("hadoop_v6", 3).names())
    assert "half" not in claim("sqlserver_monster", 3).statement
    assert "the document's own" in claim("kvm_docker_report", 1).source
    text = (HOME / "notebooks/05-lat-10us.ipynb").read_text("utf-8")
    assert "slowest in ten thousand" not in text and "90th percentile" in text


def test_pages_say_unconfirmed_where_no_public_text_was_found():
    settings = (HOME / "notebooks/docs/settings.md").read_text("utf-8")
    (row,) = re.findall(r"^\| `HyperThreading.*$", settings, re.MULTILINE)
    assert "VMkernel.Boot.hyperthreading" in row and "not confirmed" not in row
    page = (HOME / "notebooks/docs/lab-esxi.md").read_text("utf-8")
    listed = page.partition("## Unconfirmed")[2].partition("##")[0]
    for name in ("cacheReservation", "Core Speed", "--rx-max-frames", "Tags:", "sched.cpu.max",
                 "pciPassthru0.present", "% Ready"):  # fmt: skip
        assert name in listed


def test_each_run_weighs_alike_however_many_answers_it_has():
    runs = {"Run": [np.full(10, 100.0), np.full(1000, 50.0)]}
    assert Quantity("'Run'", "average").value(runs) == 75
    assert Quantity("'Run'", "mean").value(runs) == pytest.approx(50.5, abs=0.1)
    claim = published.of("lat_cpu_exclusive")[0]
    assert claim.comparisons()[0].what.statistic == "average"
