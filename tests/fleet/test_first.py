"""The first command on many hosts, from their logins on."""

import threading
import time
from dataclasses import replace
from functools import partial

import pytest
from poor import busybox, only, system
from sshd import SSHD, serving
from stubs import answering

from labkit.errors import LabkitError, OutcomeUnknown, Unreachable
from labkit.fleet.fleet import Fleet
from labkit.ssh import connection
from tests.fleet.test_fleet import HOSTS, IT_IS, fleet_of, port, servers  # noqa: F401

pytestmark = pytest.mark.slow

PROGRAMS = ("ps",)


@pytest.fixture
def fleet(servers):  # noqa: F811
    with fleet_of(*(server.address() for server in servers)) as found:
        yield found


def test_what_was_first_leaves_a_shell_for_the_next(servers, fleet):  # noqa: F811
    before = [set(server.sessions()) for server in servers]
    shells = [fleet.run("sh", "-c", "echo $PPID").check() for _ in range(3)]
    assert len({tuple(one.stdout for one in shell.values()) for shell in shells}) == 1
    assert new(servers, before) == [1] * HOSTS


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


def test_one_whose_packets_tell_no_length_answers_like_the_others(servers, tmp_path):  # noqa: F811
    plain = ["Ciphers aes128-ctr", "MACs hmac-sha2-256"]
    with serving(tmp_path, extra=plain) as old:
        addresses = [servers[0].address(), old.address(), servers[1].address(control="localhost")]
        addresses[2] = replace(addresses[2], known_hosts=(str(named(servers[1], tmp_path)),))
        with fleet_of(*addresses) as fleet:
            for word in ("first", "second"):
                answers = fleet.run("echo", word).check()
                assert {answer.stdout for answer in answers.values()} == {f"{word}\n"}


def named(server, folder):
    text = (server.folder / "known_hosts").read_text()
    (folder / "named").write_text(text.replace("127.0.0.1", "localhost"))
    return folder / "named"


@pytest.mark.parametrize("seconds", [0, 0.5])
def test_a_first_command_whose_connection_is_lost_is_not_run_again(fleet, tmp_path, seconds):
    lost = (
        f"echo $$ >> {tmp_path}/${{SSH_CONNECTION##* }}; sleep {seconds};"
        f" {IT_IS} {port(fleet, 1)} ] && kill -KILL $(ps -o ppid= -p $PPID); sleep 0.2; echo on"
    )
    outcomes = fleet.run("sh", "-c", lost)
    assert isinstance(outcomes["host1"], OutcomeUnknown)
    assert set(outcomes.ok) == {"host0", "host2", "host3"}
    assert [len(file.read_text().split()) for file in tmp_path.iterdir()] == [1] * HOSTS
    assert len(fleet.run("true").ok) == HOSTS


def test_others_may_use_a_host_while_it_is_logged_in_to(servers, fleet):  # noqa: F811
    before = [set(server.sessions()) for server in servers]
    answers, errors = [], []

    def others(host):
        try:
            answers.extend(host.check("echo", str(n)) for n in range(20))
        except LabkitError as error:
            errors.append(error)

    beside = [
        threading.Thread(target=others, args=[host])
        for host in fleet.hosts.values()
        for _ in range(3)
    ]
    for one in beside:
        one.start()
    for n in range(20):
        assert fleet.run("echo", str(n)).check()["host1"].stdout == f"{n}\n"
    for one in beside:
        one.join(60)
    assert not errors and len(answers) == 3 * HOSTS * 20
    assert new(servers, before) == [1] * HOSTS


def test_ctrl_c_among_logins_lets_go_of_all(servers, fleet):  # noqa: F811
    before = [set(server.sessions()) for server in servers]

    def ctrl_c(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fleet.run("sh", "-c", f"{IT_IS} {port(fleet, 0)} ] || sleep 5", tell=ctrl_c)
    assert len(fleet.run("true", seconds=10).ok) == HOSTS
    end = time.monotonic() + 5
    while new(servers, before) != [1] * HOSTS:
        assert time.monotonic() < end, "a connection that nobody uses stays"
        time.sleep(0.05)


@pytest.mark.parametrize("tools", [partial(system, "perl", "python3"), busybox])
def test_a_host_without_a_shell_that_stays_runs_it_all_the_same(tmp_path, tools):
    if not SSHD:
        pytest.skip("no sshd; to get it: make system")
    with only(tmp_path, tools()) as poor:
        for word in ("first", "second"):
            answers = Fleet.of([poor]).run("sh", "-c", f"echo {word}").check()
            assert answers["box1"].stdout == f"{word}\n"
