"""What ssh_config says about a host is what ssh does with it, and a lab file wins over it."""

import getpass
import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from sshd import sshd

from labkit.errors import BadInput
from labkit.lab import Lab
from labkit.ssh import connection
from labkit.ssh.address import Address, resolved

PROGRAMS = ("ssh",)

CASES = {
    "nothing": "",
    "a Host": "Host a\n  HostName 192.0.2.7\n  Port 2200\n  User bob\n",
    "the first value counts": "Host a\n  Port 1\nHost *\n  Port 2\n  User late\n",
    "negated": "Host * !a\n  Port 1\nHost ?\n  Port 2\n",
    "an equals sign and quotes": 'Host "a"\n  User="bo b"\n  port = 7\n  IdentityFile "/x y"\n',
    "case": "HOST a\n  hOSTnAME b\n  USER Me\n",
    "tokens in names": "Host a\n  HostName %h.example.com\n",
    "tokens in files": "Host a\n  HostName b\n  User me\n  IdentityFile /k/%h-%n-%r-%p-%%\n",
    "the home folder": "Host a\n  IdentityFile ~/.ssh/own\n  IdentityFile %d/.ssh/other\n",
    "an environment variable": "Host a\n  IdentityFile ${LABKIT_TEST}/key\n",
    "several identities": "Host a\n  IdentityFile /one\nHost *\n  IdentityFile /two\n",
    "only these": "Host a\n  IdentitiesOnly yes\n  IdentityFile /one\n  CertificateFile /c\n",
    "an alias for keys": "Host a\n  HostKeyAlias Other\n  HostName 192.0.2.7\n  Port 3\n",
    "Match host": "Host a\n  HostName b.example.com\nMatch host b.example.com\n  User matched\n",
    "Match originalhost": "Match originalhost a\n  User matched\n",
    "Match user": "Host a\n  User bob\nMatch user bob\n  Port 5\n",
    "Match exec": "Match exec true\n  Port 5\nMatch exec false\n  Port 6\n  User no\n",
    "Match all": "Match all\n  Port 5\n",
    "Match final": "Host a\n  HostName b\nMatch final host b\n  Port 5\n",
    "Include": "Include {folder}/more\n",
    "Include within a Host that does not match": "Host other\n  Include {folder}/more\n",
    "a family and a time": "Host a\n  AddressFamily inet6\n  ConnectTimeout 3\n",
    "known hosts": "Host a\n  UserKnownHostsFile /one /two\n  GlobalKnownHostsFile /three\n",
    "a jump host": "Host a\n  ProxyJump me@gate:2222\nHost gate\n  HostName 192.0.2.1\n",
    "a jump host that jumps": "Host a\n  ProxyJump gate\nHost gate\n  ProxyJump outer:5\n",
    "jump hosts": "Host a\n  ProxyJump outer,[::1]:5,gate\nHost gate\n  User me\n",
    "no jump host": "Host a\n  ProxyJump none\nHost *\n  ProxyJump gate\n",
    "a command": "Host a\n  ProxyCommand nc %h %p # %r\n  User me\n",
    "no command": "Host a\n  ProxyCommand none\nHost *\n  ProxyCommand nc %h %p\n",
}  # fmt: skip


def asked(file, *words):
    result = subprocess.run(["ssh", "-G", "-F", file, *words], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    found = {}
    for key, _, value in (line.partition(" ") for line in result.stdout.splitlines()):
        found.setdefault(key, []).append(value)
    return found


@pytest.fixture
def written(tmp_path, monkeypatch):
    def write(text):
        monkeypatch.setenv("LABKIT_TEST", "/from/the/environment")
        (tmp_path / "more").write_text("Host a\n  User included\n  Port 77\n")
        (tmp_path / "ssh_config").write_text(text.replace("{folder}", str(tmp_path)))
        return str(tmp_path / "ssh_config")

    return write


@pytest.mark.parametrize("case", CASES)
def test_a_lab_host_is_where_ssh_would_go(written, case):
    file = written(CASES[case])
    target = resolved(Address("box1", "a", ssh_config=file, shared=True))
    said = asked(file, "-l", target.user, "a")
    assert target.address == said["hostname"][0]
    assert target.port == int(said["port"][0])
    assert [target.known_as.alias] == said.get("hostkeyalias", [""])
    assert target.only == (said["identitiesonly"] == ["yes"])
    assert target.family == said["addressfamily"][0]
    files = said["userknownhostsfile"][0].split() + said["globalknownhostsfile"][0].split()
    assert [str(name) for name in target.known_hosts] == files
    assert bool(target.jump) == ("proxyjump" in said)
    assert bool(target.proxy) == (said.get("proxycommand", ["none"]) != ["none"])
    user = asked(file, "a")["user"][0]
    assert target.user == (user if user != getpass.getuser() else "root")
    assert len(target.identities) == len(said["identityfile"])
    assert not any(mark in name for name in target.identities for mark in ("~", "${", "%h"))


def test_a_user_who_is_named_for_the_whole_name_of_a_host_counts(written):
    text = "CanonicalizeHostname always\nHost a\n  HostName 192.0.2.7\nMatch canonical\n  User {}\n"
    for name, user in (("bob", "bob"), (getpass.getuser(), "root")):
        file = written(text.format(name))
        assert asked(file, "a")["user"] == [name]
        assert resolved(Address("box1", "a", ssh_config=file)).user == user
    assert resolved(Address("box1", "a", user="me", ssh_config=file)).user == "me"


def test_tokens_are_put_in_as_ssh_does(written):
    target = resolved(Address("box1", "a", ssh_config=written(CASES["tokens in files"])))
    assert target.identities == ("/k/b-a-me-22-%",)
    target = resolved(Address("box1", "a", ssh_config=written(CASES["an environment variable"])))
    assert target.identities == ("/from/the/environment/key",)
    target = resolved(Address("box1", "a", ssh_config=written(CASES["the home folder"])))
    assert target.identities == tuple(os.path.expanduser(f"~/.ssh/{n}") for n in ("own", "other"))


@pytest.mark.parametrize(
    ("case", "chain"),
    [
        ("a jump host", ["me@192.0.2.1 port 2222"]),
        ("a jump host that jumps", ["gate port 22", "outer port 5"]),
        ("jump hosts", ["me@gate port 22", "::1 port 5", "outer port 22"]),
    ],
)
def test_a_chain_of_jump_hosts_is_that_of_ssh(written, case, chain):
    target, found = resolved(Address("box1", "a", ssh_config=written(CASES[case]))), []
    while target := target.jump:
        found.append(str(target).removeprefix(f"{getpass.getuser()}@"))
    assert found == chain


def test_what_a_lab_file_says_wins(written):
    file = written("Host a\n  Port 1\n  User x\n  IdentityFile /x\n  ProxyJump gate\n")
    at = Address("box1", "a", 2, "me", "/mine", ("/known",), "other:9", file)
    target = resolved(at)
    assert (target.port, target.user, target.only) == (2, "me", True)
    assert target.identities[0] == "/mine" and str(target.jump).endswith("@other port 9")
    assert [str(file) for file in target.known_hosts] == ["/known"]


def test_without_ssh_config_nothing_of_it_counts_and_no_ssh_is_run(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    target = resolved(Address("box1", "a", key="/mine"))
    assert str(target) == "root@a port 22" and target.identities == ("/mine",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Host a\n  Prot 1\n", "prot"),
        ("Host a\n  Port many\n", "port"),
        ("Host a\n  KnownHostsCommand /bin/echo %H\n", "knownhostscommand"),
        ("Host a\n  RevokedHostKeys /krl\n", "revokedhostkeys"),
        ("Host a\n  ProxyJump a\n", "loop"),
        ("Host a\n  ProxyJump b\nHost b\n  ProxyJump c\nHost c\n  ProxyJump b\n", "loop"),
    ],
)
def test_what_cannot_be_followed_is_refused_before_anything_is_sent(written, text, said):
    with pytest.raises(BadInput) as why:
        resolved(Address("box1", "a", ssh_config=written(text)))
    assert said in str(why.value).lower() and "box1" in str(why.value)


@pytest.mark.parametrize(
    ("named", "agent"),
    [("", "/of/the/environment"), ("none", ""), ("/own/%u", f"/own/{getpass.getuser()}"),
     ("$LABKIT_TEST", "/from/the/environment"), ("SSH_AUTH_SOCK", "/of/the/environment")],
)  # fmt: skip
def test_the_agent_is_the_one_that_ssh_would_ask(written, monkeypatch, named, agent):
    monkeypatch.setenv("SSH_AUTH_SOCK", "/of/the/environment")
    file = written(f"IdentityAgent {named}\n" if named else "")
    assert resolved(Address("box1", "a", ssh_config=file)).agent == agent


def test_a_missing_ssh_is_a_typed_error(written, monkeypatch):
    file = written("")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BadInput, match="no ssh on this machine"):
        resolved(Address("box1", "a", ssh_config=file))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["", "ProxyJump gate", "ProxyJump gate,gate2", "ProxyCommand {nc}"])
def test_labkit_and_ssh_arrive_at_the_same_host(tmp_path, way):
    with sshd(tmp_path / "gate") as gate, sshd(tmp_path / "host") as host:
        files = f"UserKnownHostsFile {tmp_path}/known\n  GlobalKnownHostsFile none"
        (tmp_path / "known").write_text(f"{gate.name} {gate.public()}\nthe-host {host.public()}\n")
        nc = f"ssh -F {tmp_path}/ssh_config -W %h:%p gate"
        (tmp_path / "ssh_config").write_text(
            f"Host a\n  HostName 127.0.0.1\n  Port {host.port}\n  HostKeyAlias the-host\n"
            f"  IdentityFile {host.folder}/user\n  {way.format(nc=nc)}\n"
            f"Host gate*\n  HostName 127.0.0.1\n  Port {gate.port}\n"
            f"  IdentityFile {gate.folder}/user\n"
            f"Host *\n  User {getpass.getuser()}\n  {files}\n  BatchMode yes\n"
        )
        file = str(tmp_path / "ssh_config")
        words = ["ssh", "-F", file, "a", "echo $SSH_CONNECTION"]
        theirs = subprocess.run(words, capture_output=True, text=True)
        at = Address("box1", "a", ssh_config=file, shared=True)
        with closing(connection.connect(at)) as client:
            channel = client.open_session(timeout=5)
            channel.exec_command("echo $SSH_CONNECTION")
            ours = channel.makefile().read().decode()
    assert theirs.stdout.split()[2:] == ours.split()[2:] == ["127.0.0.1", str(host.port)]


def test_a_lab_file_in_this_folder_finds_the_ssh_config_beside_it(tmp_path, monkeypatch):
    (tmp_path / "lab.toml").write_text(
        'ssh_config = "own"\n[hosts.client]\ncontrol = "a"\n[hosts.server]\ncontrol = "b"\n'
    )
    (tmp_path / "own").write_text("Host a\n    ProxyJump gate.example\n")
    monkeypatch.chdir(tmp_path)
    lab = Lab.read(Path("lab.toml"))
    jump = resolved(lab.host("client").transport.at).jump
    assert jump is not None and jump.address == "gate.example"
    assert resolved(lab.host("server").transport.at).jump is None
