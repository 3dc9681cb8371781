"""Which host keys are taken for known: what ssh itself says, case by case, against a real sshd."""

import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from agreed import both
from sshd import keygen, known, reached, sshd, tell
from waiting import awaited

from labkit.changes.journal import hello
from labkit.errors import HostKeyRefused, LabkitError
from labkit.fleet.fleet import Fleet
from labkit.ssh.address import Address

PROGRAMS = ("ssh", "ssh-keygen")

PACKAGE = Path(__file__).parents[2] / "labkit"


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
    result = subprocess.run(["ssh-keygen", "-lf", path], capture_output=True, text=True)
    return re.search(r"SHA256:\S+", result.stdout)[0]


# --- what is said ---------------------------------------------------------------------------


def test_an_unknown_host_is_refused_and_its_fingerprint_shown(server, tmp_path):
    said = refused(with_known(server, tmp_path / "known", ""))
    assert "is not known" in said
    assert printed(server.folder / "host_ed25519.pub") in said
    assert f"-o UserKnownHostsFile={tmp_path}/known -p {server.port} 127.0.0.1" in said
    refused(server.address(known_hosts=()))
    refused(server.address(known_hosts=(str(tmp_path / "absent"),)))


def test_a_host_of_a_lab_is_made_known_by_the_command_that_the_message_names(server, tmp_path):
    said = refused(server.address(known_hosts=(), lab="a lab.toml"))
    assert "labkit trust box1 --lab 'a lab.toml'" in said


def test_a_changed_key_is_refused_with_both_fingerprints_and_the_line_to_remove(server, tmp_path):
    other = keygen(tmp_path / "other")
    said = refused(with_known(server, tmp_path / "known", "# ours\n" + known(server.port, other)))
    assert "CHANGED" in said
    assert printed(tmp_path / "other.pub") in said
    assert printed(server.folder / "host_ed25519.pub") in said
    assert f"remove {tmp_path}/known:2" in said


def test_a_revoked_key_is_refused_also_when_it_is_known(server, tmp_path):
    line = known(server.port, public(server))
    said = refused(
        with_known(server, tmp_path / "known", f"{line}@revoked * {line.split(' ', 1)[1]}")
    )
    assert "is revoked" in said and f"{tmp_path}/known:2" in said


def test_a_line_that_is_passed_over_is_named(server, tmp_path):
    said = refused(with_known(server, tmp_path / "known", "# ours\n\nbox1 ssh-rsa AAAA\n"))
    assert f"{tmp_path}/known:3: " in said


def test_each_new_connection_is_judged_anew(server, tmp_path):
    at = with_known(server, tmp_path / "known", known(server.port, public(server)))
    with reached(at) as host:
        host.check("true")
        (tmp_path / "known").write_text(known(server.port, keygen(tmp_path / "other")))
        host.check("true")
        host.close()
        with pytest.raises(HostKeyRefused, match="CHANGED"):
            host.run("true")


ASKED = {
    "run": lambda host, _: host.run("true"),
    "stream": lambda host, _: host.stream("true").__enter__(),
    "raw": lambda host, _: host.raw("true").__enter__(),
    "as root": lambda host, _: host.as_root().run("true"),
    "put": lambda host, folder: host.put(b"x", f"{folder}/there"),
    "get": lambda host, folder: host.get(f"{folder}/log"),
    "start": lambda host, _: host.start("true", key="swapped", seconds=5),
    "jobs": lambda host, _: host.jobs(),
    "settings": lambda host, _: hello(host),
    "fleet": lambda host, _: Fleet.of([host, replace(host, name="box2")]).run("true").check(),
    "clocks": lambda host, _: Fleet.of([host]).clocks().check(),
}


@pytest.fixture(scope="module")
def swapped(tmp_path_factory):
    """A host that we were logged in to when its key became another; and its sshd."""
    with sshd(tmp_path_factory.mktemp("swapped")) as found:
        at = Address(
            "box1", "127.0.0.1", found.port, found.target().user, str(found.folder / "user"),
            (str(found.folder / "known_hosts"),),
        )  # fmt: skip
        (found.folder / "tree").mkdir()
        with reached(at) as host:
            host.check("true")
            (found.folder / "host_ed25519").unlink()
            keygen(found.folder / "host_ed25519")
            tell([found.pid], signal.SIGHUP)
            tell(found.sessions(), signal.SIGKILL)
            awaited(lambda: found.log().count("Server listening") > 1, why=found.log)
            # That the connection is lost may be noticed only now.
            with pytest.raises(LabkitError):
                host.run("true")
            yield host, found


@pytest.mark.parametrize("asked", ASKED)
def test_after_a_swap_of_its_key_a_host_is_asked_for_nothing_by_any_way(swapped, asked):
    """F63 (I-KEY): no login is tried, and nothing of it is there."""
    host, found = swapped
    for _ in range(2):
        with pytest.raises(LabkitError) as error:
            ASKED[asked](host, found.folder)
        text = str(error.value)
        assert "CHANGED" in text and printed(found.folder / "host_ed25519.pub") in text
    logins = [line for line in found.log().splitlines() if "Accepted publickey" in line]
    assert len(logins) == 1 and not (found.folder / "there").exists()


def test_nothing_in_labkit_takes_a_key_unseen_or_forwards_an_agent():
    loose = re.compile("AutoAddPolicy|WarningPolicy|SSHClient|request_forward_agent|AgentRequest")
    paths = [path for path in PACKAGE.rglob("*.py") if loose.search(path.read_text("utf-8"))]
    assert paths == []


# --- as ssh says ----------------------------------------------------------------------------

# {name} is [127.0.0.1]:port, {ed} and {rsa} are the host's keys, {old} is another's.
PLAIN = {
    "its name": "{name} {ed}",
    "nothing": "",
    "without the port": "127.0.0.1 {ed}",
    "another key without the port": "127.0.0.1 {old}",
    "another key with the port, its own without": "{name} {old}\n127.0.0.1 {ed}",
    "port 22": "[127.0.0.1]:22 {ed}",
    "another port": "[127.0.0.1]:1 {ed}",
    "another address": "[127.0.0.2]:{port} {ed}",
    "a star": "[127.0.0.*]:{port} {ed}",
    "a star alone": "* {ed}",
    "a question mark": "[127.0.0.?]:{port} {ed}",
    "a question mark too many": "[127.0.0.1?]:{port} {ed}",
    "brackets are no wildcard": "[1]27.0.0.1 {ed}",
    "several names": "elsewhere,{name},10.0.0.1 {ed}",
    "an empty name among several": "elsewhere,,{name} {ed}",
    "negated": "*,!{name} {ed}",
    "negated first": "!{name},* {ed}",
    "negated, but known without the port": "[*]:*,!{name} {ed}\n127.0.0.1 {ed}",
    "only negated": "!elsewhere {ed}",
    "negated by a pattern": "{name},!*.0.1* {ed}",
    "several keys, the last is right": "{name} {old}\n{name} {ed}",
    "several keys, the first is right": "{name} {ed}\n{name} {old}",
    "another key": "{name} {old}",
    "another kind is known, and right": "{name} {rsa}",
    "another kind is known, and wrong": "{name} {oldrsa}",
    "one kind is right, the other is wrong": "{name} {oldrsa}\n{name} {ed}",
    "revoked": "{name} {ed}\n@revoked {name} {ed}",
    "revoked before": "@revoked * {ed}\n{name} {ed}",
    "another key is revoked": "{name} {ed}\n@revoked * {old}",
    "revoked under another name": "{name} {ed}\n@revoked elsewhere {ed}",
    "revoked without the port": "{name} {ed}\n@revoked 127.0.0.1 {ed}",
    "revoked alone": "@revoked {name} {ed}",
    "revoked, the other kind is known": "@revoked * {ed}\n{name} {rsa}",
    "an authority that is the key itself": "@cert-authority {name} {ed}",
    "an unknown marker": "@wrong {name} {ed}\n",
    "an unknown marker, then a good line": "@wrong {name} {ed}\n{name} {ed}",
    "two markers": "@revoked @cert-authority {name} {ed}\n{name} {ed}",
    "a marker and a tab": "@revoked\t{name} {ed}\n{name} {ed}",
    "a marker and several blanks": "@revoked  \t {name} {ed}\n{name} {ed}",
    "bad base64, then a good line": "{name} ssh-ed25519 AAAA!\n{name} {ed}",
    "base64 cut short": "{name} {cut}",
    "another kind than the key is": "{name} {misnamed}",
    "the name of a signature": "{name} {signature}",
    "a comment": "# {name} {ed}",
    "a comment after the key": "{name} {ed} root@somewhere # here",
    "a comment within": "{name} # {ed}",
    "a line with blanks before it": " \t {name} {ed}",
    "blanks at the end": "{name} {ed} \t ",
    "blanks between": "{name} \t  {tabbed}",
    "CR and LF": "{name} {ed}\r\n",
    "CR and LF after a comment": "# ours\r\n{name} {ed} me\r\n",
    "CR alone": "# ours\r{name} {ed}",
    "a form feed before": "\f{name} {ed}",
    "a zero byte before": "\0{name} {ed}",
    "a zero byte after": "{name} {ed}\0 more",
    "bytes that are no text": "\udcff\udcfe {ed}\n{name} {ed}",
    "a line break missing at the end": "# ours\n{name} {ed}",
    "no key": "{name}\n{name} ssh-ed25519\n",
    "a key of the first protocol": "{name} 1024 35 1234567890",
    "DSA, then the plain name": "{name} {dsa}\n127.0.0.1 {ed}",
    "hashed": "{hash} {ed}",
    "hashed without the port": "{barehash} {ed}",
    "hashed and another": "{hash},elsewhere {ed}",
    "a hash of another kind": "|2|AAAA|AAAA {ed}\n{name} {ed}",
    "a hash cut short": "{shorthash} {ed}",
    "hashed and revoked": "{name} {ed}\n@revoked {hash} {ed}",
    "a very long name": "{long} {ed}",
    "a very long name first": "{long},{name} {ed}",
}  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with sshd(tmp_path_factory.mktemp("plain"), kinds=("ed25519", "rsa")) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("case", PLAIN)
def test_a_known_hosts_file_means_what_it_means_to_ssh(plain, case):
    ours, theirs = both(plain, PLAIN[case])
    # To an ssh that has forgotten DSA (OpenSSH 10) such a line is no key; to labkit it is another.
    strict = "{dsa}" in PLAIN[case] and "ssh-dss" not in known_kinds()
    assert ours == (False if strict else theirs), f"ssh: {theirs}, labkit: {ours}"


def known_kinds():
    return subprocess.run(["ssh", "-Q", "key"], capture_output=True, text=True, check=True).stdout
