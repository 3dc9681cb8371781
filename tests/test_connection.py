"""Connecting and logging in: whom with what, once, in time, and what is said when it fails."""

import os
import re
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import paramiko
import pytest
from sshd import keygen, reached, tell
from sshds import certify, key, sshd

from labkit.errors import HostKeyRefused, LoginRefused, Unreachable
from labkit.transports import connection, way
from labkit.transports.address import Address
from labkit.transports.connection import CIPHERS, MACS, Negotiated, negotiated
from labkit.transports.known_hosts import Name
from labkit.transports.refusals import Refusals


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """Refused logins are remembered for a minute: in each test anew."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    with sshd(tmp_path_factory.mktemp("own")) as server:
        yield server


@contextmanager
def agent(*keys):
    """A real ssh-agent that holds some keys."""
    said = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    path, pid = re.findall(r"SSH_A\w+=([^;]+);", said)
    try:
        for one in keys:
            subprocess.run(
                ["ssh-add", "-q", one], env={**os.environ, "SSH_AUTH_SOCK": path}, check=True
            )
        yield path
    finally:
        os.kill(int(pid), signal.SIGTERM)


def unreachable(at, error=Unreachable):
    with reached(at) as host, pytest.raises(error) as why:
        host.run("true")
    return str(why.value)


def refused(target, error=Unreachable):
    with pytest.raises(error) as why:
        connection.reached(target).close()
    return str(why.value)


# --- logging in -----------------------------------------------------------------------------


def test_a_key_that_the_host_does_not_take_is_named(server, tmp_path, capfd):
    keygen(tmp_path / "other")
    said = unreachable(server.address(key=str(tmp_path / "other")))
    assert "Authentication failed" in said and f"ssh -p {server.port}" in said
    assert str(tmp_path / "other") in said
    assert capfd.readouterr().err == "", "paramiko printed something besides"


def test_a_private_key_that_cannot_be_read_is_named(server, tmp_path):
    (tmp_path / "broken").write_text("no key at all")
    (tmp_path / "broken").chmod(0o600)
    assert "cannot use the private key" in unreachable(server.address(key=str(tmp_path / "broken")))
    assert "cannot use the private key" in unreachable(server.address(key="/absent"))


def test_a_private_key_that_others_may_read_is_refused_as_ssh_refuses_it(own, tmp_path):
    keygen(tmp_path / "open")
    (tmp_path / "open").chmod(0o644)
    assert "chmod 600" in refused(own.target(identities=(str(tmp_path / "open"),)))


def test_without_a_key_or_an_agent_it_says_what_to_do(server, monkeypatch):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    assert "no key to log in with" in unreachable(server.address(key=""))


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
@pytest.mark.slow
def test_keys_of_all_kinds_are_taken_from_files_and_from_the_agent(own, tmp_path, kind):
    (own.folder / "authorized").open("a").write(key(tmp_path, "id", kind) + "\n")
    with closing(connection.reached(own.target(identities=(str(tmp_path / "id"),)))) as client:
        assert client.is_authenticated()
    with agent(tmp_path / "id") as path:
        target = own.target(identities=(), only=False, agent=path)
        with closing(connection.reached(target)) as client:
            assert client.is_authenticated()


def test_a_locked_key_is_used_through_the_agent_and_without_one_the_message_says_so(own, tmp_path):
    locked, target = tmp_path / "locked", own.target(identities=(str(tmp_path / "locked"),))
    (own.folder / "authorized").open("a").write(key(tmp_path, "locked") + "\n")
    with agent(locked) as path:
        subprocess.run(["ssh-keygen", "-q", "-p", "-N", "secret", "-f", locked], check=True)
        assert "passphrase" in refused(target) and "ssh-add" in refused(target)
        target = own.target(identities=(str(locked),), agent=path)
        with closing(connection.reached(target)) as client:
            assert client.is_authenticated()


def test_only_the_named_keys_are_offered_when_it_is_asked_for(own, tmp_path):
    keygen(tmp_path / "named")
    with agent(own.folder / "user") as path:
        target = own.target(identities=(str(tmp_path / "named"),), agent=path)
        said = refused(target, LoginRefused)
        assert "ssh-agent" not in said.replace("ssh-add it to your ssh-agent", "")


@pytest.mark.slow
def test_the_right_one_of_several_agent_keys_is_found(own, tmp_path):
    for n in range(4):
        keygen(tmp_path / f"other{n}")
    with agent(*(tmp_path / f"other{n}" for n in range(4)), own.folder / "user") as path:
        connection.reached(own.target(identities=(), only=False, agent=path)).close()


def test_a_user_certificate_logs_in_from_a_file_and_from_the_agent(tmp_path):
    lines = [f"TrustedUserCAKeys {tmp_path}/ca.pub"]
    key(tmp_path, "id")
    with sshd(tmp_path / "sshd", *lines) as server:
        certify(tmp_path, "id.pub", "-n", server.target().user)
        for target in (
            server.target(identities=(str(tmp_path / "id"),)),
            server.target(identities=(str(tmp_path / "id"),), certificates=("/absent",)),
        ):
            connection.reached(target).close()
        with agent(tmp_path / "id") as path:
            (tmp_path / "id-cert.pub").rename(tmp_path / "away")
            connection.reached(server.target(identities=(), only=False, agent=path)).close()
        certify(tmp_path, "id.pub", "-n", server.target().user, "-V", "20200101:20200102")
        said = refused(server.target(identities=(str(tmp_path / "id"),)), LoginRefused)
        assert "id-cert.pub: the certificate has expired" in said


def test_a_refused_login_is_not_tried_again_for_a_minute(own, tmp_path):
    keygen(tmp_path / "other")
    wrong = own.target(identities=(str(tmp_path / "other"),))
    begun = own.log().count("Connection from")
    assert "not tried again for a minute" in refused(wrong, LoginRefused)
    for _ in range(5):
        said = refused(wrong, LoginRefused)
        assert re.search(r"not tried again before \d\d:\d\d:\d\d", said)
    assert own.log().count("Connection from") == begun + 1
    (file,) = (tmp_path / "state/labkit/refused-logins").iterdir()
    os.utime(file, (time.time() - 61, time.time() - 61))
    connection.reached(own.target()).close()
    assert not file.exists(), "a login that works ends the pause"


@pytest.mark.slow
def test_an_sshd_that_hangs_up_on_the_first_wrong_key_has_refused_it(tmp_path):
    keygen(tmp_path / "other")
    with sshd(tmp_path / "sshd", "MaxAuthTries 1") as server:
        wrong = server.target(identities=(str(tmp_path / "other"),))
        assert "does not let us in" in refused(wrong, LoginRefused)
        assert "not tried again before" in refused(wrong, LoginRefused)


@pytest.mark.slow
def test_a_host_that_hangs_up_during_a_login_has_not_refused_it(own, tmp_path, monkeypatch):
    with stub(tmp_path) as (port, served):
        monkeypatch.setattr(Stub, "check_auth_publickey", lambda *_: served[0].sock.close())
        said = refused(stub_target(own, tmp_path, port))
    assert "while logging in" in said and "hung up" in said
    assert not (tmp_path / "state").exists()


@pytest.mark.slow
def test_another_user_or_address_need_not_wait(own, tmp_path):
    Refusals.of_user().remember(own.target(user="somebody"))
    connection.reached(own.target()).close()


@pytest.mark.slow
def test_a_key_that_is_removed_while_we_work_ends_nothing_that_runs(tmp_path):
    with sshd(tmp_path / "sshd") as server:
        at = Address(
            "box1", "127.0.0.1", server.port, server.target().user,
            str(server.folder / "user"), (str(server.folder / "known_hosts"),),
        )  # fmt: skip
        with reached(at) as host:
            host.check("true")
            (server.folder / "authorized").write_text("")
            assert host.check("echo", "still") == "still\n"
            host.close()
            with pytest.raises(LoginRefused):
                host.run("true")


@pytest.mark.slow
def test_the_banner_of_an_sshd_is_no_hindrance(tmp_path):
    (tmp_path / "banner").write_text("SSH-1.0 beware\r\n\x1b[31mred\n" * 50)
    with sshd(tmp_path / "sshd", f"Banner {tmp_path}/banner") as server:
        connection.reached(server.target()).close()


@pytest.fixture
def expired():
    """A real user whose account has expired, who may log in by key."""
    if os.geteuid() != 0:
        pytest.skip("only root can make users")
    name = f"labkit{os.getpid() % 100_000}"
    subprocess.run(["useradd", "-M", "-d", "/", "-p", "*", "-e", "2020-01-01", name], check=True)
    try:
        yield name
    finally:
        subprocess.run(["userdel", name], check=True, capture_output=True)


@pytest.mark.slow
def test_an_expired_account_is_asked_once_and_the_message_says_where_to_look(own, expired):
    begun = own.log().count("Connection from")
    for _ in range(3):
        said = refused(own.target(user=expired), LoginRefused)
    assert own.log().count("Connection from") == begun + 1
    assert f"{expired}@127.0.0.1" in said


# --- what protects it -----------------------------------------------------------------------


def test_the_connection_says_how_it_is_protected(own):
    with closing(connection.reached(own.target())) as client:
        found = negotiated(client)
    assert isinstance(found, Negotiated) and found.strict_kex and "OpenSSH" in found.server
    assert found.kex and found.host_key == "ssh-ed25519" and found.cipher in CIPHERS
    assert found.mac == "" if "gcm" in found.cipher else found.mac in MACS


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


class Stub(paramiko.ServerInterface):
    """Lets everybody in, and remembers what was asked for."""

    def __init__(self):
        self.asked = []

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_forward_agent_request(self, channel):
        self.asked.append("agent forwarding")
        return True


@contextmanager
def stub(folder, **settings):
    """A server of paramiko's, for what no sshd does: gives its port and, once served, transport."""
    key(folder, "stubkey")
    served = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            client, _ = listening.accept()
            server = paramiko.Transport(client, **settings)
            server.add_server_key(
                paramiko.Ed25519Key.from_private_key_file(str(folder / "stubkey"))
            )
            server.stub = Stub()
            served.append(server)
            server.start_server(server=server.stub)

        threading.Thread(target=serve, daemon=True).start()
        port = listening.getsockname()[1]
        (folder / "stubknown").write_text(f"[127.0.0.1]:{port} {key(folder, 'stubkey')}\n")
        try:
            yield port, served
        finally:
            for one in served:
                one.close()


def stub_target(own, folder, port):
    return own.target(folder / "stubknown", known_as=Name("127.0.0.1", port))


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
def test_a_server_without_strict_kex_is_written_down_as_such(own, tmp_path):
    with stub(tmp_path, strict_kex=False) as (port, _):
        client = connection.reached(stub_target(own, tmp_path, port))
        found = negotiated(client)
        client.close()
    assert not found.strict_kex and found.cipher in CIPHERS


# --- in time --------------------------------------------------------------------------------


@pytest.fixture
def hurried(monkeypatch):
    """Waits a tenth of the time, so that a test need not."""
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 1.5)
    monkeypatch.setattr("labkit.transports.login.AUTH_SECONDS", 1.5)
    monkeypatch.setattr(way, "CHANNEL_SECONDS", 1.5)


@contextmanager
def answering(answer):
    """Something that listens and is no sshd."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held = []

        def serve():
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                held.append(client)
                answer(client)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield Address("box1", "127.0.0.1", listening.getsockname()[1], key="/absent"), held
        finally:
            # Without this, accept() goes on in its thread.
            listening.shutdown(socket.SHUT_RDWR)
            for one in held:
                one.close()


def http(client):
    client.sendall(b"HTTP/1.1 400 what\r\nContent-Length: 0\r\n\r\n")
    client.close()


def dribble(client):
    with suppress(OSError):
        while True:
            client.sendall(b"wait\r\n")
            time.sleep(0.1)


def greet(client):
    client.sendall(b"SSH-2.0-mute\r\n")


def test_a_port_where_nobody_listens_is_named():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
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
        (greet, "while exchanging keys"),
    ],
    ids=["silence", "HTTP", "lines without end", "a greeting and no more"],
)
@pytest.mark.slow
def test_each_phase_has_its_time_and_its_name(hurried, capfd, answer, phase):
    with answering(answer) as (at, _):
        begun = time.monotonic()
        said = unreachable(at)
    assert time.monotonic() - begun < 6
    assert phase in said and "hint" in said
    assert answer is not http or "HTTP/1.1 400 what" in said
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_silence_is_given_up_after_fifteen_seconds():
    with answering(lambda client: None) as (at, _):
        begun = time.monotonic()
        assert "no SSH banner in 15 s" in unreachable(at)
    assert time.monotonic() - begun < 20


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
    turned_away = log.count("past MaxStartups")
    assert 0 < turned_away < 100, "the test did not bite, or they came in a storm"


# --- on the way -----------------------------------------------------------------------------


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


def test_the_key_of_a_jump_host_is_verified_too_and_the_message_names_it(own, inner, tmp_path):
    (tmp_path / "none").write_text("")
    said = refused(inner.target(jump=through(own, known=tmp_path / "none")), HostKeyRefused)
    assert said.startswith("box1: jump host gate: the key of") and "is not known" in said
    said = refused(inner.target(tmp_path / "none", jump=through(own)), HostKeyRefused)
    assert said.startswith("box1: the key of")


def test_a_jump_host_that_cannot_reach_the_host_is_named(own, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    target = stub_target(own, tmp_path, port)
    said = refused(replace(target, jump=through(own)))
    assert f"jump host gate cannot reach 127.0.0.1 port {port}" in said


@pytest.mark.slow
def test_a_host_that_turns_us_away_behind_a_jump_host_is_not_taken_for_the_jump_host(own, hurried):
    with answering(socket.socket.close) as (at, held):
        said = refused(own.target(known_as=Name("127.0.0.1", at.port), jump=through(own)))
    assert f"127.0.0.1 port {at.port} refuses new connections" in said and len(held) > 1


@pytest.mark.slow
def test_a_jump_host_that_dies_ends_the_connection_and_is_named(inner, tmp_path):
    with sshd(tmp_path / "gate") as gate:
        client = connection.reached(inner.target(jump=through(gate)))
        tell(gate.sessions(), signal.SIGKILL)
        client.join(10)
        assert not client.is_active()
        assert client.lost_on_the_way == "box1: jump host gate ended the connection"


def test_closing_a_connection_closes_what_it_went_through(own, inner):
    client = connection.reached(inner.target(jump=through(own)))
    jump = client._way.jump
    assert jump.is_active()
    client.close()
    assert not jump.is_active()


@pytest.mark.slow
def test_a_command_can_lead_to_the_host_and_ends_with_the_connection(own):
    # ssh itself can be such a command.
    user, known = own.folder / "user", own.folder / "known_hosts"
    relay = f"ssh -F none -i {user} -o UserKnownHostsFile={known} -p %p -W 127.0.0.1:{own.port} %h"
    relay = relay.replace("%p", str(own.port)).replace("%h", "127.0.0.1")
    with closing(connection.reached(own.target(proxy=relay))) as client:
        command = client._way.command
        assert client.is_authenticated() and command.poll() is None
    command.wait(5)


@pytest.mark.slow
def test_a_command_that_leads_nowhere_is_a_typed_error(own, hurried):
    said = refused(own.target(proxy="sh -c 'echo no way >&2; exit 3'"))
    assert "no way" in said and "ProxyCommand ended with code 3" in said


@pytest.mark.parametrize("address", ["::1"])
@pytest.mark.slow
def test_a_host_may_have_an_address_of_ipv6(tmp_path, address):
    try:
        server = sshd(tmp_path / "sshd", address=address)
        with server as six:
            with closing(connection.reached(six.target())) as client:
                assert client.is_authenticated()
            with closing(connection.reached(six.target(family="inet6"))) as client:
                assert client.is_authenticated()
            assert "cannot reach ::1" in refused(six.target(family="inet"))
    except OSError as absent:
        pytest.skip(f"no IPv6 here: {absent}")
