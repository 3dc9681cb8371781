"""A bare machine beside ESXi plays what a document calls native; the stand-in is no ESXi."""

import shutil
from dataclasses import replace

import pytest
from esxi_stand_in import stand_in

from labkit import studies
from labkit.gates import gate
from labkit.host import Guest, Host
from labkit.lab import Lab
from labkit.results import Results
from labkit.running import loop, possible, sizes
from labkit.running.sizes import with_twin
from labkit.transports.local import Local

PROGRAMS = ("fio",)

GUESTS = {"guest": Guest("lab", "127.0.0.1")}
TWINNED = {"docker_stream", "docker_netperf", "redis_scaleout", "lat_ping", "dvdstore_docker"}


def played(name):
    study = with_twin(studies.find(name), GUESTS)
    return {c.name: (c.players("server"), c.players("host")) for c in study.conditions}


def test_what_runs_in_no_guest_runs_on_the_bare_machine_and_what_does_stays():
    assert played("docker_netperf")["Native"] == (("native",), ("native",))
    assert played("docker_netperf")["Native-Docker"] == (("container",), ("native",))
    assert played("docker_netperf")["VM"] == (("guest",), ("server",))
    assert played("lat_ping")["Native"][0] == ("native",)
    assert played("lat_ping")["VM-Default"][0] == ("guest",)


def test_settings_of_the_server_are_those_of_the_bare_machine_there():
    pinned = with_twin(studies.find("redis_scaleout"), GUESTS).condition("Native-pinned")
    assert {setting.role for setting in pinned.settings} == {"native"}


@pytest.mark.parametrize("name", studies.names())
def test_a_study_that_compares_nothing_with_a_guest_asks_the_hypervisor_itself(name):
    study = studies.find(name)
    moved = with_twin(study, GUESTS)
    assert moved == study or name in TWINNED or any(c.in_guest for c in study.conditions) or (
        any("guest" in c.players("server") for c in study.conditions)
    )  # fmt: skip
    if name == "netioc_v6":
        assert moved == study


@pytest.fixture
def lab(tmp_path):
    with stand_in.standing_in(tmp_path) as esxi:
        server = replace(esxi.host, name="server", guests=GUESTS)
        plain = {r: Host(r, "127.0.0.1", Local(r)) for r in ("guest", "client", "native")}
        yield Lab("esxi", {"server": server, **plain}, tolerates=gate.NAMES)


@pytest.mark.slow
def test_native_is_refused_on_esxi_alone_and_says_what_to_name(lab):
    alone = replace(lab, hosts={r: h for r, h in lab.hosts.items() if r != "native"})
    study = sizes.grown(studies.find("docker_stream"), alone)
    refused = possible.refusals(study, alone)
    assert "[hosts.native]" in refused["Native"] and "VM" not in refused


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("fio"), reason="no fio: make system")
def test_native_and_guest_are_measured_in_turn_where_a_bare_machine_is_named(lab, tmp_path):
    study = sizes.grown(studies.find("docker_fio"), lab)
    study = replace(study, workload=replace(study.workload, mebibytes=8, duration=1))
    refused = possible.refusals(study, lab)
    assert refused.keys() == {"Native-Docker", "VM-Docker"}, refused
    facts = {"study": study.name, "seed": 1, "refused": refused}
    results = Results.begin(tmp_path / "results", facts)
    loop.run(study, lab, results, repeats=1)
    assert {run.condition for run in results.runs()} == {"Native", "VM"}
    assert all(rate > 0 for blocks in study.blocks(results).values() for rate in blocks[1])
