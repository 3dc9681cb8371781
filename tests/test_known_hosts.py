"""Which hosts labkit talks to at all, and as whom: against a real sshd."""

import re
import socket
import subprocess
import threading

import pytest
from sshd import keygen, known, reached

from labkit.errors import HostKeyRefused, Unreachable
from labkit.transports.connection import Address


def refused(at):
    with reached(at) as host, pytest.raises(HostKeyRefused) as why:
        host.run("true")
    return str(why.value)


def with_known(server, path, text):
    path.write_text(text)
    return server.address(known_hosts=(str(path),))


def public(server, kind="ed25519"):
    return (server.folder / f"host_{kind}.pub").read_text()


def printed(path):
    listed = subprocess.run(["ssh-keygen", "-lf", path], capture_output=True, text=True)
    return re.search(r"SHA256:\S+", listed.stdout)[0]


def test_an_unknown_host_is_refused_and_its_fingerprint_shown(server, tmp_path):
    said = refused(with_known(server, tmp_path / "known", ""))
    assert "is not known" in said
    assert printed(server.folder / "host_ed25519.pub") in said
    assert f"-o UserKnownHostsFile={tmp_path}/known -p {server.port} 127.0.0.1" in said
    refused(server.address(known_hosts=()))
    refused(server.address(known_hosts=(str(tmp_path / "absent"),)))


def test_a_changed_key_is_refused_with_both_fingerprints(server, tmp_path):
    other = keygen(tmp_path / "other")
    said = refused(with_known(server, tmp_path / "known", known(server.port, other)))
    assert "CHANGED" in said
    assert printed(tmp_path / "other.pub") in said
    assert printed(server.folder / "host_ed25519.pub") in said


def test_a_revoked_key_is_refused_also_when_it_is_known(server, tmp_path):
    line = known(server.port, public(server))
    said = refused(
        with_known(server, tmp_path / "known", f"{line}@revoked * {line.split(' ', 1)[1]}")
    )
    assert "is revoked" in said


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_a_host_is_asked_for_the_kind_of_key_that_we_know(server, tmp_path, kind):
    at = with_known(server, tmp_path / "known", known(server.port, public(server, kind)))
    with reached(at) as host:
        assert host.check("echo", "in") == "in\n"


@pytest.mark.parametrize(
    ("names", "lets_in"),
    [
        ("[127.0.0.1]:{port}", True),
        ("[127.0.0.*]:{port}", True),
        ("elsewhere,[127.0.0.1]:{port}", True),
        ("[127.0.0.1]:{port},![127.0.0.1]:{port}", False),
        ("127.0.0.1", False),
        ("[127.0.0.1]:22", False),
        ("[127.0.0.2]:{port}", False),
    ],
)
def test_names_in_known_hosts_mean_what_ssh_means(server, tmp_path, names, lets_in):
    kind, blob, *_ = public(server).split()
    text = f"# a comment\n\nnonsense\n{names.format(port=server.port)} {kind} {blob}\n"
    at = with_known(server, tmp_path / "known", text)
    if lets_in:
        with reached(at) as host:
            host.check("true")
    else:
        refused(at)


def test_hashed_names_are_known_too(server, tmp_path):
    at = with_known(server, tmp_path / "known", known(server.port, public(server)))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", tmp_path / "known"], check=True)
    assert (tmp_path / "known").read_text().startswith("|1|")
    with reached(at) as host:
        host.check("true")


def test_any_of_several_known_keys_will_do(server, tmp_path):
    lines = known(server.port, keygen(tmp_path / "old")) + known(server.port, public(server))
    with reached(with_known(server, tmp_path / "known", lines)) as host:
        host.check("true")


# --- logging in -----------------------------------------------------------------------------


def unreachable(at):
    with reached(at) as host, pytest.raises(Unreachable) as why:
        host.run("true")
    return str(why.value)


def test_a_key_that_the_host_does_not_take_is_named(server, tmp_path, capfd):
    keygen(tmp_path / "other")
    said = unreachable(server.address(key=str(tmp_path / "other")))
    assert "Authentication failed" in said and f"ssh -p {server.port}" in said
    assert capfd.readouterr().err == "", "paramiko printed something besides"


def test_a_private_key_that_cannot_be_read_is_named(server, tmp_path):
    (tmp_path / "broken").write_text("no key at all")
    assert "cannot use the private key" in unreachable(server.address(key=str(tmp_path / "broken")))
    assert "cannot use the private key" in unreachable(server.address(key="/absent"))
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "locked"], check=True
    )
    assert "ssh-agent" in unreachable(server.address(key=str(tmp_path / "locked")))


def test_without_a_key_or_an_agent_it_says_what_to_do(server, monkeypatch):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    assert "no key to log in with" in unreachable(server.address(key=""))


def test_a_port_where_nobody_listens_is_named():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    said = unreachable(Address("box1", "127.0.0.1", port, key="/absent"))
    assert f"cannot reach 127.0.0.1 port {port}" in said


def test_a_port_where_something_else_listens_is_no_traceback(capfd):
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            client, _ = other.accept()
            client.sendall(b"HTTP/1.1 400 what\r\n\r\n")
            client.close()

        threading.Thread(target=answer, daemon=True).start()
        said = unreachable(Address("box1", "127.0.0.1", other.getsockname()[1], key="/absent"))
    assert "no SSH session" in said
    assert capfd.readouterr().err == ""
