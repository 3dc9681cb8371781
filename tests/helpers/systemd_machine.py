"""A machine of its own whose first process is a real systemd, with logind and logins by SSH."""

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import pytest
from sshd import SSHD, keygen, known, reached
from waiting import alive, free_port

from labkit.ssh.connection import Address

PROGRAMS = ("systemctl", "/usr/lib/*/security/pam_systemd.so")

SCRIPT = Path(__file__).with_suffix(".sh")
# That of version 2, and all of version 1: in each of them systemd makes groups of its own. Only
# CPU sets take nobody in before they have CPUs, and systemd makes none of those.
HIERARCHIES = ("/sys/fs/cgroup", "/sys/fs/cgroup/*")
WITHOUT = "cpuset"
BOOT_SECONDS = 60.0
ENTER = 'for group in $GROUPS_OF_IT; do echo $$ >"$group/cgroup.procs" || exit 1; done; exec "$@"'


@dataclass(frozen=True)
class Machine:
    """Where its sshd listens, and the files to log in with: as root, or as its user."""

    folder: Path
    port: int
    user: str

    def as_user(self, user):
        key, hosts = self.folder / "machine.key", self.folder / "known_hosts"
        return reached(Address("box1", "127.0.0.1", self.port, user, str(key), (str(hosts),)))


def lacking():
    """Why there can be no such machine here; empty when it may be tried."""
    if os.geteuid() != 0:
        return "it takes root"
    absent = [name for name in ("systemctl", "loginctl", "dbus-daemon") if not shutil.which(name)]
    if absent or not SSHD or not list(Path("/usr/lib").glob("**/security/pam_systemd.so")):
        return "no systemd with logind, D-Bus, PAM and sshd; to get them: make system-test"
    return ""


@contextmanager
def machine(folder):
    """One that has booted; skips, and says why, where this machine cannot carry one."""
    if why := lacking():
        pytest.skip(why)
    port = free_port()
    one = Machine(folder, port, f"labkit{os.getpid() % 100_000}")
    keygen(folder / "machine.key")
    (folder / "known_hosts").write_text(known(port, keygen(folder / "machine.host")))
    (folder / "machine").mkdir()
    with control_groups() as groups, (folder / "console").open("wb") as console:
        words = [
            "sh", "-c", ENTER, "sh", "unshare", "--mount", "--pid", "--uts", "--ipc", "--cgroup",
            "--fork", "--kill-child", "sh", SCRIPT, folder / "machine", str(port), one.user,
        ]  # fmt: skip
        with alive(
            words, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT,
            env={**os.environ, "GROUPS_OF_IT": " ".join(groups)}, start_new_session=True,
        ) as process:  # fmt: skip
            wait_until_it_is_up(one, process)
            yield one


@contextmanager
def control_groups():
    """A group of its own in each hierarchy that systemd uses; emptied by the end of the machine."""
    made = []
    for root in (Path(path) for one in HIERARCHIES for path in glob(one)):
        if (root / "cgroup.procs").exists() and WITHOUT not in root.name and root.is_mount():
            made.append(root / f"labkit-systemd-{os.getpid()}")
            made[-1].mkdir()
    try:
        yield list(map(str, made))
    finally:
        for group in made:
            remove(group)


def remove(group):
    inner = [Path(folder) for folder, *_ in os.walk(group, topdown=False)]
    end = time.monotonic() + 10
    while inner and time.monotonic() < end:
        for folder in list(inner):
            with suppress(OSError):  # what is in it is about to end
                folder.rmdir()
                inner.remove(folder)
        time.sleep(0.02 if inner else 0)
    assert not inner, f"{inner} cannot be removed"


def wait_until_it_is_up(one, process):
    end = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", one.port), 5) as first:
            first.settimeout(5)
            if first.recv(4) == b"SSH-":
                return
        time.sleep(0.05)
    said = (one.folder / "console").read_text("utf-8", "replace").strip()[-500:]
    pytest.skip(f"systemd does not come up here: {said}")
