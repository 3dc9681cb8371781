"""What ran on a machine's own kernel is told from what ran in an emulated guest."""

import copy
import pickle

import numpy as np
import pytest
from planted import judged, results

from labkit import kernels, studies
from labkit.box.layout import Layout
from labkit.box.topology import find, from_tables
from labkit.claim import Bound, judge
from labkit.errors import BadInput, Unknown
from labkit.lab import Lab
from labkit.results import Results
from labkit.running.open_lab import note, recorded
from labkit.studies._places import ROLES, TOPOLOGY, place, places
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE

BOX = Lab("lab", {}, tier="root", accelerator="uml")
BLOCKS = {n: np.full(20, 1.0 + n / 1000) for n in range(12)}


def test_a_container_of_a_box_is_real_and_its_guest_is_not():
    real, guest = kernels.label(BOX, False), kernels.label(BOX, True)
    assert real == "real kernel" and guest == "emulated guest (User-Mode Linux)"
    assert not kernels.is_emulated(real) and kernels.is_emulated(guest)


def test_a_guest_by_kvm_is_as_real_as_its_host():
    label = kernels.label(Lab("lab", {}, tier="root", accelerator="kvm"), True)
    assert label == "guest by KVM" and not kernels.is_emulated(label)


def test_the_label_of_a_chart_names_the_cpu_that_guests_of_kvm_ran_on(tmp_path):
    facts = dict(Results.open(recorded("lat_ping")).asked)
    hosts = {"server": {"cpu": "Xeon 6740E"}}
    for accelerator, words in (("kvm", "One machine, guests by KVM on Xeon 6740E"),
                               ("uml", "Emulated: one machine, guests by UML")):  # fmt: skip
        facts["lab"] = {**facts["lab"], "accelerator": accelerator, "hosts": hosts}
        assert note(Results.begin(tmp_path / accelerator, facts)).startswith(words)
    facts["lab"] = {**facts["lab"], "accelerator": "", "tier": "rootless"}
    text = str(note(Results.begin(tmp_path / "rootless", facts)))
    assert text.startswith("Emulated: one machine, made without root")


def test_real_hosts_and_conditions_of_whole_labs_need_no_label():
    assert kernels.label(Lab("basement", {}), True) == ""
    assert kernels.label(BOX, None) == ""


def test_a_claim_between_real_and_emulated_is_not_testable_and_one_among_real_is():
    names = ("Native", "Native-Docker", "VM", "VM-Docker")
    made = {one.name: kernels.label(BOX, one.in_guest) for one in places()}
    claims = [
        Bound("a", "a guest costs nothing", "", what=("'VM [n=1]' / 'Native [n=1]'",), high=2.0),
        Bound("b", "a container costs nothing", "", what=("'Native-Docker' / 'Native'",), high=2.0),
        Bound("c", "nor does one in a guest", "", what=("'VM-Docker' / 'VM'",), high=2.0),
    ]
    whys = {claim.id: kernels.decided([claim.names()], made) for claim in claims}
    measured = dict.fromkeys((*names, "VM [n=1]", "Native [n=1]"), BLOCKS)
    crossed, real, guests = judge(claims, measured, emulated=True, decided=whys)
    assert crossed.verdict == "not testable here" and real.verdict == guests.verdict == "holds"
    assert crossed.why == ("the emulation decides between an emulated guest and a real kernel")


def test_a_claim_of_each_place_by_itself_compares_nothing_across():
    made = {one.name: kernels.label(BOX, one.in_guest) for one in places()}
    assert kernels.decided([["VM"], ["Native"]], made) == ""
    assert kernels.decided([["VM"], ["VM", "Native"]], made)


def test_the_label_of_a_chart_names_what_each_condition_ran_on():
    made = {one.name: kernels.label(BOX, one.in_guest) for one in places()}
    assert kernels.told(made) == (
        "Native, Native-Docker: real kernel; VM, VM-Docker: emulated guest (User-Mode Linux)"
    )


def test_each_place_is_a_machine_of_the_topology():
    layout = Layout("x", 1, (0, 1), find(TOPOLOGY))
    assert set(ROLES.values()) <= set(layout.roles)
    assert layout.host_of("vmcontainer") == "server" and layout.on("vmcontainer") == "guest"
    assert layout.cpus_of("vmhostnet") == layout.cpus_of("server") == (1,)
    assert layout.interface("vmcontainer") == "eth0" and layout.interface("vmhostnet") == "vec1"


def test_a_place_that_is_none_is_answered_with_those_that_are():
    with pytest.raises(Unknown, match="VM-Docker on host"):
        place("VM", "wifi")


@pytest.mark.parametrize(("guest", "container", "why"), [
    ({"accelerator": "qemu", "memory": "256M"}, {}, 'accelerator "auto"'),
    ({}, {"engine": "docker"}, "by docker"), ({}, {"cpus": "all"}, "one CPU"),
])  # fmt: skip
def test_a_container_that_a_guest_cannot_run_is_refused(guest, container, why):
    tables = {
        "hosts": {"server": {}},
        "guests": {"guest": {"on": "server", **guest}},
        "containers": {"inner": {"on": "guest", **container}},
    }
    with pytest.raises(BadInput) as error:
        from_tables("t", tables)
    assert why in str(error.value)


def test_the_engine_in_a_guest_is_named_apart():
    plan = find(TOPOLOGY).engined(lambda asked: "docker" if asked == "any" else asked)
    assert Layout("x", 1, (0, 1), plan).engines == "docker, crun in guests"


def test_a_guest_that_cannot_be_made_takes_its_containers_along():
    left = find(TOPOLOGY).accelerated(lambda _: "")
    assert [container.role for container in left.containers] == ["container", "hostnet"]


def test_a_copy_of_a_label_is_the_same_in_both_forms():
    label = kernels.Note("One machine. VM: emulated.", "emulated: VM")
    for other in (copy.deepcopy(label), pickle.loads(pickle.dumps(label))):
        assert (other, other.brief) == (label, label.brief)


@pytest.mark.parametrize("name, claim, held, other", [
    ("specweb_directpath", "specweb-directpath-07", [1, 2], [2, 1]),
    ("lat_ping", "lat-ping-07", [46, 557], [557, 557]),
])  # fmt: skip
def test_a_claim_that_an_emulated_cpu_decides_is_judged_where_kvm_runs_the_guests(
    tmp_path, name, claim, held, other
):
    study = studies.find(name)
    for levels, wanted in ((held, HOLDS), (other, CONTRADICTED)):
        for accelerator, verdict in (("kvm", wanted), ("uml", NOT_TESTABLE), ("tcg", NOT_TESTABLE)):
            kept = results(tmp_path, "root", lab={"accelerator": accelerator})
            assert judged(study, claim, levels, kept).verdict == verdict
