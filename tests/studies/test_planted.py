"""Claims that were once misjudged: both outcomes from planted values, on hosts and in a box."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from figures import figures
from planted import Planted, exact, judged, results

from labkit import judging, studies
from labkit.claims import published
from labkit.errors import LabkitError
from labkit.host import Guest, Host
from labkit.running import notebook
from labkit.running.deciders import deciders
from labkit.running.open_lab import check_parameters, knobs_among, with_load
from labkit.settings.exclusive_cpu import ExclusiveCpu, OtherCpus
from labkit.settings.guest_nic import GuestNic
from labkit.settings.power import OnlineCpus
from labkit.settings.processes import InterruptCpus, ServiceRunning
from labkit.settings.sockets import WindowScaling
from labkit.transports.local import Local
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE
from labkit.workloads import shared_host
from labkit.workloads.fio import Fio
from labkit.workloads.redis_scaleout import RedisScaleout

CASES = Path(__file__).parents[1] / "cases"

# Study, claim, levels of its names that hold, and that contradict it; also the noise of both.
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
    ("docker_linpack", "docker-linpack-06", [1, 1], [1, 1], 2e-3, 5e-2),
    ("raid_vmmark", "raid-vmmark-02", [1] * 12, [0.8, *[1] * 11]),
    ("raid_vmmark", "raid-vmmark-03", [1] * 36, [1.5, *[1] * 35]),
    ("raid_vmmark", "raid-vmmark-04", [1] * 24, [1.5, *[1] * 23]),
    ("raid_vmmark", "raid-vmmark-05", [13, 13], [13, 7]),
]  # fmt: skip


@pytest.mark.parametrize("study, claim, holding, failing, noises", [
    (*row[:4], row[4:] or (None, None)) for row in SUBSTITUTES
])  # fmt: skip
def test_a_claim_that_the_substitute_or_the_test_bed_decides_is_judged_on_hosts_alone(
    tmp_path, study, claim, holding, failing, noises
):
    found = studies.find(study)
    outcomes = zip((holding, failing), noises, (HOLDS, CONTRADICTED), strict=True)
    for levels, noise, wanted in outcomes:
        assert judged(found, claim, levels, results(tmp_path), noise).verdict == wanted
        boxed = judged(found, claim, levels, results(tmp_path, "root"), noise)
        assert boxed.verdict == NOT_TESTABLE and "not measured" not in boxed.why
        assert boxed.why == found.untold.get(claim, boxed.why)


def cpus(many, *names):
    """The facts of a lab whose hosts have so many CPUs."""
    return {"lab": {"hosts": {name: {"cpus": many} for name in names or ("server",)}}}


SIX_GUESTS = {"lab": {"hosts": {"client": {"allowed": "0"},
                                "server": {"allowed": "0-11", "cpus": "12"}}},
              "sizes": {"answering": 2, "computing": 4}}  # fmt: skip
EIGHT_EACH = cpus("8", "server", "guest", "guest2")
WANDERING = [4, 90, 4, 90, 4, 8, 4, 8]
# Study, claim, what its results say of the lab, levels that hold and that contradict it.
MEASURED = [
    ("lat_feature", "lat-feature-08", "root", [200, 400], [400, 200]),
    ("lat_feature", "lat-feature-09", "root", [90, 100], [100, 90]),
    ("lat_feature", "lat-feature-10", "root", [70, 100], [100, 70]),
    *(("raid_vmmark", "raid-vmmark-01", lab, [1] * 12, [0.8, *[1] * 11]) for lab in ({}, "root")),
    ("docker_redis", "docker-redis-09", {}, [10, 99_000], [10, 80_000]),
    ("docker_redis", "docker-redis-09", cpus("2"), [10, 99_000], [10, 80_000]),
    ("monster_vmotion", "monster-vmotion-13", {}, [2, 2], [1, 2]),
    ("monster_vmotion", "monster-vmotion-14", "root", [4, 5, 1, 6, 1, 14], [5, 4, 1, 6, 1, 14]),
    ("monster_vmotion", "monster-vmotion-14", "root", [4, 5, 1, 6, 1, 14], [4, 5, 3, 6, 1, 1]),
    ("lat_cpu_exclusive", "lat-cpu-exclusive-01", SIX_GUESTS, [73, 106], [106, 73]),
    ("lat_cpu_exclusive", "lat-cpu-exclusive-02", SIX_GUESTS, [90, 209], [209, 90]),
    ("docker_netperf", "docker-netperf-02", {}, [33, 18], [80, 18]),
    ("docker_netperf", "docker-netperf-04", {}, [27, 18], [60, 18]),
    ("docker_netperf", "docker-netperf-06", {}, [18, 18], [24, 18]),
    ("docker_netperf", "docker-netperf-11", {}, [27, 18], [60, 18]),
    ("docker_netperf", "docker-netperf-12", {}, [18, 18], [24, 18]),
    ("docker_netperf", "docker-netperf-08", {}, [18, 27, 33, 42], [18, 27, 20, 42]),
    ("redis_scaleout", "redis-scaleout-12", EIGHT_EACH, WANDERING, [4, 1, 4, 1, *WANDERING[4:]]),
    ("redis_scaleout", "redis-scaleout-12", EIGHT_EACH, WANDERING, [*WANDERING[:4], 4, 1, 4, 1]),
]  # fmt: skip


@pytest.mark.parametrize("study, claim, facts, holding, failing", MEASURED)
def test_what_is_measured_is_asked_and_may_come_out_either_way(
    tmp_path, study, claim, facts, holding, failing
):
    kept = results(tmp_path, facts) if facts == "root" else results(tmp_path, **facts)
    for levels, wanted in ((holding, HOLDS), (failing, CONTRADICTED)):
        assert judged(studies.find(study), claim, levels, kept).verdict == wanted


@pytest.mark.parametrize("study, claim, levels, said", [
    ("docker_redis", "docker-redis-09", [10, 80_000], "it takes 2 CPUs"),
    ("redis_scaleout", "redis-scaleout-12", WANDERING, "8 CPUs"),
])  # fmt: skip
def test_servers_without_cpus_enough_decide_nothing(tmp_path, study, claim, levels, said):
    kept = results(tmp_path, **cpus("1", "server", "guest", "guest2"))
    verdict = judged(studies.find(study), claim, levels, kept)
    assert verdict.verdict == NOT_TESTABLE and said in verdict.why and verdict.local


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


def test_a_latency_sensitive_guest_is_set_as_the_document_tunes_it():
    """A plain guest's round trips say nothing: the document has none."""
    study = studies.find("docker_netperf")
    for claim in study.claims:
        if claim.id[-2:] in ("02", "04", "06", "08", "11", "12"):
            assert not {"VM", "VM-Docker", "VM-Docker-HostNet"} & {*claim.names()}
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
    study = studies.find("redis_scaleout")
    (pinned,) = [c for c in study.conditions if c.name == "Native-pinned"]
    (claim,) = [one for one in study.claims if one.id == "redis-scaleout-12"]
    assert not any("node" in name for name in claim.names()), "crossing nodes is a guess"
    assert InterruptCpus("NIC", "node") in pinned.settings
    assert ServiceRunning("irqbalance", False) in pinned.settings
    assert pinned.load(RedisScaleout()).pin == "node"
