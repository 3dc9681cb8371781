"""A real sshd on this machine, as whoever runs the tests, for the tests of hosts."""

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
from waiting import awaited

from labkit.errors import Unreachable
from labkit.host import Host
from labkit.ssh import connection
from labkit.ssh.address import Address, Target
from labkit.ssh.known_hosts import Name
from labkit.transports.ssh import Ssh

PROGRAMS = ("ps", "ssh", "ssh-add", "ssh-agent", "ssh-keygen", "sshd")

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")


# One who is refused may not come again at once, which is no matter of ours (OpenSSH 9.8).
UNPUNISHED = "PerSourcePenalties no"


@cache
def known_to_sshd(setting):
    """The setting in a list, if this sshd knows it."""
    words = [SSHD, "-T", "-f", "/dev/null", "-o", setting.replace(" ", "=")]
    output = subprocess.run(words, capture_output=True, text=True).stderr
    return [] if "Bad configuration option" in output else [setting]


@dataclass(frozen=True)
class Server:
    """An sshd of our own: where it listens, and the folder of its keys, log and user's key."""

    folder: Path
    port: int
    pid: int = 0
    ip: str = "127.0.0.1"

    @property
    def name(self):
        return f"[{self.ip}]:{self.port}"

    def log(self):
        return (self.folder / "log").read_text("utf-8", "replace")

    def public(self, kind="ed25519"):
        return " ".join((self.folder / f"host_{kind}.pub").read_text().split()[:2])

    def address(self, **changed):
        at = Address(
            "box1", self.ip, self.port, getpass.getuser(),
            str(self.folder / "user"), (str(self.folder / "known_hosts"),),
        )  # fmt: skip
        return replace(at, **changed)

    def behind(self, port):
        """The address of what leads there from another port."""
        known = self.folder / f"known_{port}"
        lines = (self.folder / "known_hosts").read_text()
        known.write_text(lines.replace(f":{self.port} ", f":{port} "))
        return self.address(port=port, known_hosts=(str(known),))

    def target(self, known=None, **changed):
        known = known or self.folder / "known_hosts"
        asked = {
            "name": "box1", "known_as": Name(self.ip, self.port), "user": getpass.getuser(),
            "known_hosts": (known,), "identities": (str(self.folder / "user"),), "only": True,
        }  # fmt: skip
        return Target(**{**asked, **changed})

    def sessions(self):
        """The process of each connection."""
        return self._sshd(self.pid)

    def processes(self):
        """All processes of all connections: a user other than root has two for each."""
        return [pid for first in self.sessions() for pid in (first, *self._sshd(first))]

    def _sshd(self, parent):
        words = ["ps", "-o", "pid=,comm=", "--ppid", str(parent)]
        output = subprocess.run(words, capture_output=True, text=True).stdout
        return [int(line.split()[0]) for line in output.splitlines() if "sshd" in line]


def keygen(path, kind="ed25519"):
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", path], check=True)
    return Path(f"{path}.pub").read_text()


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


def known(port, public):
    kind, blob, *_ = public.split()
    return f"[127.0.0.1]:{port} {kind} {blob}\n"


@contextmanager
def serving(
    folder, kinds=("ed25519",), extra=(), extra_last=(), before=(), ip="127.0.0.1", prepare=None
):
    """An sshd of our own; of a setting that is given twice, sshd takes the first: `extra`.

    What matches some users only comes last; `before` is put before sshd's own words;
    `prepare(server)` may sign its keys before it starts.
    """
    if not SSHD:
        pytest.skip("no sshd; to get it: make system")
    # As root, sshd insists on a folder that its package or its service would make.
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    (folder / "authorized").write_text(key(folder, "user") + "\n")
    publics = [key(folder, f"host_{kind}", kind) for kind in kinds]
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.create_server((ip, 0), family=family) as free:
        server = Server(folder, free.getsockname()[1], ip=ip)
    (folder / "known_hosts").write_text("".join(f"{server.name} {one}\n" for one in publics))
    # Of MaxStartups the last one counts.
    many = [] if any("MaxStartups" in line for line in extra) else ["MaxStartups 100"]
    (folder / "sshd_config").write_text("\n".join([
        *extra, *(prepare(server) if prepare else ()), *known_to_sshd(UNPUNISHED),
        f"Port {server.port}", f"ListenAddress {ip}", "PidFile none", "UsePAM no", "StrictModes no",
        *(f"HostKey {folder}/host_{kind}" for kind in kinds), "LogLevel VERBOSE",
        f"AuthorizedKeysFile {folder}/authorized", "PermitRootLogin prohibit-password",
        "PasswordAuthentication no", "AcceptEnv LC_*", "Subsystem sftp internal-sftp", *many,
        # Whoever runs the tests may have a slow .bashrc, which bash reads under sshd too.
        f"SetEnv HOME={folder} LABKIT_CHANGES={folder}/changes", *extra_last, "",
    ]))  # fmt: skip
    with (folder / "log").open("wb") as log:
        words = [*before, SSHD, "-D", "-e", "-f", folder / "sshd_config"]
        process = subprocess.Popen(words, stderr=log)
        server = replace(server, pid=process.pid)
        try:
            awaited(
                lambda: "Server listening" in server.log() or process.poll() is not None, pause=0.01
            )
            assert process.poll() is None, f"sshd did not start: {server.log()}"
            yield server
        finally:
            tell([*server.processes(), process.pid], signal.SIGTERM)
            process.wait(30)
            # A watch over changes that finds no lease any more ends.
            (folder / "changes" / "lease").unlink(missing_ok=True)


@contextmanager
def sshd(folder, *lines, **given):
    """The same with these settings, in a folder that need not be there."""
    folder.mkdir(exist_ok=True)
    with serving(folder, extra=lines, **given) as server:
        yield server


@contextmanager
def reached(at):
    host = Host("box1", "127.0.0.1", Ssh(at))
    try:
        yield host
    finally:
        host.close()


def tell(pids, number):
    """Send a signal to processes, some of which may have ended meanwhile."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def gone(pid):
    """Whether a process has ended, be it that nobody took its exit code yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:  # it was not there, or ended as we read
        return True


def gone_soon(pid):
    """Wait until a process is no more."""
    awaited(lambda: not Path(f"/proc/{pid}").exists(), why=f"process {pid} is still there")


def written(path):
    """Wait until a file is there and holds something."""
    awaited(lambda: path.exists() and path.read_text(), why=f"{path} did not come")


def ssh_accepts(server, known, *options):
    """Whether the real ssh takes the host for the one it knows; nobody logs in."""
    words = [
        "ssh", "-F", "none", "-p", str(server.port), "-o", "BatchMode=yes",
        "-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={known}",
        "-o", "GlobalKnownHostsFile=none", "-o", "PreferredAuthentications=none",
        *options, server.ip, "true",
    ]  # fmt: skip
    output = subprocess.run(words, capture_output=True, text=True, timeout=30).stderr
    if "Permission denied" in output:
        return True
    refused = (
        "Host key verification failed", "REVOKED", "incorrect signature", "error in libcrypto",
    )  # fmt: skip
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
