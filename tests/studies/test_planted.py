"""Claims that were judged otherwise than their document says: both outcomes, by the study itself.

Each study judges values that were planted, on a lab of hosts and in a box.
"""

import numpy as np
import pytest
from planted import exact, judged, results

from labkit import studies
from labkit.claims import published
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE

# Study, claim, levels of its names that hold, and that contradict it.
SUBSTITUTES = [
    ("lat_feature", "lat-feature-01", [0.0002], [0.013]),
    ("lat_ping", "lat-ping-06", [20, 34], [34, 34]),
]


@pytest.mark.parametrize("study, claim, holding, failing", SUBSTITUTES)
def test_a_claim_that_the_substitute_of_a_box_decides_is_judged_on_hosts_alone(
    tmp_path, study, claim, holding, failing
):
    found = studies.find(study)
    for levels, wanted in ((holding, HOLDS), (failing, CONTRADICTED)):
        assert judged(found, claim, levels, results(tmp_path)).verdict == wanted
        boxed = judged(found, claim, levels, results(tmp_path, "root"))
        assert boxed.verdict == NOT_TESTABLE and "not measured" not in boxed.why
        assert boxed.why == found.untold[claim]


@pytest.mark.parametrize("study, claim, levels, noise, wanted", [
    ("docker_linpack", "docker-linpack-06", [1, 1], 2e-3, HOLDS),
    ("docker_linpack", "docker-linpack-06", [1, 1], 5e-2, CONTRADICTED),
    ("docker_netperf", "docker-netperf-10", [9400] * 12, None, HOLDS),
    ("docker_netperf", "docker-netperf-10", [940] * 12, None, CONTRADICTED),
])  # fmt: skip
def test_what_belongs_to_the_documents_test_bed_is_judged_on_hosts_alone(
    tmp_path, study, claim, levels, noise, wanted
):
    found = studies.find(study)
    assert judged(found, claim, levels, results(tmp_path), noise).verdict == wanted
    boxed = judged(found, claim, levels, results(tmp_path, "root"), noise)
    assert boxed.verdict == NOT_TESTABLE


@pytest.mark.parametrize("levels, wanted", [([1] * 4, HOLDS), ([1, 1, 1, 1.2], CONTRADICTED)])
def test_a_bulk_transfer_without_a_guest_is_a_claim_of_its_own_that_a_box_decides(
    tmp_path, levels, wanted
):
    """The names come as the claim has them: a container, the machine, the other network."""
    found = studies.find("docker_netperf")
    (claim,) = [one for one in found.claims if one.id == "docker-netperf-01"]
    assert not any("VM" in name for name in claim.names())
    by_name = [1.2 if levels[3] != 1 and "HostNet" in name else 1 for name in claim.names()]
    kept = results(tmp_path, "root", kernels=dict.fromkeys(("Native", "Native-Docker"), "real"))
    assert judged(found, "docker-netperf-01", by_name, kept).verdict == wanted


def test_a_shared_client_spoils_a_response_time_and_a_throughput_each_in_its_own_way(tmp_path):
    found = studies.find("lat_cpu_exclusive")
    shared = {"hosts": {"client": {"allowed": "0"}, "server": {"allowed": "0-1", "cpus": "2"}}}
    apart = {"hosts": {"client": {"allowed": "0"}, "server": {"allowed": "1-2", "cpus": "2"}}}
    for claim, levels, said in (
        ("lat-cpu-exclusive-01", [73, 106], "response times"),
        ("lat-cpu-exclusive-02", [90, 209], "CPU time from the guests"),
    ):
        why = judged(found, claim, levels, results(tmp_path, "root", lab=shared)).why
        assert said in why and "the client shares CPUs" in why
        assert judged(found, claim, levels, results(tmp_path, "root", lab=apart)).verdict == HOLDS
        turned = judged(found, claim, levels[::-1], results(tmp_path, "root", lab=apart))
        assert turned.verdict == CONTRADICTED


@pytest.mark.parametrize("study, number, slow", [
    ("netioc_v6", 1, "latency: NetIOC"), ("netioc_v6", 1, "cpu_per_byte: NetIOC"),
    ("netioc_v6", 1, "NetIOC, alone"), ("raid_vmmark", 3, "Pool, half [tiles=7, load=Olio]"),
    ("raid_vmmark", 3, "Pool, full [tiles=13, load=Mail Server]"),
    ("horizon_3d", 1, "View 5.2 [load=Light CAD]"),
])  # fmt: skip
def test_one_of_several_figures_contradicts_what_is_said_of_all(study, number, slow):
    claim = published.of(study)[number - 1]
    newer = {name: 1.2 if "Horizon" in name else 1.0 for name in claim.names()}
    assert any(slow in name for name in newer)
    for worse, wanted in ((1, HOLDS), (1.5, CONTRADICTED)):
        levels = [at * worse if slow in name else at for name, at in newer.items()]
        assert claim.judge(exact(claim, levels, np.random.default_rng(1))).verdict == wanted
