"""Machines of vCenter move by its API; what answers is a simulator, which copies nothing."""

import importlib
import json
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from simulator import certified, simulating

from labkit import studies
from labkit.errors import BadInput, HostError, LoginRefused, StayedBehind, Unknown
from labkit.event import Say
from labkit.events import _vsphere
from labkit.events._vsphere import SILENT, ended_well, relocated
from labkit.events.host_failure import HostFailure
from labkit.fleet.vcenter import connected
from labkit.gates import gate
from labkit.host import Guest, Host
from labkit.judging import judge
from labkit.lab import Lab
from labkit.running.loop import run
from labkit.running.open_lab import study_results
from labkit.transports.local import Local
from labkit.verdict import HOLDS, NOT_TESTABLE, UNDECIDED
from labkit.workloads.dirty_memory import DirtyMemory

pytestmark = pytest.mark.slow

MOVE_MS = 1500


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("vcenter"))


@pytest.fixture(scope="module")
def port(tmp_path_factory, certificate):
    slowly = f"RelocateVm:{MOVE_MS},LockHandoff:0"
    machines = ("-cluster", "1", "-host", "2", "-standalone-host", "0", "-vm", "1")
    folder = tmp_path_factory.mktemp("vcsim")
    with simulating(certificate, folder, "-method-delay", slowly, *machines) as port:
        yield port


@pytest.fixture
def session(port, certificate):
    trusted = str(certificate / "cert")
    with connected("127.0.0.1", "user", "pass", port=port, authority=trusted) as found:
        yield found


def machine(session):
    center = session.RetrieveContent().rootFolder.childEntity[0]
    return center.vmFolder.childEntity[0]


def other_host(session, vm):
    hosts = vm.runtime.host.parent.host
    return next(host.name for host in hosts if host.name != vm.runtime.host.name)


@pytest.mark.slow
def test_a_machine_moves_to_another_host_and_back(session):
    vm, say = machine(session), Say()
    at, to = vm.runtime.host.name, other_host(session, vm)
    relocated(session, vm.name, to, say)
    assert vm.runtime.host.name == to
    told = [json.loads(line) for line in say.lines]
    assert [one["status"] for one in told if "status" in one] == ["setup", "completed"]
    relocated(session, vm.name, at, Say())
    assert vm.runtime.host.name == at


def test_a_machine_that_is_there_already_and_names_nobody_knows_are_refused(session):
    vm = machine(session)
    with pytest.raises(BadInput, match="already"):
        relocated(session, vm.name, vm.runtime.host.name, Say())
    with pytest.raises(Unknown, match="known: DC0"):
        relocated(session, "no-such", vm.runtime.host.name, Say())


# The simulator refuses no move, so that a task fails here that it does refuse.
def test_a_task_that_fails_says_why(session):
    vm = machine(session)
    assert vm.runtime.powerState == "poweredOn"
    with pytest.raises(HostError, match=r"(?i)power"):
        ended_well(vm.PowerOnVM_Task(), Say(), "host", 10)


def test_a_wrong_password_and_an_unknown_certificate_let_nobody_in(port, certificate):
    trusted = {"authority": str(certificate / "cert")}
    for password, authority, why in (
        ("wrong", trusted, "refused the login of user"), ("pass", {}, "certificate"),
    ):  # fmt: skip
        with pytest.raises(LoginRefused, match=why):
            connected("127.0.0.1", "user", password, port=port, **authority).__enter__()


@pytest.fixture
def lab(session, port, certificate, monkeypatch, own_out):
    """Two hosts of the simulator and its machine; what loads it runs here, for it runs nothing."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert"))
    monkeypatch.setattr(_vsphere, "PORT", port)
    monkeypatch.setattr(_vsphere, "USER", "user")
    monkeypatch.setattr(_vsphere, "kept_password", lambda _: "pass")  # no keyring of a person
    vm, beside = machine(session), Host("guest", "127.0.0.1", Local("guest"))
    guests = {"guest": Guest(vm.name, "127.0.0.1")}
    here, there = vm.runtime.host.name, other_host(session, vm)
    return Lab("center", {
        "server": Host("server", here, Local("server"), "lo", guests=guests),
        "server2": Host("server2", there, Local("server2"), "lo"),
        "vcenter": Host("vcenter", "127.0.0.1", Local("vcenter")),
        "guest": beside, "client": beside,
    }, tolerates=gate.NAMES)  # fmt: skip


def tasks(session):
    return [one.info.key for one in session.RetrieveContent().taskManager.recentTask]


@pytest.mark.parametrize("name, why", [
    ("monster_vmotion", f"bandwidth is not seen here: {SILENT}"), ("ld_vmotion", "not 100 ms"),
])  # fmt: skip
def test_what_vcenter_does_not_tell_is_named_before_anything_moves(lab, session, name, why):
    before, study = tasks(session), studies.find(name)
    if name == "ld_vmotion":
        study = replace(study, workload=DirtyMemory(mebibytes=1, rate=100))
    with pytest.raises(BadInput, match=f"can do no condition of {name}") as error:
        study_results(study, lab, "hosts.toml")
    told = str(error.value)
    assert why in told and all(f"{condition.name}: " in told for condition in study.conditions)
    assert tasks(session) == before


# The simulator has no way between its hosts, and one storage for both: neither is asked for.
def near(study):
    moves = {condition.name: condition.events[0] for condition in study.conditions}
    here = {
        name: replace(move, rtt_ms=0, rate_mbit=0, disks="[rtt=25ms]" in name, after=1, settle=0.3)
        for name, move in moves.items()
    }
    conditions = tuple(replace(c, events=(here[c.name],)) for c in study.conditions)
    load = DirtyMemory(mebibytes=1, rate=100, duration=1)
    return replace(study, conditions=conditions, workload=load, also=())


@pytest.mark.parametrize("trips, repeats, near_and_far", [
    ((100,), 1, {NOT_TESTABLE}),
    pytest.param((5, 50, 100), 8, {HOLDS, UNDECIDED}, marks=pytest.mark.torture),
])  # fmt: skip
def test_a_whole_study_moves_a_machine_by_vcenter(lab, session, trips, repeats, near_and_far):
    at, study = machine(session).runtime.host.name, near(studies.find("ld_vmotion"))
    refused, moved = "VM [rtt=25ms]", {f"VM [rtt={trip}ms]" for trip in trips}
    wanted = {refused, *moved}
    chosen = tuple(c for c in study.conditions if c.name in wanted)
    others = tuple(c.name for c in study.conditions if c.name not in wanted)
    study = replace(study, conditions=chosen, absent=others)
    results = study_results(study, lab, "hosts.toml")
    assert list(results.asked["refused"]) == [refused]
    assert "so its disks do not move" in results.asked["refused"][refused]
    run(study, lab, results, repeats=repeats)
    assert machine(session).runtime.host.name == at
    assert {one.condition for one in results.finished()} == moved
    for one in results.finished():
        figures = {sample.metric: sample.values for sample in study.samples(one)}
        assert figures["arrived share"] == 1
        assert MOVE_MS / 1000 <= figures["migration time"] < 3 * MOVE_MS / 1000
    found = {one.claim: one for one in judge(study, results)}
    print(*(f"{one.claim} {one.verdict}: {one.why}" for one in found.values()), sep="\n")
    silent = [found[f"ld-vmotion-0{n}"] for n in (2, 3, 4, 5)]
    assert all(one.verdict == NOT_TESTABLE and SILENT in one.why for one in silent)
    assert found["ld-vmotion-01"].verdict in near_and_far
    assert found["ld-vmotion-06"].verdict == UNDECIDED


# The last one: the simulator says that the task was cancelled, and moves the machine later.
def test_a_move_that_is_late_is_cancelled_and_says_where_the_machine_is(session):
    vm = machine(session)
    at, to = vm.runtime.host.name, other_host(session, vm)
    with pytest.raises(StayedBehind, match=f"was not moved to {to}, and is on {at}") as error:
        relocated(session, vm.name, to, Say(), deadline=0.2)
    assert "canceled" in error.value.said


# The simulator has no HA: a test posts the events that HA would.
def test_what_vsphere_ha_did_is_read_from_events_of_vcenter(session):
    vim = importlib.import_module("pyVmomi").vim
    events, begun = session.RetrieveContent().eventManager, session.CurrentTime()
    host = machine(session).runtime.host
    for name in (*_vsphere.FAILED[:1], "com.vmware.vc.other", *_vsphere.RESTARTED[:1]):
        events.PostEvent(vim.event.EventEx(
            eventTypeId=name, message=name, severity="info", key=0, chainId=0, userName="",
            createdTime=begun, arguments=[], objectType=vim.HostSystem, objectId=host._moId,
        ))  # fmt: skip
        time.sleep(0.05)
    seen = _vsphere.seen(session, begun)
    assert list(seen) == ["detected", "restarted"] and seen["detected"] < seen["restarted"]
    assert _vsphere.seen(session, session.CurrentTime() + timedelta(seconds=1)) == {}
    at = {"down": 1.0, "silent": 2.0, "lost": 2.5, "answers": 9.0}
    lines = [json.dumps({"t": 0, "by": "us", "event": e, "at": a}) for e, a in at.items()]
    lines += [json.dumps({"t": 0, "by": "us", "event": e, "at": 3.0 + n})
              for n, e in enumerate(seen)]  # fmt: skip
    steps = [phase.name for phase in HostFailure.time_line("\n".join(lines)).phases]
    assert steps == ["shutdown", "detection", "restart", "boot"]
