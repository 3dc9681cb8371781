"""Several hosts at once: sshd's on this machine, each a host of its own."""

import os
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from poor import busybox, only, system
from sshd import gone, serving
from waiting import awaited

from labkit.errors import (
    BadInput,
    FleetFailed,
    LabkitError,
    TimedOut,
    Unknown,
    Unreachable,
)
from labkit.fleet.fleet import Fleet
from labkit.fleet.together import ClockReading
from labkit.host import Host
from labkit.ssh import sessions
from labkit.transports.ssh import Ssh

pytestmark = pytest.mark.slow

PROGRAMS = ("perl", "ps")

HOSTS = 4
IT_IS = '[ "${SSH_CONNECTION##* }" ='


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with ExitStack() as stack:
        yield [
            stack.enter_context(serving(tmp_path_factory.mktemp(f"sshd{number}")))
            for number in range(HOSTS)
        ]


@contextmanager
def fleet_of(*addresses):
    hosts = [
        Host(f"host{n}", "127.0.0.1", Ssh(replace(at, name=f"host{n}")))
        for n, at in enumerate(addresses)
    ]
    fleet = Fleet.of(hosts)
    try:
        yield fleet
    finally:
        fleet.close()


@pytest.fixture
def fleet(servers):
    with fleet_of(*(server.address() for server in servers)) as found:
        yield found


# --- commands on all ------------------------------------------------------------------------


def test_all_hosts_answer_at_once_and_by_name(fleet):
    fleet.run("true").check()
    start = time.monotonic()
    answers = fleet.run("sh", "-c", "sleep 1; echo $SSH_CONNECTION").check()
    assert time.monotonic() - start < HOSTS - 1, "one after another, each takes a second"
    assert list(answers) == [f"host{n}" for n in range(HOSTS)]
    assert len({answer.stdout for answer in answers.values()}) == HOSTS


def test_a_host_that_fails_hides_none_of_the_others(servers):
    addresses = [server.address() for server in servers]
    addresses[1] = replace(addresses[1], port=1)
    addresses[2] = replace(addresses[2], known_hosts=())
    told = []
    with fleet_of(*addresses) as fleet:
        outcomes = fleet.run(
            "sh", "-c", "[ $SSH_CONNECTION ]; echo $$ out of $SSH_CONNECTION", tell=told.append
        )
        assert set(outcomes.ok) == {"host0", "host3"} and set(outcomes.failed) == {"host1", "host2"}
        assert isinstance(outcomes["host1"], Unreachable)
        assert sorted(told) == sorted(outcomes)
        with pytest.raises(FleetFailed, match="2 of 4 hosts failed: host1, host2") as error:
            outcomes.check()
        assert "port 1" in str(error.value) and "not known" in str(error.value)
        assert all(name in error.value.said for name in outcomes.failed), "each line names its host"
        with pytest.raises(Unknown):
            outcomes["host9"]


def test_a_command_that_ends_with_another_code_counts_as_failed(fleet):
    outcomes = fleet.run("sh", "-c", f"echo no >&2; {IT_IS} {port(fleet, 0)} ]")
    assert set(outcomes.ok) == {"host0"}
    with pytest.raises(FleetFailed, match="ended with code 1: no"):
        outcomes.check()


def port(fleet, number):
    return fleet.hosts[f"host{number}"].transport.at.port


def test_each_host_has_the_deadline_for_itself(fleet):
    fleet.run("true").check()
    start = time.monotonic()
    script = f"if {IT_IS} {port(fleet, 2)} ]; then sleep 30; fi"
    outcomes = fleet.run("sh", "-c", script, seconds=3)
    assert time.monotonic() - start < 20
    assert isinstance(outcomes.failed["host2"], TimedOut) and len(outcomes.ok) == HOSTS - 1


def test_ctrl_c_lets_go_of_what_all_were_given(fleet):
    fleet.run("true").check()

    def ctrl_c(_):
        raise KeyboardInterrupt

    for _ in range(sessions.SESSIONS + 1):
        with pytest.raises(KeyboardInterrupt):
            fleet.run("true", tell=ctrl_c)
    assert len(fleet.run("true", seconds=10).ok) == HOSTS


def test_files_go_to_all_hosts_by_the_same_means(fleet, tmp_path):
    fleet.each(lambda host: host.put(b"content", f"{tmp_path}/{host.name}")).check()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == dict.fromkeys(
        fleet.hosts, b"content"
    )


def test_many_logins_through_one_sshd_are_all_admitted(tmp_path):
    usual = ["MaxStartups 10:100:10"]
    with serving(tmp_path, extra=usual) as server, fleet_of(*[server.address()] * 24) as fleet:
        assert len(fleet.run("true").check()) == 24


# --- starting together ----------------------------------------------------------------------


def test_commands_wait_for_one_another_and_then_start_together(fleet, tmp_path):
    script = f"date +%s.%N >{tmp_path}/$1; echo out; echo err >&2; exit 3"
    with fleet.together({name: ("sh", "-c", script, "-", name) for name in fleet.hosts}) as line:
        time.sleep(0.3)
        assert os.listdir(tmp_path) == []
        started = line.go()
    for one in started.all.values():
        assert (one.code, one.stdout, one.stderr.strip()) == (3, b"out\n", "err")
    begun = [float((tmp_path / name).read_text()) for name in fleet.hosts]
    assert abs((max(begun) - min(begun)) - started.spread) < 0.2
    assert started.spread < 0.2 and started.bound < 0.1


def test_two_clients_start_within_5_ms_of_each_other(fleet):
    two = dict.fromkeys(list(fleet.hosts)[:2], ("true",))
    spreads = []
    while not spreads or (spreads[-1] > 0.005 and len(spreads) < 10):  # others use this machine too
        with fleet.together(two) as line:
            spreads.append(line.go().spread)
    assert spreads[-1] <= 0.005, spreads


def test_what_has_not_been_started_never_runs(fleet, tmp_path):
    with fleet.together({"host0": ("touch", f"{tmp_path}/ran")}):
        pass
    fleet.hosts["host0"].close()
    time.sleep(0.2)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["perl", "shell", "busybox"])
def test_started_commands_end_at_their_deadline_with_all_their_children(fleet, tmp_path, kind):
    script = f'sleep 60 & echo $! >{tmp_path}/child; trap "" TERM; sleep 60; sleep 60'
    with one_of(kind, fleet, tmp_path) as some:
        start = time.monotonic()
        with some.together(dict.fromkeys(some.hosts, ("sh", "-c", script))) as line:
            (outcome,) = line.go(seconds=0.5).all.values()
        assert isinstance(outcome, TimedOut)
        assert time.monotonic() - start < 8
    awaited(lambda: gone(int((tmp_path / "child").read_text())), 5)


@pytest.mark.parametrize("kind", ["perl", "shell", "busybox"])
def test_a_started_command_tells_its_code_its_output_and_when_it_began(fleet, tmp_path, kind):
    with one_of(kind, fleet, tmp_path) as some:
        words = ("sh", "-c", "echo out; echo err >&2; exit 7")
        with some.together(dict.fromkeys(some.hosts, words)) as line:
            before = time.time()
            (one,) = line.go().all.values()
    assert (one.code, one.stdout, one.stderr.strip(), one.words) == (7, b"out\n", "err", words)
    assert before - one.bound - 0.01 <= one.begun_here <= time.time() + one.bound


@contextmanager
def one_of(kind, fleet, folder):
    if kind == "perl":
        yield Fleet({"host1": fleet.hosts["host1"]})
        return
    (folder / "sshd").mkdir()
    with only(folder / "sshd", system() if kind == "shell" else busybox()) as host:
        yield Fleet.of([host])


def test_started_commands_end_when_the_connection_does(fleet, tmp_path):
    ended = []

    def go():
        try:
            with fleet.together(
                {"host1": ("sh", "-c", f"echo $$ >{tmp_path}/pid; sleep 60")}
            ) as line:
                ended.append(line.go()["host1"])
        except LabkitError as error:
            ended.append(error)

    running = threading.Thread(target=go)
    running.start()
    awaited(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), 5)
    fleet.hosts["host1"].close()
    awaited(lambda: gone(int((tmp_path / "pid").read_text())), 5)
    running.join(10)
    assert isinstance(ended[0], Unreachable)


def test_one_that_cannot_be_made_ready_stops_all_before_any_has_started(servers, tmp_path):
    lost = replace(servers[1].address(), port=1)
    touch = ("touch", f"{tmp_path}/ran")
    with (
        fleet_of(servers[0].address(), lost) as fleet,
        pytest.raises(FleetFailed, match="host1"),
        fleet.together(dict.fromkeys(fleet.hosts, touch)) as line,
    ):
        line.go()
    assert os.listdir(tmp_path) == []


# --- servers --------------------------------------------------------------------------------

SERVER = "sleep 0.3; echo $$ >{0}; exec sleep 60"


@pytest.mark.parametrize("deaf", ["", "trap '' TERM;"])
def test_a_server_is_waited_for_and_ends_when_we_leave(fleet, tmp_path, deaf):
    pid = tmp_path / "pid"
    server = ("sh", "-c", deaf + SERVER.format(pid))
    with fleet.serving({"host0": server}, ready={"host0": ("test", "-s", str(pid))}):
        number = int(pid.read_text())
        assert not gone(number)
    assert gone(number)


def test_a_server_ends_with_the_connection(fleet, tmp_path):
    pid = tmp_path / "pid"
    with fleet.serving(
        {"host0": ("sh", "-c", SERVER.format(pid))}, ready={"host0": ("test", "-s", str(pid))}
    ):
        fleet.hosts["host0"].close()
        awaited(lambda: gone(int(pid.read_text())), 5)


def test_a_server_that_ends_before_it_is_ready_is_an_error_with_its_last_words(fleet):
    failing = ("sh", "-c", "echo address in use; exit 1")
    with (
        pytest.raises(FleetFailed, match=r"ended before it was ready[\s\S]*address in use"),
        fleet.serving({"host0": failing}, ready={"host0": ("false",)}),
    ):
        pass


@pytest.mark.parametrize("deaf", ["", "trap '' TERM;"])
def test_a_server_that_is_never_ready_is_given_up_and_ended(fleet, tmp_path, deaf):
    pid = tmp_path / "pid"
    server = ("sh", "-c", deaf + SERVER.format(pid))
    start = time.monotonic()
    with (
        pytest.raises(FleetFailed, match="was not ready after 1 s"),
        fleet.serving({"host0": server}, ready={"host0": ("false",)}, seconds=1),
    ):
        pass
    assert time.monotonic() - start < 10
    awaited(lambda: gone(int(pid.read_text())), 5)


def test_a_server_without_a_probe_or_on_no_host_is_refused(fleet):
    with pytest.raises(BadInput, match="no ready="), fleet.serving({"host0": ("true",)}, ready={}):
        pass
    with pytest.raises(Unknown), fleet.together({"nobody": ("true",)}):
        pass


# --- clocks ---------------------------------------------------------------------------------


def test_each_clock_is_known_within_half_the_way_there_and_back(fleet):
    for reading in fleet.clocks().check().values():
        assert isinstance(reading, ClockReading)
        # The hosts are on this machine, so that their clock is ours.
        assert abs(reading.offset) <= reading.bound + 1e-5
        assert 0 < reading.round_trip < 1


def test_a_clock_that_tells_whole_seconds_is_known_within_a_second(tmp_path):
    (tmp_path / "sshd").mkdir()
    with only(tmp_path / "sshd", busybox()) as host:
        for reading in Fleet.of([host]).clocks().check().values():
            assert reading.resolution == 0.5
            # A kernel counts whole seconds at its ticks, of which there are 100 a second at least.
            assert abs(reading.offset) <= reading.bound + 0.011
