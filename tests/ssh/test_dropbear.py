"""Hosts behind Dropbear, the SSH server of small machines: the same promises as behind OpenSSH."""

import os
import shutil
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sshd import gone_soon, keygen, tell
from waiting import awaited, free_port

from labkit.errors import OutcomeUnknown, TimedOut
from labkit.host import Host
from labkit.ssh.connection import Address
from labkit.transports.ssh import Ssh

PROGRAMS = ("dropbear", "dropbearkey", "mount", "ps", "unshare")

DROPBEAR = shutil.which("dropbear", path="/usr/sbin:/usr/local/sbin:/sbin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DROPBEAR, reason="no dropbear; to get it: make system-test"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give it a home of its own"),
]
# It reads the keys of the user's home only, so that it gets another home than this machine's.
AT_HOME = 'home=$1; shift; mount --bind "$home" /root && exec "$@"'


@contextmanager
def dropbear(folder):
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True)
    home.chmod(0o700)
    (home / ".ssh").chmod(0o700)
    (home / ".ssh/authorized_keys").write_text(keygen(folder / "user"))
    words = ["dropbearkey", "-t", "ed25519", "-f", str(folder / "host")]
    output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    public = next(line for line in output.splitlines() if line.startswith("ssh-ed25519"))
    port = free_port()
    kind, blob, *_ = public.split()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {kind} {blob}\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", AT_HOME, "sh", str(home),
             DROPBEAR, "-F", "-E", "-s", "-p", f"127.0.0.1:{port}", "-r", str(folder / "host"),
             "-P", str(folder / "pid")],
            stderr=log,
        )  # fmt: skip
        try:
            awaited(lambda: "Not backgrounding" in (folder / "log").read_text(), 10)
            yield process, port
        finally:
            tell([*children(process.pid), process.pid], signal.SIGTERM)
            process.wait(10)


def children(pid):
    result = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True)
    return [int(word) for word in result.stdout.split()]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dropbear")
    with dropbear(folder) as (process, port):
        yield folder, process, port


@pytest.fixture
def host(server):
    folder, _, port = server
    key, known = str(folder / "user"), (str(folder / "known_hosts"),)
    at = Address("small", "127.0.0.1", port, "root", key, known, ssh_config="none")
    found = Host("small", "127.0.0.1", Ssh(at))
    try:
        yield found
    finally:
        found.close()


def test_commands_keep_their_streams_codes_and_words(host):
    result = host.run("sh", "-c", "printf 'a\\0b'; echo wrong >&2; exit 3")
    assert (result.code, result.stdout_bytes, result.stderr) == (3, b"a\0b", "wrong\n")
    assert host.check("printf", "%s|", "a b", "$HOME", "it's", "\n") == "a b|$HOME|it's|\n|"
    assert host.run("sh", "-c", "kill -9 $$").signal == "KILL"
    assert host.check("cat", stdin=b"\xff\x00in") == "�\x00in"


def test_sessions_that_end_end_no_other_that_begins(host):
    """Input takes a session of its own; on one connection with others, Dropbear ended 1 in 10."""
    with ThreadPoolExecutor(4) as pool:
        outputs = pool.map(lambda _: host.run("cat", stdin=b"in").stdout, range(400))
        assert set(outputs) == {"in"}


def test_files_go_there_and_come_back(host, tmp_path):
    content = bytes(range(256)) * 4096
    host.put(content, str(tmp_path / "there"))
    assert (tmp_path / "there").read_bytes() == host.get(str(tmp_path / "there")) == content


def test_a_command_that_takes_too_long_is_ended(host, tmp_path):
    with pytest.raises(TimedOut):
        host.run("sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 60", seconds=2)
    gone_soon(int((tmp_path / "pid").read_text()))


def test_a_job_outlives_the_connection(host, server, tmp_path):
    job = host.start(
        "sh", "-c", "for n in 1 2 3 4 5 6; do echo line $n; sleep 0.3; done",
        key="outlives", seconds=30, spool=str(tmp_path / "spool"),
    )  # fmt: skip
    tell(children(server[1].pid), signal.SIGKILL)
    text = b"".join(job.follow())
    assert text == b"".join(b"line %d\n" % n for n in range(1, 7))


def test_a_lost_connection_leaves_the_outcome_unknown_and_the_next_command_connects(host, server):
    host.check("true")
    threading.Timer(0.5, lambda: tell(children(server[1].pid), signal.SIGKILL)).start()
    with pytest.raises(OutcomeUnknown):
        host.run("sleep", "20")
    assert host.check("echo", "again") == "again\n"
