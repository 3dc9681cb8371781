"""Topologies grow with the machine that they are planned for: real planner, planted machines."""

import re
import subprocess

import pytest

from labkit import studies
from labkit.box import room, topology, view
from labkit.box.machine import Machine
from labkit.errors import BadInput, BoxError
from labkit.running import deciders

PROGRAMS = ("perl",)


def listed(cpus):
    return ",".join(map(str, cpus))


def planted(tmp_path, machine):
    """A /proc and a /sys that describe the machine, as its kernel would."""
    files = {
        "proc/self/status": f"Name:\tlabkit\nCpus_allowed_list:\t{listed(sorted(machine.cpus))}\n",
        "proc/meminfo": f"MemTotal: 1 kB\nMemAvailable:   {machine.free << 10} kB\n",
        "sys/devices/system/cpu/online": f"{listed(sorted(machine.cpus))}\n",
    }
    for n, node in enumerate(machine.nodes):
        files[f"sys/devices/system/node/node{n}/cpulist"] = f"{listed(sum(node, ()))}\n"
        for core in node:
            for cpu in core:
                siblings = f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
                files[siblings] = f"{listed(core)}\n"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Machine.read(tmp_path)


MACHINES = {
    1: Machine.of(1), 2: Machine.of(2, gib=16), 4: Machine.of(4), 16: Machine.of(16),
    64: Machine.of(64, nodes=2, threads=2),
}  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_machine_is_read_from_what_its_kernel_says(tmp_path, machine):
    assert planted(tmp_path, machine) == machine


def test_this_machine_is_read_too_and_cpus_that_are_not_allowed_or_offline_are_none_of_it(tmp_path):
    assert Machine.read().cpus and Machine.read().free > 0
    planted(tmp_path, Machine.of(8))
    (tmp_path / "proc/self/status").write_text("Cpus_allowed_list:\t2-127\n")
    assert Machine.read(tmp_path).cpus == (2, 3, 4, 5, 6, 7)


GUESTS = {  # by CPUs: those of scaleout and shops, then those of monsters with their CPUs
    1: (2, 2, {"guest": (2, 1), "large": (1, 2)}),
    2: (2, 2, {"guest": (2, 1), "large": (1, 2)}),
    4: (2, 2, {"guest": (4, 1), "large": (2, 2), "larger": (1, 4)}),
    16: (8, 8, {"guest": (8, 2), "large": (4, 4), "larger": (2, 8), "largest": (1, 16)}),
    64: (8, 8, {"guest": (8, 8), "large": (4, 16), "larger": (2, 32), "largest": (1, 64)}),
}


@pytest.mark.parametrize("cpus", GUESTS)
def test_guests_grow_with_the_cpus_up_to_the_documents(tmp_path, cpus):
    machine = planted(tmp_path, MACHINES[cpus])
    scaled, shops, monsters = GUESTS[cpus]
    plan = topology.find("scaleout", machine)
    assert len(plan.guests) == scaled and len(plan.containers) == 2 * scaled
    assert {one.on for one in plan.containers} == {"server", *(g.role for g in plan.guests)}
    plan = topology.find("shops", machine)
    assert len(plan.guests) == shops and len(plan.containers) == 4 * shops
    inner = [container.on for container in plan.containers if container.role.startswith("vm")]
    assert inner == [guest.role for guest in plan.guests for _ in range(2)]
    large = {}
    for guest in topology.find("monsters", machine).guests:
        many, _ = large.get(guest.role.rstrip("0123456789"), (0, 0))
        large[guest.role.rstrip("0123456789")] = (many + 1, int(guest.vcpus))
    assert large == monsters


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("name", topology.names())
def test_every_topology_has_room_on_every_machine_and_says_its_sizes(name, machine):
    plan = topology.find(name, machine)
    room.check_machine(plan, machine)
    said = room.planned(plan, machine)
    assert all(f"{host.role} on CPUs " in said for host in plan.hosts)


@pytest.mark.slow
def test_no_guest_grows_beyond_what_the_documents_had():
    for name in studies.names():
        study = studies.find(name)
        for size, role in study.grows.items():
            plan = topology.find(study.topology, MACHINES[64])
            many = sum(guest.role.rstrip("0123456789") == role for guest in plan.guests)
            assert many == study.document.sizes[size], f"{name}: {size}"


@pytest.mark.parametrize("cpus", [4, 16, 64])
def test_clients_have_cpus_cores_and_nodes_of_their_own(tmp_path, cpus):
    machine = planted(tmp_path, MACHINES[cpus])
    cores = [core for node in machine.nodes for core in node]
    for name in ("scaleout", "shops", "monsters", "neighbours", "pair"):
        plan = topology.find(name, machine)
        client, server = (
            {*host.among(machine.cpus, machine.by_node)} for host in (plan.hosts[0], plan.hosts[-1])
        )
        assert not client & server and client | server == {*machine.cpus}
        assert not [core for core in cores if {*core} & client and {*core} & server], name
        nodes = [{*node} for node in machine.by_node]
        shared = [node for node in nodes if node & client and node & server]
        apart = len(nodes) == 2 and name in ("scaleout", "pair")
        assert (not shared) is apart
        if name == "shops":
            assert all(node & server for node in nodes), "databases can be kept on either"


def test_fewer_guests_are_made_where_the_memory_is_too_little():
    poor = Machine.of(16, gib=3)
    assert len(topology.find("scaleout", poor).guests) == 4
    rich = topology.find("scaleout", Machine.of(64, gib=400)).guests
    assert {guest.memory for guest in rich} == {"11264M"}
    assert {g.memory for g in topology.find("scaleout", MACHINES[2]).guests} == {"256M"}


def test_cpus_and_memory_that_a_machine_lacks_are_named_before_anything_starts(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('[hosts.server]\ncpus = "0-15"\n[guests.guest]\non = "server"\nmany = "4"\n'
                    'memory = "2048M"\n')  # fmt: skip
    few, poor = Machine.of(4), Machine.of(16, gib=4)
    with pytest.raises(BoxError, match=r"server wants CPUs \[4, 5, .*15\]"):
        room.check_machine(topology.find(str(file), few), few)
    with pytest.raises(BoxError, match="want 8192 MiB, and 4096 MiB are free"):
        room.check_machine(topology.find(str(file), poor), poor)


@pytest.mark.parametrize("words, said", [
    ('many = "8-2"', "guest has no many '8-2'"), ('many = "some"', "guest has no many 'some'"),
    ('many = "2"\nmemory = "1G-2G"', "guest has no memory"),
    ('many = "2"\n[guests.guest2]\non = "server"', "has the name of another"),
    ('many = "2"\n[containers.inner]\non = "guest"\nmany = "two"', "inner cannot be there 'two'"),
])  # fmt: skip
def test_a_number_of_guests_that_cannot_be_meant_is_refused(tmp_path, words, said):
    file = tmp_path / "mine.toml"
    file.write_text(f'[hosts.server]\n[guests.guest]\non = "server"\n{words}\n')
    with pytest.raises(BadInput, match=said):
        topology.find(str(file), MACHINES[16])


def test_sizes_are_shown_as_they_are_planned():
    said = room.planned(topology.find("scaleout", MACHINES[16]), MACHINES[16])
    assert "client on CPUs 0-7" in said and "server on CPUs 8-15" in said
    assert "guest to guest8 (1 CPU, 4096 MiB each), container to container8" in said


TESTABLE = {
    4: {"lat-cpu-exclusive-01", "lat-cpu-exclusive-02"},
    16: {
        "redis-scaleout-06", "redis-scaleout-08", "specweb-directpath-01", "lat-ping-03",
        "lat-ping-04", *(f"lat-netperf-0{number}" for number in (2, 5, 6)),
    },
    64: {"dvdstore-docker-05", "sqlserver-monster-03"},
}  # fmt: skip


@pytest.mark.slow
def test_claims_that_ask_for_cpus_become_testable_on_machines_that_have_them(tmp_path):
    known = [studies.find(name) for name in studies.names()]
    before = {*deciders.decided_on(MACHINES[1], known)}
    assert before == {*deciders.decided_on(MACHINES[2], known)}
    for cpus, more in TESTABLE.items():
        machine = planted(tmp_path / str(cpus), MACHINES[cpus])
        decided = {*deciders.decided_on(machine, known)}
        assert decided - before == more and not before - decided
        by_kvm = {*deciders.decided_on(machine, known, deciders.WITH_KVM)}
        assert decided < by_kvm, "by emulation, some are not to be told"
        before = decided


OWN = re.compile(r"^sub own_cpu \{.*?^\}", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("cpus, guests, own", [
    ("1", 4, "1 1 1 1"), ("0-1", 1, "1"), ("4-7", 4, "7 7 7 7"), ("8-15", 4, "15 14 13 12"),
    ("0,2-5", 3, "5 4 3"),
])  # fmt: skip
def test_each_guest_of_a_host_with_enough_cpus_would_own_another_of_the_last(
    tmp_path, cpus, guests, own
):
    for number in range(guests):
        (tmp_path / f"g{number}").mkdir()
        (tmp_path / f"g{number}/wires").write_text(f"user={64010 + number}\n")
    script = view.script("guest.pl")
    reads = [
        line for line in script.splitlines() if line.startswith(("sub whole", "sub values_in"))
    ]
    (sub,) = OWN.findall(script)
    asks = f"our $places = '{tmp_path}'; sub of_host {{ '{cpus}' }}; " + "".join([*reads, sub])
    asks += '; print join " ", map { our $user = $_; own_cpu() } @ARGV'
    users = [str(64010 + number) for number in range(guests)]
    done = subprocess.run(["perl", "-e", asks, *users], capture_output=True, text=True)
    assert done.stdout == own, done.stderr
