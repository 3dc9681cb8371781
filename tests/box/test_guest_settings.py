"""Settings that need the box's guest: they take, they are real, and they are put back."""

import time
from dataclasses import replace

import pytest

from labkit import studies
from labkit.changes.in_force import applied
from labkit.changes.plan import plan
from labkit.errors import CommandFailed, Unknown
from labkit.lab import opened
from labkit.running import loop
from labkit.running.open_lab import study_results
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.settings.offloads import Offloads
from labkit.workloads.ping import Ping

PROGRAMS = ("bridge", "ip", "ping")

pytestmark = pytest.mark.box

SETTINGS = [
    GuestNic("direct", 1, False),
    GuestNic("bridge", 1, True),
    GuestPower("off"),
    GuestPower("paused"),
    ExclusiveCpu(),
    Offloads(gro=False),
    Offloads(gro=False, tso=False, role="server"),
    Offloads(gso=False, role="client"),
]


STATES = [("stop", "stopped\n"), pytest.param("pause", "paused\n", marks=pytest.mark.torture)]


def values(lab):
    return {str(step.setting): step.current for step in plan(SETTINGS, lab.hosts).steps}


def step(setting, lab):
    (one,) = plan([setting], lab.hosts).steps
    return one


# What the one before has left is what the next one finds.
@pytest.fixture(scope="module")
def before(lab_file):
    with opened(lab_file) as lab:
        return values(lab)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_a_setting_takes_and_goes_back_after_an_exception(lab, before, setting):
    with pytest.raises(ZeroDivisionError), applied([setting], lab.hosts):
        taken = step(setting, lab)
        assert (taken.why, taken.current) == ("", setting.wanted)
        1 / 0  # noqa: B018
    assert values(lab) == before


@pytest.mark.parametrize(("verb", "state"), STATES)
def test_a_study_starts_the_guest_that_it_finds_at_rest_and_leaves_it_so(
    lab, verb, state, tmp_path, monkeypatch
):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    known, server = studies.find("lat_ping"), lab.host("server")
    study = replace(
        known, workload=Ping(count=50), conditions=known.conditions[:2], claims=(), untold={}
    )
    server.check("guest", verb)
    lab.host("guest").close()
    try:
        results = study_results(study, lab, str(lab.path))
        assert server.check("guest", "state") == state
        assert results.asked["refused"] == {} and results.asked["lab"]["hosts"]["guest"]["kernel"]
        loop.run(study, lab, results, repeats=1)
        assert {run.condition for run in results.finished()} == {"Native", "VM-Default"}
        assert server.check("guest", "state") == state
    finally:
        server.check("guest", "start")
        lab.host("guest").close()


def test_the_guest_keeps_its_cpu_when_its_nic_changes(lab):
    server = lab.host("server")
    with applied([ExclusiveCpu(), GuestNic("direct")], lab.hosts):
        assert server.check("guest", "placement").split()[1] == "fifo"
        assert not step(GuestNic("direct"), lab).changes
    assert server.check("guest", "placement").split()[1] == "other"


def test_what_an_exclusive_guest_starts_is_exclusive_too(lab):
    with applied([ExclusiveCpu()], lab.hosts):
        lab.host("guest").check("sh", "-c", "true; true | true")
        assert lab.host("server").check("guest", "placement").count("\n") == 1


# Of each process that is still there: what it has spent, and when it began.
SPENT, BEGAN = (
    f"for pid in $(guest pids); do cut -d' ' -f{fields} /proc/$pid/stat; done 2> /dev/null; true"
    for fields in ("14,15", "22")
)


def born(lab):
    """When the oldest process of the guest began: another number after each start of it."""
    return min(map(int, lab.host("server").check("sh", "-c", BEGAN).split()))


def test_another_nic_is_plugged_into_a_guest_that_runs_on(lab):
    guest, before = lab.host("guest"), born(lab)
    guest.check("sh", "-c", "echo here > /tmp/mark")
    for nic in (GuestNic("direct", 1, False), GuestNic("direct"), GuestNic("bridge", 7)):
        with applied([nic], lab.hosts):
            links = guest.check("ip", "-o", "link").splitlines()
            assert [line.split()[1] for line in links] == ["lo:", "vec0:", "vec1:"]
            assert lab.host("client").run("ping", "-c", "1", "-W", "5", guest.address).ok
    assert born(lab) == before and guest.check("cat", "/tmp/mark") == "here\n"


LATE = "ip link set {0} arp off; (sleep 0.3; ip link set {0} arp on) > /dev/null 2>&1 &"


def plugged(lab):
    """Seconds until another NIC is in place whose peer hears no question for its first 0.3."""
    server, client = lab.host("server"), lab.host("client")
    server.check("guest", "set", "nic=direct")
    begun = time.monotonic()
    client.check("sh", "-c", LATE.format(client.interface))
    server.check("guest", "set", "nic=bridge")
    return time.monotonic() - begun


def test_a_nic_whose_first_question_is_lost_waits_for_no_second(lab):
    took = [plugged(lab) for _ in range(3)]
    assert 0.3 < min(took) < 0.9


def test_a_nic_that_cannot_be_had_leaves_the_guest_with_the_one_it_has(lab):
    server, before = lab.host("server"), lab.host("server").check("guest", "get")
    server.check("ip", "link", "set", "direct0", "down", "name", "away0")
    try:
        done = server.run("guest", "set", "nic=direct")
    finally:
        server.check("ip", "link", "set", "away0", "down", "name", "direct0", "up")
    assert not done.ok and "its NIC did not change" in done.stderr
    assert server.check("guest", "get") == before
    assert lab.host("client").run("ping", "-c", "1", "-W", "5", lab.host("guest").address).ok
    with applied([GuestNic("direct")], lab.hosts):
        assert lab.host("client").run("ping", "-c", "1", "-W", "5", lab.host("guest").address).ok


def test_a_paused_guest_does_nothing_and_goes_on_where_it_was_with_the_right_time(lab):
    client, server, guest = (lab.host(role) for role in ("client", "server", "guest"))
    before = born(lab)
    once = ("ping", "-c", "1", "-W", "1", guest.address)
    with applied([GuestPower("paused")], lab.hosts):
        assert server.check("guest", "state") == "paused\n"
        spent = server.check("sh", "-c", SPENT)
        assert not client.run(*once).ok
        assert server.check("sh", "-c", SPENT) == spent
        # Told while it is paused, it is so as soon as it goes on.
        with applied([GuestNic("direct", 1, False), GuestPower("on")], lab.hosts):
            moved = counters(server, "direct0", "tap0")
            assert client.run("ping", "-c", "20", "-i", "0.01", guest.address).ok
            grown = {link: n - moved[link] for link, n in counters(server, *moved).items()}
            assert grown["direct0"] >= 20 > grown["tap0"]
            assert server.check("guest", "state") == "running\n"
        assert server.check("guest", "state") == "paused\n"
    assert born(lab) == before and client.run(*once).ok
    skew = float(guest.check("date", "+%s.%N")) - float(server.check("date", "+%s.%N"))
    assert abs(skew) < 2


def counters(server, *links):
    counts = {}
    for link in links:
        stats = f"/sys/class/net/{link}/statistics"
        files = [f"{stats}/{way}_packets" for way in ("rx", "tx")]
        counts[link] = sum(map(int, server.check("cat", *files).split()))
    return counts


@pytest.mark.parametrize("path, crossed", [("bridge", "tap0"), ("direct", "direct0")])
def test_packets_take_the_path_that_was_asked_for_and_no_other(lab, path, crossed):
    links = ("tap0", "uplink0", "direct0", "data0")
    server = lab.host("server")
    with applied([GuestNic(path)], lab.hosts):
        before = counters(server, *links)
        Ping(count=200).run({"client": lab.host("client"), "server": lab.host("guest")})
        moved = {link: n - before[link] for link, n in counters(server, *links).items()}
    expected = {"tap0", "uplink0"} if path == "bridge" else {"direct0"}
    assert {link for link, n in moved.items() if n >= 200} == expected
    assert crossed in expected


def test_a_host_without_a_guest_says_so(lab):
    hosts = {"server": lab.host("client")}
    for planned in plan([GuestNic(), GuestPower(), ExclusiveCpu()], hosts).steps:
        assert planned.why.startswith("client has no guest of the box")


def test_an_offload_that_the_driver_fixes_is_refused(lab):
    assert "no choice of lro" in step(Offloads(gro=None, lro=True), lab).why


def test_an_unknown_path_is_refused_with_the_known_ones():
    with pytest.raises(Unknown, match="known: bridge, direct"):
        GuestNic("tunnel")


@pytest.mark.parametrize("pair", ["nic=tunnel", "batch=0", "cpus=999", "memory=lots", "x=1"])
def test_the_guest_command_refuses_what_cannot_be_meant(lab, pair):
    before = lab.host("server").check("guest", "get")
    with pytest.raises(CommandFailed):
        lab.host("server").check("guest", "set", pair)
    assert lab.host("server").check("guest", "get") == before


def test_a_guest_that_cannot_start_fails_with_its_last_words(lab):
    server = lab.host("server")
    with applied([GuestPower("off")], lab.hosts):
        server.check("guest", "set", "memory=1M")
        try:
            with pytest.raises(CommandFailed, match="did not start"):
                server.check("guest", "start")
        finally:
            server.check("guest", "set", "memory=128M")
