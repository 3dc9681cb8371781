"""A real sshd on this machine, as whoever runs the tests, for the tests of hosts."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from labkit.host import Host
from labkit.ssh.connection import Address
from labkit.transports.ssh import Ssh

PROGRAMS = ("ps", "ssh-keygen", "sshd")

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
    """An sshd of our own: where it listens, and the files of its folder."""

    folder: Path
    port: int
    pid: int

    def address(self, **changed):
        at = Address(
            "box1", "127.0.0.1", self.port, getpass.getuser(),
            str(self.folder / "user"), (str(self.folder / "known_hosts"),),
        )  # fmt: skip
        return replace(at, **changed)

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


def known(port, public):
    kind, blob, *_ = public.split()
    return f"[127.0.0.1]:{port} {kind} {blob}\n"


@contextmanager
def serving(folder, kinds=("ed25519",), extra=(), extra_last=(), before=()):
    """An sshd of our own; of a setting that is given twice, sshd takes the first: `extra`.

    What matches some users only comes last; `before` is put before sshd's own words.
    """
    # As root, sshd insists on a folder that its package or its service would make.
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    (folder / "authorized").write_text(keygen(folder / "user"))
    public = [keygen(folder / f"host_{kind}", kind) for kind in kinds]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "known_hosts").write_text("".join(known(port, one) for one in public))
    (folder / "sshd_config").write_text("\n".join([
        *extra, *known_to_sshd(UNPUNISHED),
        f"Port {port}", "ListenAddress 127.0.0.1", "PidFile none", "UsePAM no", "StrictModes no",
        *(f"HostKey {folder}/host_{kind}" for kind in kinds),
        f"AuthorizedKeysFile {folder}/authorized", "PermitRootLogin prohibit-password",
        "PasswordAuthentication no", "AcceptEnv LC_*", "Subsystem sftp internal-sftp",
        # Whoever runs the tests may have a slow .bashrc, which bash reads under sshd too.
        "MaxStartups 100", f"SetEnv HOME={folder} LABKIT_CHANGES={folder}/changes", *extra_last, "",
    ]))  # fmt: skip
    with (folder / "log").open("wb") as log:
        words = [*before, SSHD, "-D", "-e", "-f", folder / "sshd_config"]
        process = subprocess.Popen(words, stderr=log)
        server = Server(folder, port, process.pid)
        try:
            wait_until_it_listens(server, process)
            yield server
        finally:
            tell([*server.processes(), process.pid], signal.SIGTERM)
            process.wait(30)
            # A watch over changes that finds no lease any more ends.
            (folder / "changes" / "lease").unlink(missing_ok=True)


def wait_until_it_listens(server, process):
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            return socket.create_connection(("127.0.0.1", server.port), 1).close()
        except OSError:
            time.sleep(0.02)
    pytest.fail(f"sshd did not start: {(server.folder / 'log').read_text()}")


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
    end = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.02)


def written(path):
    """Wait until a file is there and holds something."""
    end = time.monotonic() + 20
    while not path.exists() or not path.read_text():
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.01)
