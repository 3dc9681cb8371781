"""Logging in: whom with what, once, and what is said when it is refused."""

import os
import re
import subprocess
import time
from contextlib import closing

import pytest
from sshd import agent, certify, key, keygen, reached, refused, sshd, unreachable
from stubs import Stub, stub, stub_target

from labkit.errors import LoginRefused, Unreachable
from labkit.job import State
from labkit.ssh import connection
from labkit.ssh.login import refusal_file

PROGRAMS = ("ssh-add", "ssh-keygen", "useradd", "userdel")

pytestmark = pytest.mark.usefixtures("state")


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


@pytest.mark.slow
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


@pytest.mark.slow
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
    file = refusal_file(own.target(user="somebody"))
    file.parent.mkdir(parents=True)
    file.touch()
    connection.reached(own.target()).close()


@pytest.mark.slow
def test_a_key_that_may_nothing_but_run_commands_from_here_is_enough(tmp_path):
    with sshd(tmp_path / "sshd") as server:
        authorized = server.folder / "authorized"
        authorized.write_text(f'restrict,from="127.0.0.1" {authorized.read_text()}')
        at = server.address()
        with reached(at) as host:
            assert host.check("echo", "one") == host.check("echo", "one") == "one\n"
            host.put(b"two", str(tmp_path / "two"))
            assert host.get(str(tmp_path / "two")) == b"two"
            with host.stream("echo", "three") as lines:
                assert [line.text for line in lines] == ["three"]


@pytest.mark.slow
def test_a_key_that_is_removed_while_we_work_ends_nothing_that_runs(tmp_path):
    with sshd(tmp_path / "sshd") as server:
        at = server.address()
        with reached(at) as host:
            host.check("true")
            (server.folder / "authorized").write_text("")
            assert host.check("echo", "still") == "still\n"
            host.close()
            with pytest.raises(LoginRefused):
                host.run("true")


def key_is_taken_away(server, _):
    (server.folder / "authorized").rename(server.folder / "authorized.away")


def certificate_lapses(_, lapses):
    time.sleep(max(0.0, lapses - time.time()))


def another_certificate(server, folder):
    certify(folder, "id.pub", "-n", server.target().user, "-V", "-1m:+1h")


def the_key_comes_back(server, _):
    (server.folder / "authorized.away").rename(server.folder / "authorized")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "mends"),
    [(key_is_taken_away, the_key_comes_back), (certificate_lapses, another_certificate)],
)
def test_a_job_goes_on_while_nobody_is_let_in_any_more(tmp_path, monkeypatch, ends, mends):
    """F68: one login is tried, and the job is unknown until there is a way in again."""
    key(tmp_path, "id")
    with sshd(tmp_path / "sshd", f"TrustedUserCAKeys {tmp_path}/ca.pub") as server:
        user, lapses = server.target().user, time.time() + 6
        valid = time.strftime("%Y%m%d%H%M%S", time.localtime(lapses))
        certify(tmp_path, "id.pub", "-n", user, "-V", f"20200101:{valid}")
        at = server.address(**({} if ends is key_is_taken_away else {"key": str(tmp_path / "id")}))
        with reached(at) as host:
            script = f"while [ ! -e {tmp_path}/enough ]; do sleep 0.1; done; echo done; exit 3"
            job = host.start("sh", "-c", script, key="on", seconds=60, spool=f"{tmp_path}/jobs")
            ends(server, lapses)
            assert host.check("echo", "still") == "still\n"
            host.close()
            begun = server.log().count("Connection from")
            for _ in range(3):
                with pytest.raises(LoginRefused):
                    host.run("true")
                assert job.status().state is State.UNKNOWN
            assert server.log().count("Connection from") == begun + 1
            (tmp_path / "enough").touch()
            mends(server, tmp_path)
            refusal_file(connection.resolved(at)).unlink()
            assert job.wait(30).code == 3 and job.output() == b"done\n"


@pytest.mark.slow
def test_an_agent_that_is_locked_while_we_work_ends_nothing_that_runs(own, tmp_path):
    (tmp_path / "ask").write_text("#!/bin/sh\necho secret\n")
    (tmp_path / "ask").chmod(0o755)
    with agent(own.folder / "user") as path:
        (tmp_path / "config").write_text(f"IdentityAgent {path}\n")
        with reached(own.address(key="", ssh_config=str(tmp_path / "config"))) as host:
            host.check("true")
            subprocess.run(
                ["ssh-add", "-q", "-x"], check=True, start_new_session=True,
                env={**os.environ, "SSH_AUTH_SOCK": path, "SSH_ASKPASS": str(tmp_path / "ask"),
                     "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"},
            )  # fmt: skip
            assert host.check("echo", "still") == "still\n"
            host.close()
            begun = own.log().count("Connection from")
            with pytest.raises(Unreachable, match=r"no key to log in with(.|\n)*not locked"):
                host.run("true")
            assert own.log().count("Connection from") == begun + 1


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
        # A daemon that has just refused may still be about.
        subprocess.run(["userdel", "-f", name], check=True, capture_output=True)


@pytest.mark.slow
def test_an_expired_account_is_asked_once_and_the_message_says_where_to_look(own, expired):
    begun = own.log().count("Connection from")
    for _ in range(3):
        said = refused(own.target(user=expired), LoginRefused)
    assert own.log().count("Connection from") == begun + 1
    assert f"{expired}@127.0.0.1" in said
