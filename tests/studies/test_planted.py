"""Claims that were once misjudged: both outcomes from planted values, on hosts and in a box."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from figures import figures
from planted import Planted, exact, judged, results
from who_decides import deciders

from labkit import judging, studies
from labkit.claims import published
from labkit.errors import LabkitError
from labkit.host import Guest, Host
from labkit.running import notebook
from labkit.running.open_lab import check_parameters, knobs_among, with_load
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.other_cpus import OtherCpus
from labkit.settings.power import OnlineCpus
from labkit.settings.processes import InterruptCpus, ServiceRunning
from labkit.settings.sockets import WindowScaling
from labkit.transports.local import Local
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE
from labkit.workloads import shared_host
from labkit.workloads.fio import Fio
from labkit.workloads.redis_scaleout import RedisScaleout

CASES = Path(__file__).parents[1] / "cases"

# Study, claim, levels of its names that hold, and that contradict it.
SUBSTITUTES = [
    ("lat_feature", "lat-feature-01", [0.0002], [0.013]),
    ("lat_ping", "lat-ping-05", [20, 18], [120, 18]),
    ("lat_ping", "lat-ping-06", [20, 34], [34, 34]),
    ("lat_netperf", "lat-netperf-03", [30, 47], [47, 47]),
    ("monster_vmotion", "monster-vmotion-10", [1, 2, 1, 2], [2, 1, 2, 1]),
    ("vcenter_ha", "vcenter-ha-03", [2, 3, 2, 3, 2, 3], [2, 5, 2, 3, 2, 3]),
    *(("raid_iometer", f"raid-iometer-0{n}", [1] * 8, [0.8, *[1] * 7]) for n in (2, 3)),
    ("hadoop_v6", "hadoop-v6-01", [88, 100], [105, 100]),
    ("hadoop_v6", "hadoop-v6-02", [80, 100, 90, 95, 110], [100, 80, 110, 120, 130]),
    ("hadoop_v6", "hadoop-v6-03", [50, 70], [70, 50]),
    ("hadoop_v6", "hadoop-v6-04", [50, 70], [70, 50]),
    ("hadoop_v6", "hadoop-v6-05", [100, 98, 100, 88], [100, 88, 100, 98]),
    ("hadoop_v6", "hadoop-v6-06", [4], [0.1]),
    ("hadoop_v51", "hadoop-v51-01", [98, 100], [110, 100]),
    ("docker_netperf", "docker-netperf-10", [9400] * 12, [940] * 12),
    ("vcenter_ha", "vcenter-ha-02", [410, 370, 439, 399, 460, 420],
     [410, 370, 439, 399, 460, 455]),
    ("vcenter_ha", "vcenter-ha-04", [410, 439, 460], [410, 439, 660]),
]  # fmt: skip


@pytest.mark.parametrize("study, claim, holding, failing", SUBSTITUTES)
def test_a_claim_that_the_substitute_or_the_test_bed_decides_is_judged_on_hosts_alone(
    tmp_path, study, claim, holding, failing
):
    found = studies.find(study)
    for levels, wanted in ((holding, HOLDS), (failing, CONTRADICTED)):
        assert judged(found, claim, levels, results(tmp_path)).verdict == wanted
        boxed = judged(found, claim, levels, results(tmp_path, "root"))
        assert boxed.verdict == NOT_TESTABLE and "not measured" not in boxed.why
        assert boxed.why == found.untold.get(claim, boxed.why)


@pytest.mark.parametrize("noise, wanted", [(2e-3, HOLDS), (5e-2, CONTRADICTED)])
def test_a_claim_of_the_documents_noise_is_judged_on_hosts_alone(tmp_path, noise, wanted):
    found, claim = studies.find("docker_linpack"), "docker-linpack-06"
    assert judged(found, claim, [1, 1], results(tmp_path), noise).verdict == wanted
    assert judged(found, claim, [1, 1], results(tmp_path, "root"), noise).verdict == NOT_TESTABLE


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


def scaled_out(path, cpus="8"):
    """Results of a study that ran on hosts of so many CPUs."""
    hosts = {name: {"cpus": cpus} for name in ("server", "guest", "guest2")}
    return results(path, lab={"hosts": hosts})


@pytest.mark.parametrize("moves, used, wanted", [
    (90, 8, HOLDS), (1, 8, CONTRADICTED), (90, 1, CONTRADICTED),
])  # fmt: skip
def test_servers_that_wander_are_what_was_seen_natively_and_not_in_guests(
    tmp_path, moves, used, wanted
):
    study = studies.find("redis_scaleout")
    (claim,) = [one for one in study.claims if one.id == "redis-scaleout-12"]
    assert not any("node" in name for name in claim.names()), "crossing nodes is a guess"
    native = {"moves": moves, "cpus_used": used}
    levels = [native[name.split(":")[0]] if "Native" in name else 4 for name in claim.names()]
    assert judged(study, claim.id, levels, scaled_out(tmp_path)).verdict == wanted
    few = judged(study, claim.id, levels, scaled_out(tmp_path, cpus="1"))
    assert few.verdict == NOT_TESTABLE and "8 CPUs" in few.why


@pytest.mark.parametrize("study, claim", [
    ("redis_scaleout", "redis-scaleout-11"), ("lat_feature", "lat-feature-02"),
    ("lat_feature", "lat-feature-03"), ("lat_feature", "lat-feature-06"),
    ("lat_cpu_exclusive", "lat-cpu-exclusive-05"),
])  # fmt: skip
def test_what_no_workload_measures_is_decided_by_nobody_and_says_why(tmp_path, study, claim):
    found = studies.find(study)
    (asked,) = [one for one in found.claims if one.id == claim]
    assert len({one.why for one in deciders(found, asked)}) == 1
    verdict = judging.judged(Planted(found, results(tmp_path), {}))
    (why,) = [one.why for one in verdict if one.claim == claim]
    assert any(said in why for said in found.unmeasured.values())


@pytest.mark.parametrize("claim, levels, wanted", [
    ("docker-netperf-02", {"VM, latency-sensitive": 33}, HOLDS),
    ("docker-netperf-02", {"VM, latency-sensitive": 80}, CONTRADICTED),
    ("docker-netperf-04", {"VM-Docker, latency-sensitive": 27}, HOLDS),
    ("docker-netperf-04", {"VM-Docker, latency-sensitive": 60}, CONTRADICTED),
    ("docker-netperf-06", {}, HOLDS),
    ("docker-netperf-06", {"VM-Docker-HostNet, latency-sensitive": 24}, CONTRADICTED),
    ("docker-netperf-11", {"VM-Docker [nic=passthrough]": 27}, HOLDS),
    ("docker-netperf-11", {"VM-Docker [nic=passthrough]": 60}, CONTRADICTED),
    ("docker-netperf-12", {}, HOLDS),
    ("docker-netperf-12", {"VM-Docker-HostNet [nic=passthrough]": 24}, CONTRADICTED),
    ("docker-netperf-08", {"Native-Docker": 27, "VM, latency-sensitive": 33,
                           "VM-Docker, latency-sensitive": 42}, HOLDS),
    ("docker-netperf-08", {"Native-Docker": 27, "VM, latency-sensitive": 20,
                           "VM-Docker, latency-sensitive": 42}, CONTRADICTED),
])  # fmt: skip
def test_round_trips_of_guests_are_judged_with_latency_sensitivity(tmp_path, claim, levels, wanted):
    """A plain guest's round trips say nothing: the document has none."""
    study = studies.find("docker_netperf")
    (asked,) = [one for one in study.claims if one.id == claim]
    assert not {"VM", "VM-Docker", "VM-Docker-HostNet"} & {*asked.names()}
    planted = [levels.get(name, 18) for name in asked.names()]
    assert judged(study, claim, planted, results(tmp_path)).verdict == wanted


def test_a_latency_sensitive_guest_is_set_as_the_document_tunes_it():
    study = studies.find("docker_netperf")
    for one in study.conditions:
        made = {type(setting): setting for setting in one.settings}
        tuned = one.name.endswith((", latency-sensitive", "passthrough]"))
        assert (ExclusiveCpu in made) is tuned
        if tuned:
            nic, past = made[GuestNic], "passthrough" in one.name
            assert (nic.path, nic.batch, nic.lro) == ("direct" if past else "bridge", 1, False)


def placed(own, given=None):
    """What eight servers said, each of which counts so much CPU time of its own in a second."""
    text = (CASES / "RedisScaleout/placed/stdout.txt").read_text()
    first = {n: float(re.search(rf"=== {n} before ===[^=]*?used_cpu_user:([\d.]+)", text)[1])
             for n in range(1, 9)}  # fmt: skip
    for n, before in first.items():
        text = re.sub(
            rf"(=== {n} after ===[^=]*?used_cpu_user:)[\d.]+", rf"\g<1>{before + own:.6f}", text
        )
    head = text.partition("=== placed")[0]
    return head if given is None else text


@pytest.mark.parametrize("own", [0.001, 5.0])
def test_time_that_others_took_from_a_guest_is_none_that_its_servers_used(own):
    """A guest without a steal clock counts it as its own: then eight take more than there is."""
    with_probe = figures(RedisScaleout, placed(own, given=True))
    assert with_probe["cpus of the servers"] == pytest.approx(0.08, abs=0.01)
    without = figures(RedisScaleout, placed(own))
    assert without["cpus of the servers"] <= 2.0, "the machine has two CPUs"
    assert (without["cpus of the servers"] < 0.3) == (own < 1)


ORIGINAL = {
    "redis_scaleout": {"guests": 8, "keys": 250_000_000},
    "dvdstore_docker": {"databases": 16, "guests": 8, "way": "web", "users": 4},
    "sqlserver_monster": {"small": 8, "large": 4, "larger": 2},
    "docker_redis": {"pin": "0", "interrupts": "1"},
    "docker_fio": {"pin": "0-7", "mebibytes": 10_240},
}
"""The documents' own numbers, as a reader asks for them."""


@pytest.mark.parametrize("name", ORIGINAL)
def test_the_documents_own_numbers_can_be_asked_for_by_name(name):
    """As `labkit run -p` reads them; nothing changes for who does not ask."""
    study = studies.find(name)
    given = {key: str(value) for key, value in ORIGINAL[name].items()}
    values = notebook.read_parameters(notebook.notebook(name), given)
    assert values == ORIGINAL[name]
    check_parameters(study, {"where": "box", "label": "x", **values})
    asked = with_load(study, **knobs_among(study, values))
    assert asked.asked("box", 1) != study.asked("box", 1)
    assert [one.name for one in asked.conditions] == [one.name for one in study.conditions]
    defaults = {one: notebook.parameters(notebook.notebook(name))[one]["default"] for one in given}
    plain = notebook.read_parameters(
        notebook.notebook(name), {one: said.strip("'\"") for one, said in defaults.items()}
    )
    assert with_load(study, **plain).asked("box", 1) == study.asked("box", 1)


def played(name, condition):
    """The roles of a lab that play servers, at the document's own numbers."""
    study = studies.find(name)
    asked = with_load(study, **knobs_among(study, ORIGINAL[name]))
    load, one = asked.workload, asked.condition(condition)
    roles = [role for role in load.roles if role.startswith("server")]
    return {player for role in roles for player in one.players(role)}, one.load(load)


@pytest.mark.parametrize("name, condition, servers, each", [
    ("redis_scaleout", "VM", 8, None), ("redis_scaleout", "VM-Docker", 8, None),
    ("redis_scaleout", "Native-Docker", 8, None), ("redis_scaleout", "Native", 1, None),
    ("dvdstore_docker", "Native-16S", 1, 16), ("dvdstore_docker", "Native-Docker-16S", 16, 1),
    ("dvdstore_docker", "VM-8VMs-16S", 8, 2), ("dvdstore_docker", "VM-Docker-8VMs-16S", 16, 1),
    ("sqlserver_monster", "VM [vcpus=8]", 8, 1), ("sqlserver_monster", "VM [vcpus=16]", 4, 1),
    ("sqlserver_monster", "VM [vcpus=32]", 2, 1), ("sqlserver_monster", "VM [vcpus=64]", 1, 1),
])  # fmt: skip
def test_conditions_have_as_many_servers_as_the_document(name, condition, servers, each):
    players, load = played(name, condition)
    assert len(players) == servers and getattr(load, "instances", None) == each


def test_all_sizes_of_guests_are_asked_by_as_many_customers_in_all():
    shared = {len(players) * load.users for players, load in (
        played("sqlserver_monster", f"VM [vcpus={cpus}]") for cpus in (8, 16, 32, 64))}  # fmt: skip
    assert shared == {32}


def test_a_size_that_cannot_be_is_refused_by_name_and_value():
    scaled, shops = studies.find("redis_scaleout"), studies.find("dvdstore_docker")
    for study, knobs, said in (
        (scaled, {"guests": 65}, "guests must be 1 to 64, not 65"), (scaled, {"guest": 2}, "guest"),
        (shops, {"databases": 16, "guests": 3}, "16 databases cannot be shared by 3 guests"),
        (studies.find("docker_redis"), {"interrupts": "one"}, "'one' is not a list of CPUs"),
        (studies.find("docker_netperf"), {"buffers": "4M"}, "a number of bytes, not '4M'"),
        (studies.find("docker_netperf"), {"cpus": "two"}, "list of CPUs"),
        (studies.find("docker_fio"), {"pin": "one"}, "'one' is not a list of CPUs"),
    ):  # fmt: skip
        with pytest.raises(LabkitError, match=said):
            with_load(study, **knobs)


def test_results_of_other_sizes_are_judged_by_the_hosts_that_they_had(tmp_path):
    """Eight guests of one CPU are eight CPUs; two of them would be too few to judge."""
    study = studies.find("redis_scaleout")
    kinds = ("guest", "container", "inner")
    names = ["server", *(f"{kind}{n}".removesuffix("1") for kind in kinds for n in range(1, 9))]
    hosts = {"hosts": {name: {"cpus": "8" if name == "server" else "1"} for name in names}}
    (claim,) = [one for one in study.claims if one.id == "redis-scaleout-08"]
    levels = [5 if "servers=1" not in name else 1 for name in claim.names()]
    values = exact(claim, levels, np.random.default_rng(1))

    for size, wanted in (({}, NOT_TESTABLE), ({"sizes": {"guests": 8}}, HOLDS)):
        kept = results(tmp_path, lab=hosts, **size)
        found = judging.judged(Planted(study, kept, values))
        (verdict,) = [one for one in found if one.claim == claim.id]
        assert verdict.verdict == wanted
        assert ("here they have 2" in verdict.why) is (not size)


def test_streams_are_those_of_the_document_where_it_has_them():
    study = with_load(studies.find("docker_netperf"), streams=4, buffers="1048576", cpus="0-1")
    load = study.also[0]
    several = {one.name for one in study.conditions if one.load(load).streams == 4}
    assert several == {one.name for one in study.conditions if one.name.startswith("VM-Docker")}
    for one in study.conditions:
        fewer = {x.role for x in one.settings if isinstance(x, OnlineCpus) and x.cpus == "0-1"}
        assert fewer == ({"client"} if one.in_guest else {"client", "server"})
        scaled = {x.role for x in one.settings if isinstance(x, WindowScaling) and x.scaling}
        assert scaled == {"client", *one.players("server")}
        assert one.load(load).buffer == 1 << 20 and one.load(study.workload) == study.workload
    plain = studies.find("docker_netperf")
    assert all(one.load(load) == load for one in plain.conditions)
    assert with_load(plain, streams=1).chosen == {} and study.asked("box", 1)["sizes"]


def test_a_third_of_six_guests_answers_and_each_owns_cpus_that_no_other_guest_gets():
    study = with_load(studies.find("lat_cpu_exclusive"), answering=2, computing=4)
    for one in study.conditions:
        load = one.load(study.workload)
        assert load.servers == 2 and len(load.guests) == 6
        assert {p for role in shared_host.SERVERS for p in one.players(role)} == {"guest", "guest2"}
        others = {p for role in shared_host.NEIGHBOURS for p in one.players(role)}
        assert others == {f"guest{n}" for n in range(3, 7)}
        owned = {x.guest: x.owners for x in one.settings if isinstance(x, ExclusiveCpu)}
        assert owned == dict.fromkeys(("guest", "guest2"), ("guest", "guest2"))
        apart = {x.guest: x.owners for x in one.settings if isinstance(x, OtherCpus)}
        assert apart == dict.fromkeys(others, ("guest", "guest2"))


def test_cpus_of_two_owners_are_others_on_a_hypervisor_and_refused_in_a_box():
    two = ("guest", "guest2")
    known = {name: Guest(f"vm-{name}", "192.0.2.1") for name in (*two, "guest3")}
    server = Host("server", "192.0.2.1", Local(), guests=known)
    first, second = (ExclusiveCpu(guest=one, owners=two).way("kvm", server) for one in two)
    pinned = "0 7\n0-5\n0-7\n"
    assert first.value("6 7\n0-3\n0-7\n") == second.value("4 5\n0-3\n0-7\n") != first.value(pinned)
    rest = OtherCpus("guest3", owners=two).way("kvm", server)
    assert rest.value("0-3 0-3\n0-3\n4\n0-7\n") == "all CPUs but the last"
    assert rest.value("0-5 0-5\n0-5\n4\n0-7\n") != "all CPUs but the last"
    box = ExclusiveCpu(owners=two).way("box", server)
    assert "several guests would share it" in box.refuses("0-1 other\n0-1\n")
    with pytest.raises(LabkitError, match="owner of CPUs"):
        ExclusiveCpu(guest="guest3", owners=two)


@pytest.mark.parametrize("answers, counts, wanted", [
    ([73, 106], [90, 209], HOLDS), ([106, 73], [209, 90], CONTRADICTED),
])  # fmt: skip
def test_six_guests_are_judged_as_the_document_claims(tmp_path, answers, counts, wanted):
    study = studies.find("lat_cpu_exclusive")
    cpus = {"client": {"allowed": "0"}, "server": {"allowed": "0-11", "cpus": "12"}}
    kept = results(tmp_path, lab={"hosts": cpus}, sizes={"answering": 2, "computing": 4})
    for claim, levels in (("lat-cpu-exclusive-01", answers), ("lat-cpu-exclusive-02", counts)):
        assert judged(study, claim, levels, kept).verdict == wanted


def test_a_knob_that_no_workload_of_the_study_has_is_refused():
    study = studies.find("docker_netperf")
    odd = replace(study.conditions[0], knobs={"steams": 4})
    with pytest.raises(LabkitError, match="did you mean 'streams'"):
        replace(study, conditions=(odd,), claims=())


def test_fio_keeps_its_threads_on_the_cpus_that_were_asked_for():
    before = Fio().words("/file")
    pinned = Fio(pin="0-7").words("/file")
    assert [word for word in pinned if word not in before] == ["--cpus_allowed=0-7"]
    assert pinned.index("--cpus_allowed=0-7") < pinned.index("--name=layout"), "of all jobs"


NODE = Host("server", "192.0.2.1", Local(), "eth1")


@pytest.mark.parametrize("shown, value", [
    ("24=0-7\n25=0-7\n0-7\n", "node"), ("24=0-15\n25=0-15\n0-7\n", "0-15"),
    ("24=0-7\n25=8\n0-7\n", "24=0-7 25=8"),
])  # fmt: skip
def test_interrupts_of_the_nic_are_on_the_node_only_if_all_are(shown, value):
    way = InterruptCpus("NIC", "node").way("linux", NODE)
    assert way.value(shown) == value and "eth1" in way.reads
    with pytest.raises(LabkitError, match="does not say its `interface`"):
        InterruptCpus("NIC", "node").way("linux", replace(NODE, interface=""))


def test_pinning_to_a_node_takes_the_interrupts_along_and_keeps_irqbalance_away():
    (pinned,) = [c for c in studies.find("redis_scaleout").conditions if c.name == "Native-pinned"]
    assert InterruptCpus("NIC", "node") in pinned.settings
    assert ServiceRunning("irqbalance", False) in pinned.settings
    assert pinned.load(RedisScaleout()).pin == "node"
