"""The way to a host: jump hosts, commands that lead there, and addresses of both kinds."""

import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from sshd import key, reached, refused, sshd, tell, written
from stubs import answering, hurry, stub_target
from waiting import free_port

from labkit.errors import HostKeyRefused, OutcomeUnknown
from labkit.ssh import connection
from labkit.ssh.known_hosts import Name

PROGRAMS = ("ip", "unshare")

RENAMED = Path(__file__).parents[1] / "helpers/renamed.py"
COUNTING = ("sh", "-c", "i=0; while [ $i -lt 20 ]; do echo $i; i=$((i + 1)); sleep 0.1; done")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]


@pytest.fixture
def hurried(monkeypatch):
    hurry(monkeypatch)


def through(server, **changed):
    return server.target(name="box1: jump host gate", **changed)


@pytest.fixture(scope="module")
def inner(tmp_path_factory):
    with sshd(tmp_path_factory.mktemp("inner")) as server:
        yield server


def test_a_host_is_reached_through_jump_hosts(own, inner):
    first = through(own)
    second = own.target(jump=first)
    with closing(connection.reached(inner.target(jump=second))) as client:
        channel = client.open_session(timeout=5)
        channel.exec_command("echo $SSH_CONNECTION")
        assert channel.makefile().read().split()[3] == str(inner.port).encode()
        assert client.reached_at == "127.0.0.1 by 127.0.0.1 by 127.0.0.1"


def test_the_key_of_a_jump_host_is_verified_too_and_the_message_names_it(own, inner, tmp_path):
    (tmp_path / "none").write_text("")
    said = refused(inner.target(jump=through(own, known=tmp_path / "none")), HostKeyRefused)
    assert said.startswith("box1: jump host gate: the key of") and "is not known" in said
    said = refused(inner.target(tmp_path / "none", jump=through(own)), HostKeyRefused)
    assert said.startswith("box1: the key of")


def test_a_jump_host_that_cannot_reach_the_host_is_named(own, tmp_path):
    port = free_port()
    target = stub_target(own, tmp_path, port)
    said = refused(replace(target, jump=through(own)))
    assert f"jump host gate cannot reach 127.0.0.1 port {port}" in said


def test_a_host_that_turns_us_away_behind_a_jump_host_is_not_taken_for_the_jump_host(own, hurried):
    with answering(socket.socket.close) as (at, held):
        said = refused(own.target(known_as=Name("127.0.0.1", at.port), jump=through(own)))
    assert f"127.0.0.1 port {at.port} refuses new connections" in said and len(held) > 1


def test_a_jump_host_that_dies_ends_the_connection_and_is_named(inner, tmp_path):
    with sshd(tmp_path / "gate") as gate:
        client = connection.reached(inner.target(jump=through(gate)))
        tell(gate.processes(), signal.SIGKILL)
        client.join(10)
        assert not client.is_active()
        assert client.lost_on_the_way == "box1: jump host gate ended the connection"


def test_what_ran_behind_a_jump_host_that_dies_is_unknown_and_the_jump_host_is_named(
    inner, tmp_path
):
    with sshd(tmp_path / "gate") as gate:
        (inner.folder / "known_both").write_text(
            "".join((one.folder / "known_hosts").read_text() for one in (gate, inner))
        )
        (gate.folder / "authorized").open("a").write(key(inner.folder, "user") + "\n")
        at = inner.address(known_hosts=(str(inner.folder / "known_both"),))
        at = replace(at, jump=f"{at.user}@127.0.0.1:{gate.port}")
        with reached(at) as host, ThreadPoolExecutor(1) as pool:
            job = host.start(*COUNTING, key="behind", seconds=60, spool=str(tmp_path / "spool"))
            running = pool.submit(host.run, "sh", "-c", f"echo ran >>{tmp_path}/log; sleep 60")
            written(tmp_path / "log")
            tell(gate.processes(), signal.SIGKILL)
            with pytest.raises(OutcomeUnknown) as unknown:
                running.result()
            assert "jump host 127.0.0.1 ended the connection" in str(unknown.value)
            told = []
            assert b"".join(job.follow(tell=told.append)).split() == [b"%d" % n for n in range(20)]
    assert (tmp_path / "log").read_text() == "ran\n"


def test_closing_a_connection_closes_what_it_went_through(own, inner):
    client = connection.reached(inner.target(jump=through(own)))
    jump = client._way.jump
    assert jump.is_active()
    client.close()
    assert not jump.is_active()


def test_a_command_can_lead_to_the_host_and_ends_with_the_connection(own):
    # ssh itself can be such a command.
    user, known = own.folder / "user", own.folder / "known_hosts"
    relay = f"ssh -F none -i {user} -o UserKnownHostsFile={known} -p %p -W 127.0.0.1:{own.port} %h"
    relay = relay.replace("%p", str(own.port)).replace("%h", "127.0.0.1")
    with closing(connection.reached(own.target(proxy=relay))) as client:
        command = client._way.command
        assert client.is_authenticated() and command.poll() is None
    command.wait(30)


def test_a_command_that_leads_nowhere_is_a_typed_error(own, hurried):
    said = refused(own.target(proxy="sh -c 'echo no way >&2; exit 3'"))
    assert "no way" in said and "ProxyCommand ended with code 3" in said


@pytest.mark.parametrize("address", ["::1"])
def test_a_host_may_have_an_address_of_ipv6(tmp_path, address):
    try:
        server = sshd(tmp_path / "sshd", ip=address)
        with server as six:
            with closing(connection.reached(six.target())) as client:
                assert client.is_authenticated()
            with closing(connection.reached(six.target(family="inet6"))) as client:
                assert client.is_authenticated()
            assert "cannot reach ::1" in refused(six.target(family="inet"))
    except OSError as absent:
        pytest.skip(f"no IPv6 here: {absent}")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a name table of its own")
def test_a_name_that_leads_elsewhere_is_refused_and_one_with_a_dead_address_too_is_reached(
    own, tmp_path
):
    """F13: what the name means changes between two connections; the pinned key decides."""
    (tmp_path / "known").write_text(f"[labhost]:{own.port} {own.public()}\n")
    at = own.address(control="labhost", known_hosts=(str(tmp_path / "known"),))
    (tmp_path / "address.json").write_text(json.dumps(asdict(at)))
    here, other = "127.0.0.1 labhost\n", "127.0.0.2 labhost\n"
    dead = "127.0.0.3 labhost\n127.0.0.4 labhost\n"
    with sshd(tmp_path / "other", f"ListenAddress 127.0.0.2:{own.port}"):
        words = ["unshare", "--mount", sys.executable, RENAMED, tmp_path]
        result = subprocess.run(
            [*words, here, other, "::1 labhost\n" + here, here, dead],
            capture_output=True,
            text=True,
        )
    found = [json.loads(line) for line in result.stdout.splitlines()]
    wanted = ["here", "HostKeyRefused", "here", "here", "Unreachable"]
    assert [said for said, _ in found] == wanted, result.stderr
    assert "CHANGED" in found[1][1] and "box1 (at 127.0.0.2): the key of labhost" in found[1][1]
    assert [found[n][1] for n in (0, 2, 3)] == ["127.0.0.1"] * 3
    assert all(address in found[4][1] for address in ("127.0.0.3: ", "127.0.0.4: "))


SILENT = """
import socket, subprocess, sys, time
name_server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
name_server.bind(("127.0.0.1", 53))
for file, text in {"resolv.conf": "nameserver 127.0.0.1", "nsswitch.conf": "hosts: dns"}.items():
    open(sys.argv[1] + file, "w").write(text)
    subprocess.run(["mount", "--bind", sys.argv[1] + file, "/etc/" + file], check=True)
from labkit.errors import Unreachable
from labkit.ssh import connection
from labkit.ssh.address import Target
from labkit.ssh.known_hosts import Name
begun = time.monotonic()
try:
    connection.reached(Target("box1", Name("no.such.lab", 22), seconds=0.5))
except Unreachable as failed:
    print(failed, time.monotonic() - begun < 4)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a name server of its own")
def test_a_name_server_that_says_nothing_costs_no_more_than_the_deadline(tmp_path):
    words = ["unshare", "--mount", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]
    result = subprocess.run(
        [*words, sys.executable, "-c", SILENT, f"{tmp_path}/"], capture_output=True, text=True
    )
    assert "box1: cannot reach no.such.lab port 22: unknown name" in result.stdout, result
    assert "no name server answered within 0.5 s" in result.stdout and "True" in result.stdout
