"""Every setting on every kind of host that has it: read, made so, read back, put back."""

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import worlds
from esxi_stand_in import stand_in
from settings import cases
from waiting import alive

from labkit.changes.in_force import applied
from labkit.changes.plan import plan
from labkit.errors import BadInput, CommandFailed, Impossible
from labkit.host import Guest
from labkit.setting import held, way_among
from labkit.settings import availability, kinds_of_setting
from labkit.settings._ways import OnHost
from labkit.settings.availability import GuestProtected
from labkit.settings.passthrough import Passthrough
from labkit.settings.storage import DiskQueue, DiskScheduler
from labkit.transports.local import Local

PROGRAMS = ("cibadmin", "corosync", "crm_verify", "dockerd", "ip", "libvirtd")

pytestmark = pytest.mark.slow

# What the tests of the box try on its own hosts and guest.
IN_THE_BOX = {"ExclusiveCpu", "GuestNic", "GuestPower", "GuestMemory", "Neighbour", "Offloads",
              "OtherCpus", "Reclaim", "MemoryLock", "GuestCores", "VirtualNuma"}  # fmt: skip
OF_FOLDER = ("DiskScheduler", "DiskQueue", "ReadAhead", "DirectIo",
             "GroupDiskLimit", "ProcessCpus")  # fmt: skip


@pytest.fixture(scope="module")
def host_of(tmp_path_factory):
    """The host of a kind, brought up when it is asked for first."""
    up, found = ExitStack(), {}

    def host(kind):
        if kind not in found:
            folder = tmp_path_factory.mktemp(kind)
            world = stand_in.standing_in if kind == "esxi" else getattr(worlds, kind)
            found[kind] = up.enter_context(world(folder)), folder
        made, folder = found[kind]
        return (of_guests(made.host) if kind == "esxi" else made), folder

    with up:
        yield host


def tried(host, case):
    """Read, made so, read back and put back; what went wrong is an assertion."""
    if case.lacks:
        why = refused(host, case.settings[0], case.kind)
        assert case.says.lower() in why.lower() and why, f"{case.name} must be refused: {why!r}"
        return
    host = on_its_interface(host, case)
    for setting in case.settings:
        assert refused(host, setting, case.kind) == ""
    setting, way, before = not_yet(host, case)
    assert host.check(*way.reads) == before, "the same text for the same state"
    try:
        for words in way.writes(setting.wanted):
            host.check(*words)
        assert settled(host, way, setting.wanted, way.value) == setting.wanted
        if way.live:
            # ESXi from 7.0 on applies a passthrough at once, and nothing else.
            at_once = isinstance(setting, Passthrough)
            live = way.value(host.check(*way.live))
            assert live == (setting.wanted if at_once else way.value(before)), "after a reboot"
    finally:
        for words in way.writes(way.value(before)):
            host.check(*words)
    assert settled(host, way, before) == before, "byte by byte as it was"


def settled(host, way, wanted, said=str):
    """What a host shows, once it is as wanted; what needs no time to settle is looked at once."""
    end = time.monotonic() + 10 * way.settle_seconds
    while (shown := said(host.check(*way.reads))) != wanted and time.monotonic() < end:
        time.sleep(0.05)
    return shown


def refused(host, setting, kind):
    """Why a plan would refuse the setting; empty when it would not."""
    try:
        _, way = way_among(setting, [kind], host)
        if way.probe:
            host.check(*way.probe)
        way, text = held(way, host.check(*way.reads))
        return way.refuses(text)
    except (Impossible, CommandFailed) as why:
        return str(why)


def not_yet(host, case):
    for setting in case.settings:
        _, way = way_among(setting, [case.kind], host)
        way, before = held(way, host.check(*way.reads))
        if case.lone or way.value(before) != setting.wanted:
            return setting, way, before
    pytest.fail(f"{case.name}: all values that could be tried are in force already")


# Machines of the stand-in answer nowhere, so that this machine answers for them.
def of_guests(host):
    guests = {"guest": Guest("lab", "127.0.0.1"), "shop": Guest("shop", "127.0.0.1")}
    return replace(host, guests=guests)


def on_its_interface(host, case):
    if case.kind != "esxi":
        return host
    return replace(host, interface="vmk1" if case.name == "Mtu" else "vmnic1")


def ids(listed):
    seen = {}
    for case in listed:
        seen[case.name] = seen.get(case.name, 0) + 1
        yield f"{case.kind}-{case.name}-{seen[case.name]}"


LISTED = [*cases.NETWORK, *cases.GROUPS, *cases.KERNEL, *cases.KVM, *cases.DOCKER]
LISTED += [*cases.ESXI, *cases.CLUSTER]


@pytest.mark.parametrize("case", LISTED, ids=list(ids(LISTED)))
def test_a_setting_is_made_and_put_back_byte_by_byte_or_refused_with_the_reason(host_of, case):
    host, _ = host_of(case.world or case.kind)
    tried(host, case)


@pytest.mark.parametrize("kind", ["linux", "kvm", "docker"])
def test_all_settings_of_a_host_are_made_in_one_change_set_and_put_back(host_of, kind):
    host, _ = host_of(kind)
    able = [case for case in LISTED if (case.world or case.kind) == kind]
    able = [case for case in able if not case.lacks and not case.lone]
    chosen = {setting.thing: setting for setting, _, _ in (not_yet(host, case) for case in able)}
    hosts = {"server": host}
    before = {step.thing: step.text for step in plan(chosen.values(), hosts).steps}
    assert len(before) == len(chosen) > 2
    with applied(list(chosen.values()), hosts):
        steps = plan(chosen.values(), hosts).steps
        assert [step.current for step in steps] == [step.setting.wanted for step in steps]
    assert {step.thing: step.text for step in plan(chosen.values(), hosts).steps} == before


@pytest.fixture(scope="module")
def sleeper(tmp_path_factory):
    """A process with a name that no other has."""
    program = tmp_path_factory.mktemp("sleeper") / "labkit-sleeps"
    program.symlink_to("/bin/sleep")
    with alive([program, "1000"]) as process:
        yield process


@pytest.mark.parametrize("name", OF_FOLDER)
def test_settings_of_disks_and_processes_of_our_own(host_of, sleeper, name):
    host, folder = host_of("linux")
    (case,) = (one for one in cases.of_folder(folder) if one.name == name)
    if name == "ProcessCpus":
        host = replace(host, transport=Local())
    tried(host, case)


def test_pacemaker_finds_no_fault_in_a_cluster_that_protects_a_machine(host_of):
    """The real program that checks a configuration; a schema that it does not keep is refused."""
    host, _ = host_of("cluster")
    setting = GuestProtected("shop")
    _, way = way_among(setting, ["linux"], host)
    try:
        host.check(*way.writes("on")[0])
        assert host.run("crm_verify", "-L", "-V").stderr.count("labkit-shop") == 0
        broken = setting.resource.replace("primitive", "primitif")
        assert not host.run("cibadmin", "-C", "-o", "resources", "-X", broken).ok
    finally:
        host.check(*way.writes("off")[0])
    assert "labkit-shop" not in host.check("cibadmin", "-Q")


def test_what_a_cluster_is_to_have_waits_on_a_host_of_a_box_until_a_load_begins_it(host_of):
    host, _ = host_of("cluster")  # its /run is its own
    host.check("sh", "-c", "mkdir /run/labkit && touch /run/labkit/host_key")
    try:
        for setting in ("FailureDetection(5000)", "Heartbeats(9)", "Fencing(False)"):
            tried(host, cases.linux(setting))
        assert not host.run("test", "-e", availability.WISHES).ok, "nothing stays"
    finally:
        host.check("rm", "-r", "/run/labkit")


def kinds_of(setting):
    return set(setting.kinds()) if issubclass(setting, OnHost) else set()


def test_each_setting_in_the_folder_is_tried_on_each_kind_of_host_that_has_it():
    tried_on = {(case.name, case.kind) for case in LISTED} | {(one, "linux") for one in OF_FOLDER}
    asked = {(one.__name__, kind) for one in kinds_of_setting() for kind in kinds_of(one)}
    in_the_box = {(name, "box") for name in IN_THE_BOX}
    assert asked - tried_on - in_the_box == {("GuestPower", "kvm")}, "by test_guests.py"
    known = {name for name, _ in tried_on | in_the_box}
    assert {one.__name__ for one in kinds_of_setting()} == known


def test_with_the_first_scheduler_of_a_disk_its_first_queue_comes_back(host_of):
    host, folder = host_of("linux")
    disk = Path(folder, "loop").read_text().strip().removeprefix("/dev/")
    queue = Path(f"/sys/block/{disk}/queue/nr_requests")
    first = queue.read_text()
    queue.write_text("77")
    try:
        with applied([DiskScheduler(disk, "mq-deadline")], {"server": host}):
            assert queue.read_text() != "77\n"
        assert queue.read_text() == "77\n"
    finally:
        queue.write_text(first)


def test_a_scheduler_and_the_queue_that_it_replaces_are_refused_together(host_of):
    host, folder = host_of("linux")
    disk = Path(folder, "loop").read_text().strip().removeprefix("/dev/")
    both = [DiskScheduler(disk, "mq-deadline"), DiskQueue(disk, 64)]
    with pytest.raises(BadInput, match="brings its own queue"), applied(both, {"server": host}):
        raise AssertionError("the block was entered")
