"""The first command on many hosts, from their logins on."""

import time
from dataclasses import replace
from functools import partial

import pytest
from poor import busybox, only, system
from stubs import answering
from waiting import awaited

from labkit.errors import OutcomeUnknown, Unreachable
from labkit.fleet.fleet import Fleet
from labkit.ssh import connection
from tests.fleet.test_fleet import HOSTS, IT_IS, fleet, fleet_of, port, servers  # noqa: F401

pytestmark = pytest.mark.slow

PROGRAMS = ("ps",)


def new(servers, before):  # noqa: F811
    """How many connections there are on each that were not there before."""
    return [len(set(server.sessions()) - old) for server, old in zip(servers, before, strict=True)]


# A packet of 28 bytes, of which the first four come.
TORN = b"SSH-2.0-torn\r\n" + bytes([0, 0, 0, 28]) + bytes(8)


@pytest.mark.parametrize("part", [b"", b"SSH-2.0-torn", b"words\r\n" * 3, TORN])
def test_one_that_falls_silent_holds_up_no_other(servers, part, monkeypatch):  # noqa: F811
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 3.0)
    told, begun = {}, time.monotonic()
    with answering(lambda client: client.sendall(part)) as (silent, _):
        addresses = [server.address() for server in servers]
        addresses[0] = replace(addresses[0], port=silent.port)
        with fleet_of(*addresses) as fleet:
            outcomes = fleet.run(
                "true", tell=lambda name: told.setdefault(name, time.monotonic() - begun)
            )
    assert isinstance(outcomes["host0"], Unreachable) and len(outcomes.ok) == HOSTS - 1
    assert told.pop("host0") > 2.5 and max(told.values()) < 2


@pytest.mark.parametrize("seconds", [0, 0.5])
def test_a_first_command_whose_connection_is_lost_is_not_run_again(fleet, tmp_path, seconds):  # noqa: F811
    lost = (
        f"echo $$ >> {tmp_path}/${{SSH_CONNECTION##* }}; sleep {seconds};"
        f" {IT_IS} {port(fleet, 1)} ] && kill -KILL $(ps -o ppid= -p $PPID); sleep 0.2; echo on"
    )
    outcomes = fleet.run("sh", "-c", lost)
    assert isinstance(outcomes["host1"], OutcomeUnknown)
    assert set(outcomes.ok) == {"host0", "host2", "host3"}
    assert [len(file.read_text().split()) for file in tmp_path.iterdir()] == [1] * HOSTS
    assert len(fleet.run("true").ok) == HOSTS


def test_ctrl_c_among_logins_lets_go_of_all(servers, fleet):  # noqa: F811
    before = [set(server.sessions()) for server in servers]

    def ctrl_c(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fleet.run("sh", "-c", f"{IT_IS} {port(fleet, 0)} ] || sleep 5", tell=ctrl_c)
    assert len(fleet.run("true", seconds=10).ok) == HOSTS
    why = "a connection that nobody uses stays"
    awaited(lambda: new(servers, before) == [1] * HOSTS, 5, why)


@pytest.mark.parametrize("tools", [partial(system, "perl", "python3"), busybox])
def test_a_host_without_a_shell_that_stays_runs_it_all_the_same(tmp_path, tools):
    with only(tmp_path, tools()) as poor:
        for word in ("first", "second"):
            answers = Fleet.of([poor]).run("sh", "-c", f"echo {word}").check()
            assert answers["box1"].stdout == f"{word}\n"
