"""First contact: what `labkit trust` shows, asks, keeps and refuses; and which machine it is."""

import getpass
import json
import os
import pty
import re
import select
import shlex
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from knobs import Knob
from lab_toml import lab_toml, reached_at, table
from sshd import keygen, sshd

from labkit.changes.in_force import applied
from labkit.cli import main
from labkit.errors import HostKeyRefused, WrongHost
from labkit.lab import Lab
from labkit.ssh.connection import connect
from labkit.ssh.trust import ASK, append, check_pin

PROGRAMS = ("ssh-keygen", "unshare")

pytestmark = pytest.mark.usefixtures("state")


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    with sshd(tmp_path_factory.mktemp("own"), kinds=("ed25519", "ecdsa")) as server:
        yield server


@pytest.fixture
def lab(tmp_path, own):
    """A lab file for the server, whose key nobody knows."""
    return lab_of(tmp_path, own)


def lab_of(folder, server, **changed):
    client = table("client", **reached_at(server.address()) | changed)
    return lab_toml(folder / "lab.toml", client, ssh_config="none")


def fingerprint(server, kind="ed25519"):
    words = ["ssh-keygen", "-lf", server.folder / f"host_{kind}.pub"]
    return re.search(r"SHA256:\S+", subprocess.check_output(words, text=True))[0]


def trust(lab, *words):
    return main(["trust", "client", "--lab", str(lab), *words])


def test_without_a_terminal_nobody_is_asked_and_the_message_has_the_command(lab, own, capsys):
    assert trust(lab) == 1
    output = capsys.readouterr().err
    assert fingerprint(own) in output and fingerprint(own, "ecdsa") in output
    assert f"labkit trust client --lab {lab} --yes FINGERPRINT" in output
    assert not lab.with_suffix(".known_hosts").exists()


def test_an_unknown_host_is_refused_with_the_command_that_makes_it_known(lab):
    start = time.monotonic()
    with pytest.raises(HostKeyRefused) as why:
        Lab.read(lab).host("client").run("true")
    assert time.monotonic() - start < 10
    assert f"labkit trust client --lab {lab}" in why.value.hint


@pytest.mark.slow
def test_the_key_of_a_fingerprint_is_kept_and_no_other(lab, own, capsys):
    assert trust(lab, "--yes", fingerprint(own), "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["kept"] == [fingerprint(own)] and not answer["known"]
    known = lab.with_suffix(".known_hosts")
    assert known.read_text() == f"{own.name} {own.public()}\n"
    assert stat.S_IMODE(known.stat().st_mode) == 0o600
    assert Lab.read(lab).host("client").check("echo", "in") == "in\n"
    assert trust(lab, "--json") == 0
    assert json.loads(capsys.readouterr().out)["known"]
    assert known.read_text().count("\n") == 1, "known already: nothing is added"


@pytest.mark.slow
def test_a_fingerprint_that_is_none_of_its_keeps_nothing(lab, capsys):
    assert trust(lab, "--yes", "SHA256:somebodyelse") == 1
    assert "none of its fingerprints" in capsys.readouterr().err
    assert not lab.with_suffix(".known_hosts").exists()


def test_a_changed_key_is_refused_and_there_is_no_going_on_anyway(lab, own, tmp_path, capsys):
    other = " ".join(keygen(tmp_path / "other").split()[:2])
    known = lab.with_suffix(".known_hosts")
    known.write_text(f"# ours\n{own.name} {other}\n")
    content = known.read_bytes()
    assert trust(lab, "--yes", fingerprint(own)) == 1
    output = capsys.readouterr().err
    assert "CHANGED" in output and f"{known}:2" in output and fingerprint(own) in output
    assert known.read_bytes() == content


@pytest.mark.slow
def test_a_revoked_key_cannot_be_trusted(lab, own, capsys):
    lab.with_suffix(".known_hosts").write_text(f"@revoked * {own.public()}\n")
    assert trust(lab, "--yes", fingerprint(own)) == 1
    assert "is revoked" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "kept"), [("yes", 2), ("no", 0), ("", 0), ("y", 0), ("{fingerprint}", 1)]
)
def test_on_a_terminal_a_human_is_asked_once(lab, own, answer, kept):
    words = [sys.executable, "-m", "labkit", "trust", "client", "--lab", str(lab)]
    parent, child = pty.openpty()
    process = subprocess.Popen(words, stdin=child, stdout=child, stderr=child)
    os.close(child)
    shown = read_until(parent, "fingerprint) ")
    assert fingerprint(own) in shown and "ssh-keygen -lf" in shown
    os.write(parent, answer.format(fingerprint=fingerprint(own)).encode() + b"\n")
    shown = read_until(parent, "")
    assert process.wait(20) == (0 if kept else 1), shown
    os.close(parent)
    known = lab.with_suffix(".known_hosts")
    assert (known.read_text().count("\n") if known.exists() else 0) == kept


def read_until(terminal, words):
    shown, end = "", time.monotonic() + 20
    while time.monotonic() < end and not (words and words in shown):
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                shown += os.read(terminal, 4096).decode()
            except OSError:  # how Linux says that the other side is closed
                break
    return shown


@pytest.mark.slow
def test_a_jump_host_is_made_known_by_the_command_that_its_refusal_names(own, tmp_path, typed):
    gate = f"{getpass.getuser()}@localhost:{own.port}"
    lab = lab_of(tmp_path, own, jump=gate)
    with pytest.raises(HostKeyRefused) as why:
        connect(Lab.read(lab).host("client").transport.at)
    host = re.search(r"labkit trust (\S+) --lab", why.value.hint)[1]
    assert host == gate
    assert "kept" in typed("trust", host, "--lab", lab, "--yes", fingerprint(own))
    assert trust(lab, "--yes", fingerprint(own)) == 0
    assert Lab.read(lab).host("client").check("echo", "in") == "in\n"


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b:c", "", "[::1"])
def test_what_is_no_host_is_refused(lab, host):
    assert main(["trust", "--lab", str(lab), "--", host]) == 2


def test_a_line_is_added_after_one_without_an_end_and_nothing_is_written_anew(tmp_path):
    file = tmp_path / "deep/known"
    append(file, "one")
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    file.write_text("# no end")
    number = file.stat().st_ino
    append(file, "two", "three")
    assert file.read_text() == "# no end\ntwo\nthree\n" and file.stat().st_ino == number


# --- which machine --------------------------------------------------------------------------


@pytest.fixture
def trusted(lab, own):
    if not Path("/etc/machine-id").is_file() or not Path("/etc/machine-id").read_text().strip():
        pytest.skip("this machine has no /etc/machine-id; to get it: systemd-machine-id-setup")
    assert trust(lab, "--yes", fingerprint(own)) == 0
    return lab


def test_the_machine_that_was_trusted_may_be_changed(trusted, capsys):
    host = Lab.read(trusted).host("client")
    check_pin(host)
    pin = json.loads(trusted.with_suffix(".known_hosts.machines").read_text())
    assert pin["hostname"] == os.uname().nodename
    machine = host.run("cat", "/etc/machine-id").stdout.strip()
    assert pin["machine"] == f"machine-id {machine}"


@pytest.mark.slow
def test_a_clone_with_the_same_keys_is_read_but_not_changed(own, trusted, tmp_path):
    # The same host key and address: only what the machine says of itself is another. The clone's
    # own files are put over those of this machine, for its sshd alone.
    if os.geteuid() != 0:
        pytest.skip("only root can put other files in place for one sshd")
    (tmp_path / "machine-id").write_text("f" * 32 + "\n")
    script = tmp_path / "clone"
    script.write_text(
        f"#!/bin/sh\nmount --bind {tmp_path}/machine-id /etc/machine-id && "
        'exec "${SHELL:-/bin/sh}" -c "$SSH_ORIGINAL_COMMAND"\n'
    )
    script.chmod(0o755)
    force = f"ForceCommand unshare --mount {script}"
    (own.folder / "clone").mkdir(exist_ok=True)
    for name in ("host_ed25519", "host_ed25519.pub", "user", "user.pub"):
        os.replace(copied(own.folder / name, tmp_path), own.folder / "clone" / name)
    with sshd(own.folder / "clone", force) as clone:
        known = trusted.with_suffix(".known_hosts")
        text = trusted.read_text().replace(f"port = {own.port}", f"port = {clone.port}")
        trusted.write_text(text)
        for file in (known, trusted.with_suffix(".known_hosts.machines")):
            file.write_text(file.read_text().replace(str(own.port), str(clone.port)))
        host = Lab.read(trusted).host("client")
        assert host.check("echo", "read") == "read\n"
        with pytest.raises(WrongHost) as why:
            check_pin(host)
        knob = tmp_path / "knob"
        knob.write_text("as it was\n")
        with pytest.raises(WrongHost), applied([Knob(str(knob), "changed")], {"server": host}):
            pytest.fail("a setting was made on a clone")
        host.close()
    assert "f" * 32 in str(why.value) and ".machines:1" in str(why.value)
    assert knob.read_text() == "as it was\n"


def copied(path, folder):
    (folder / "copy").write_bytes(path.read_bytes())
    (folder / "copy").chmod(0o600)
    return folder / "copy"


@pytest.mark.slow
def test_a_host_without_a_machine_id_is_asked_as_an_esxi_host(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can hide a file of this machine from one process")
    # A stand-in for ESXi's own program, which answers this one question.
    (tmp_path / "esxcli").write_text('#!/bin/sh\n[ "$*" = "system uuid get" ] && echo 5f3c-0a11\n')
    (tmp_path / "esxcli").chmod(0o755)
    (tmp_path / "uninitialized").write_text("uninitialized\n")
    for other in ("/dev/null", tmp_path / "uninitialized"):
        hidden = f"mount --bind {other} /etc/machine-id && exec sh -c {shlex.quote(ASK)}"
        result = subprocess.run(
            ["unshare", "--mount", "sh", "-c", hidden], capture_output=True, text=True,
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        )  # fmt: skip
        assert result.stdout.split("\n")[:2] == ["esxi 5f3c-0a11", os.uname().nodename]


@pytest.mark.slow
def test_another_host_name_is_another_machine(trusted):
    file = trusted.with_suffix(".known_hosts.machines")
    file.write_text(file.read_text().replace(os.uname().nodename, "elsewhere"))
    with pytest.raises(WrongHost, match="another machine"):
        check_pin(Lab.read(trusted).host("client"))
    assert trust(trusted) == 1, "nor is it trusted again as long as the pin is there"


def test_a_pin_that_cannot_be_read_lets_nothing_be_changed(trusted):
    trusted.with_suffix(".known_hosts.machines").write_text("nonsense\n")
    with pytest.raises(WrongHost, match="cannot be read"):
        check_pin(Lab.read(trusted).host("client"))


def test_a_host_without_a_pin_is_not_compared(lab, own):
    lab.with_suffix(".known_hosts").write_text(f"{own.name} {own.public()}\n")
    check_pin(Lab.read(lab).host("client"))
