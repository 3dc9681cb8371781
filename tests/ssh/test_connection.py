"""Connecting: what protects it, how long each step may take, and what is said when one fails."""

import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace

import paramiko
import pytest
from paramiko.common import cMSG_CHANNEL_DATA, cMSG_CHANNEL_EXTENDED_DATA
from sshd import agent, refused, sshd, unreachable
from stubs import Stub, answering, hurry, stub, stub_target
from waiting import free_port

from labkit.ssh import connection
from labkit.ssh.address import Address
from labkit.ssh.client import CIPHERS, MACS, Client

pytestmark = pytest.mark.usefixtures("state")
# What sshd of this and the last years prefers, of what paramiko can do.
KEX = ("mlkem768x25519-sha256", "curve25519-sha256", "curve25519-sha256@libssh.org")


# --- what protects it -----------------------------------------------------------------------


def test_the_connection_is_protected_by_what_sshd_and_labkit_prefer(own, monkeypatch):
    kex, real = [], Client._verify_key
    monkeypatch.setattr(
        Client, "_verify_key", lambda self, *key: kex.append(self.kex_engine) or real(self, *key)
    )
    with closing(connection.reached(own.target())) as client:
        assert client.agreed_on_strict_kex and "OpenSSH" in client.remote_version
        assert client.host_key_type == "ssh-ed25519" and client.local_cipher in CIPHERS
        assert "gcm" in client.local_cipher or client.local_mac in MACS
    names = {kind: name for name, kind in paramiko.Transport._kex_info.items()}
    assert names[type(kex[0])] in KEX


def test_nothing_is_offered_that_terrapin_or_age_has_broken(own):
    with closing(connection.reached(own.target())) as client:
        sent = client._get_latest_kex_init()
    offered = [
        name
        for kind in ("kex", "client_encrypt", "server_encrypt", "client_mac", "server_mac")
        for name in sent[f"{kind}_algo_list"]
    ]
    assert offered
    assert [n for n in offered if re.search("chacha20|cbc|3des|arcfour|md5|sha1$|-96", n)] == []
    assert "kex-strict-c-v00@openssh.com" in offered


@pytest.mark.slow
def test_an_sshd_that_offers_only_weak_ciphers_is_refused_by_name(tmp_path):
    with sshd(tmp_path / "sshd", "Ciphers aes128-cbc,chacha20-poly1305@openssh.com") as server:
        said = refused(server.target())
    assert "while exchanging keys" in said and "acceptable ciphers" in said


@pytest.mark.slow
def test_no_server_gets_a_channel_to_our_agent(own, tmp_path):
    with stub(tmp_path) as (port, served), agent(own.folder / "user") as path:
        target = stub_target(own, tmp_path, port)
        with closing(connection.reached(replace(target, agent=path))) as client:
            client.open_session(timeout=5)
            for kind in ("auth-agent@openssh.com", "auth-agent", "x11", "forwarded-tcpip"):
                with pytest.raises(paramiko.ChannelException):
                    served[0].open_channel(kind, ("127.0.0.1", 1), ("127.0.0.1", 1), timeout=5)
            assert served[0].stub.asked == []


@pytest.mark.slow
@pytest.mark.parametrize("extended", [False, True], ids=["stdout", "stderr"])
def test_a_server_that_sends_more_than_it_was_given_room_for_is_hung_up_on(own, tmp_path, extended):
    window, part = 1 << 16, bytes(30_000)
    with (
        stub(tmp_path) as (port, served),
        closing(connection.reached(stub_target(own, tmp_path, port))) as client,
    ):
        channel = client.open_session(window_size=window, timeout=5)
        message = paramiko.Message()
        message.add_byte(cMSG_CHANNEL_EXTENDED_DATA if extended else cMSG_CHANNEL_DATA)
        message.add_int(channel.chanid)
        if extended:
            message.add_int(1)
        message.add_string(part)
        with suppress(EOFError, OSError):
            for _ in range(1000):
                served[0]._send_user_message(message)
        client.join(10)
        assert not client.is_active()
        held = len(channel.in_buffer) + len(channel.in_stderr_buffer)
        assert window < held <= window + len(part)


@pytest.mark.slow
def test_a_server_without_strict_kex_is_written_down_as_such(own, tmp_path):
    with stub(tmp_path, strict_kex=False) as (port, _):
        client = connection.reached(stub_target(own, tmp_path, port))
        client.close()
    assert not client.agreed_on_strict_kex and client.local_cipher in CIPHERS


@pytest.mark.slow
def test_a_host_may_not_change_its_key_when_keys_are_exchanged_again(own):
    with closing(connection.reached(own.target())) as client:
        client.renegotiate_keys()
        assert client.is_active()
        client.shown = b"another"
        with pytest.raises(Exception, match="another key than before"):
            client.renegotiate_keys()


# --- in time --------------------------------------------------------------------------------


@pytest.fixture
def hurried(monkeypatch):
    hurry(monkeypatch)


def http(client):
    client.sendall(b"HTTP/1.1 400 what\r\nContent-Length: 0\r\n\r\n")
    client.close()


def dribble(client):
    with suppress(OSError):
        while True:
            client.sendall(b"wait\r\n")
            time.sleep(0.1)


def flood(client):
    with suppress(OSError):
        while True:
            client.sendall(b"no end " * 10_000)


def greet(client):
    client.sendall(b"SSH-2.0-mute\r\n")


def test_a_port_where_nobody_listens_is_named():
    port = free_port()
    said = unreachable(Address("box1", "127.0.0.1", port, key="/absent"))
    assert f"cannot reach 127.0.0.1 port {port}" in said


def test_a_name_that_nobody_knows_is_named():
    assert "cannot reach nowhere.invalid" in unreachable(Address("box1", "nowhere.invalid"))


@pytest.mark.parametrize(
    ("answer", "phase"),
    [
        (lambda client: None, "no SSH banner in 1.5 s"),
        (http, "no SSH banner"),
        (dribble, "no SSH banner"),
        (flood, "no SSH banner"),
        (greet, "while exchanging keys"),
    ],
    ids=["silence", "HTTP", "lines without end", "a line without end", "a greeting and no more"],
)
@pytest.mark.slow
def test_each_phase_has_its_time_and_its_name(hurried, capfd, answer, phase):
    with answering(answer) as (at, _):
        start = time.monotonic()
        said = unreachable(at)
    assert time.monotonic() - start < 6
    assert phase in said and "hint" in said
    assert answer is not http or "HTTP/1.1 400 what" in said
    assert answer is not flood or "no end no end" in said
    assert capfd.readouterr().err == ""


@pytest.mark.torture
def test_silence_is_given_up_after_fifteen_seconds():
    with answering(lambda client: None) as (at, _):
        start = time.monotonic()
        assert "no SSH banner in 15 s" in unreachable(at)
    assert time.monotonic() - start < 20


@pytest.mark.slow
def test_a_login_that_is_never_answered_has_its_time_too(own, tmp_path, hurried, monkeypatch):
    with stub(tmp_path) as (port, _):
        monkeypatch.setattr(Stub, "check_auth_publickey", lambda *_: time.sleep(4))
        said = refused(stub_target(own, tmp_path, port))
    assert "while logging in" in said and "no answer to our key within 1.5 s" in said


def penalize(client):
    # What sshd says while a penalty lasts (sshd_config(5), PerSourcePenalties; OpenSSH 9.8).
    client.sendall(b"Not allowed at this time\r\n")
    client.close()


@pytest.mark.slow
@pytest.mark.parametrize("answer", [socket.socket.close, penalize], ids=["silently", "penalty"])
def test_a_server_that_turns_us_away_is_asked_more_and_more_slowly(hurried, answer):
    with answering(answer) as (at, held):
        said = unreachable(at)
    assert answer is not penalize or "Not allowed at this time" in said
    assert "refuses new connections from this address" in said and "MaxStartups" in said
    assert 3 <= len(held) <= 8


@pytest.mark.slow
def test_ten_who_come_at_once_all_get_in_though_one_may_at_a_time(tmp_path):
    # What it turns away is written down at this level only.
    with sshd(tmp_path / "sshd", "MaxStartups 1:100:1", "LogLevel DEBUG1") as server:
        with ThreadPoolExecutor(10) as pool:
            clients = list(pool.map(connection.reached, [server.target()] * 10))
        assert all(client.is_authenticated() for client in clients)
        for client in clients:
            client.close()
        log = server.log()
    turned_away = log.count("drop connection #")
    assert 0 < turned_away < 100, "the test did not bite, or they came in a storm"
