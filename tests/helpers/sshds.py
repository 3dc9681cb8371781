"""sshds of our own with settings of their own, certificates, and what real ssh says about them."""

import getpass
import os
import re
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sshd import SSHD, UNPUNISHED, keygen, known_to_sshd, reached

from labkit.errors import Unreachable
from labkit.ssh import connection
from labkit.ssh.address import Target
from labkit.ssh.known_hosts import Name

PROGRAMS = ("ps", "ssh", "ssh-add", "ssh-agent", "ssh-keygen")


@dataclass(frozen=True)
class Sshd:
    """Where one listens, and the folder of its keys, its log and its user's key."""

    folder: Path
    port: int
    address: str = "127.0.0.1"
    pid: int = 0

    @property
    def name(self):
        return f"[{self.address}]:{self.port}"

    def log(self):
        return (self.folder / "log").read_text("utf-8", "replace")

    def sessions(self):
        """The processes of all connections: a user other than root has two for each."""
        first = children(self.pid)
        return [*first, *(pid for one in first for pid in children(one))]

    def public(self, kind="ed25519"):
        return " ".join((self.folder / f"host_{kind}.pub").read_text().split()[:2])

    def target(self, known=None, **changed):
        known = known or self.folder / "known_hosts"
        asked = {
            "name": "box1", "known_as": Name(self.address, self.port), "user": getpass.getuser(),
            "known_hosts": (known,), "identities": (str(self.folder / "user"),), "only": True,
        }  # fmt: skip
        return Target(**{**asked, **changed})


def children(pid):
    result = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True)
    return [int(word) for word in result.stdout.split()]


def key(folder, name, kind="ed25519"):
    """A key made once; its public line without the comment."""
    if not (folder / name).exists():
        keygen(folder / name, kind)
    return " ".join((folder / f"{name}.pub").read_text().split()[:2])


def certify(folder, public, *options, authority="ca", kind="ed25519"):
    """Signs a public key of `folder`: options as those of ssh-keygen."""
    key(folder, authority, kind)
    words = ["ssh-keygen", "-q", "-s", folder / authority, "-I", "test", *options, folder / public]
    subprocess.run(words, check=True, capture_output=True)


@contextmanager
def sshd(folder, *lines, kinds=("ed25519",), address="127.0.0.1", prepare=None):
    """A running sshd; `prepare(server)` may sign its keys before it starts."""
    if not SSHD:
        pytest.skip("no sshd; to get it: make system")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    folder.mkdir(exist_ok=True)
    (folder / "authorized").write_text(key(folder, "user") + "\n")
    publics = [key(folder, f"host_{kind}", kind) for kind in kinds]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as free:
        port = free.getsockname()[1]
    server = Sshd(folder, port, address)
    extra = prepare(server) if prepare else ()
    text = "".join(f"{server.name} {public}\n" for public in publics)
    (folder / "known_hosts").write_text(text)
    # The first value counts, so those of the test come first; of MaxStartups the last one does.
    many = [] if any("MaxStartups" in line for line in lines) else ["MaxStartups 100"]
    (folder / "sshd_config").write_text("\n".join([
        *lines, *extra, f"Port {port}", f"ListenAddress {address}", "PidFile none",
        *(f"HostKey {folder}/host_{kind}" for kind in kinds), "UsePAM no", "StrictModes no",
        f"AuthorizedKeysFile {folder}/authorized", "PermitRootLogin prohibit-password",
        "PasswordAuthentication no", "AcceptEnv LC_*", *many, "LogLevel VERBOSE",
        f"SetEnv HOME={folder}", *known_to_sshd(UNPUNISHED), "",
    ]))  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
        try:
            wait_for(server, process)
            yield replace(server, pid=process.pid)
        finally:
            process.terminate()
            process.wait(10)


def wait_for(server, process):
    end = time.monotonic() + 10
    while time.monotonic() < end and process.poll() is None:
        if "Server listening" in server.log():
            return
        time.sleep(0.01)
    pytest.fail(f"sshd did not start: {server.log()}")


def ssh_accepts(server, known, *options):
    """Whether the real ssh takes the host for the one it knows; nobody logs in."""
    words = [
        "ssh", "-F", "none", "-p", str(server.port), "-o", "BatchMode=yes",
        "-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={known}",
        "-o", "GlobalKnownHostsFile=none", "-o", "PreferredAuthentications=none",
        *options, server.address, "true",
    ]  # fmt: skip
    output = subprocess.run(words, capture_output=True, text=True, timeout=30).stderr
    if "Permission denied" in output:
        return True
    refused = (
        "Host key verification failed",
        "REVOKED",
        "incorrect signature",
        "error in libcrypto",
    )
    assert any(word in output for word in refused), output
    return False


@contextmanager
def agent(*keys):
    """A real ssh-agent that holds some keys."""
    output = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    path, pid = re.findall(r"SSH_A\w+=([^;]+);", output)
    try:
        for one in keys:
            subprocess.run(
                ["ssh-add", "-q", one], env={**os.environ, "SSH_AUTH_SOCK": path}, check=True
            )
        yield path
    finally:
        os.kill(int(pid), signal.SIGTERM)


def unreachable(at, error=Unreachable):
    """What is said when a command cannot be run there."""
    with reached(at) as host, pytest.raises(error) as why:
        host.run("true")
    return str(why.value)


def refused(target, error=Unreachable):
    """What is said when it cannot be connected to."""
    with pytest.raises(error) as why:
        connection.reached(target).close()
    return str(why.value)
