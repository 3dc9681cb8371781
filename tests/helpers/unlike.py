"""Unlike hosts in network namespaces of their own, joined by a bridge, each with a real SSH server.

A host is a mount namespace too, so that users, login shells and programs are its own.
"""

import os
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from leftovers import BESIDE
from small_hosts import applets_in
from sshd import SSHD, keygen, tell
from waiting import awaited

from labkit.machine.scripts import beside

PROGRAMS = (
    "busybox", "chpasswd", "dropbear", "dropbearkey", "ethtool", "ip", "mount", "netserver",
    "sockperf", "sshd", "sudo", "tcsh", "unshare", "useradd",
)  # fmt: skip

NET = f"10.213.{os.getpid() % 200 + 20}"
BRIDGE = f"{BESIDE}{os.getpid() % 10000}"
PORT = 2222
SECRET = "pass word"
MEASURED = ("netserver", "sockperf")
KINDS = ("root", "sudo", "tcsh", "dropbear", "busybox", "jumps")
CLOUD = "cloud"
OF_SUDO = ("sudo", CLOUD)
# What a minimal image of a cloud comes without.
ABSENT = ("ethtool", "iperf3", "netperf", "netserver", "perl", "python3", "sockperf", "tcsh")
DROPBEAR = shutil.which("dropbear", path="/usr/sbin:/usr/local/sbin:/sbin")
SUDOERS = """\
Defaults env_reset, timestamp_timeout=0, lecture=never
root ALL=(ALL) ALL
lab ALL=(ALL) {}ALL
"""
# A machine's own /etc, with a login shell of root's, and a user who has sudo by a password.
ETC = beside(__file__, "unlike_etc.sh")
# BusyBox alone, its SSH server, and the libraries of that.
ALONE = beside(__file__, "unlike_alone.sh")


@dataclass(frozen=True)
class Unlike:
    """One such host: where it listens, and what lab.toml says of it."""

    kind: str
    address: str
    known: str
    fields: dict
    key: Path
    space: str


def lacking():
    """Why there can be no such hosts here; empty when there can."""
    if os.geteuid():
        return "makes network namespaces, which takes root"
    wanted = [("sshd", SSHD), ("dropbear", DROPBEAR), *((p, shutil.which(p)) for p in (
        "busybox", "tcsh", "sudo"))]  # fmt: skip
    missing = [name for name, there in wanted if not there]
    return f"no {missing[0]}; to get it: make system-test" if missing else ""


@contextmanager
def hosts(folder):
    """All of them and a client, by kind; nothing of them is left afterwards."""
    if why := lacking():
        pytest.skip(why)
    folder.chmod(0o755)
    (folder / "secret").write_text(f"{SECRET}\n")
    keygen(folder / "user")
    with ExitStack() as held:
        held.enter_context(_bridge())
        made = {}
        for number, kind in enumerate(("client", *KINDS, "gate", "gate2", CLOUD), 2):
            made[kind] = held.enter_context(_host(folder / kind, kind, number, folder / "user"))
        yield made


@contextmanager
def _bridge():
    _ip("link", "add", BRIDGE, "type", "bridge")
    try:
        _ip("addr", "add", f"{NET}.1/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        yield
    finally:
        _ip("link", "del", BRIDGE)


@contextmanager
def _host(folder, kind, number, key):
    folder.mkdir()
    space, address = f"{BRIDGE}-{kind}", f"{NET}.{number}"
    _ip("netns", "add", space)
    try:
        near = f"{BRIDGE}v{number}"
        _ip("link", "add", near, "type", "veth", "peer", "name", "eth1", "netns", space)
        _ip("link", "set", near, "master", BRIDGE, "up")
        _ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth1")
        for link in ("eth1", "lo"):
            _ip("-n", space, "link", "set", link, "up")
        start = _dropbear if kind in ("dropbear", "busybox") else _openssh
        words, public = start(folder, kind, address, key)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", space, *words],
                stderr=log,
                stdout=log,
                start_new_session=True,
            )
            try:
                awaited(lambda: _listens(address) or process.poll() is not None)
                assert process.poll() is None, (folder / "log").read_text(errors="replace")
                known = f"[{address}]:{PORT} {' '.join(public.split()[:2])}\n"
                yield Unlike(kind, address, known, _fields(kind, address, key), key, space)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                process.wait(10)
    finally:
        result = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True)
        tell(map(int, result.stdout.split()), signal.SIGKILL)
        _ip("netns", "del", space)


def _fields(kind, address, key):
    fields = {"control": address, "port": PORT, "user": "root", "key": key, "interface": "eth1"}
    if kind in OF_SUDO:
        fields |= {"user": "lab", "become": "sudo"}
    if kind == "sudo":
        fields["password_command"] = f"cat {key.parent}/secret"
    if kind == "jumps":
        fields["jump"] = ",".join(f"root@{NET}.{number}:{PORT}" for number in (9, 10))
    return fields


def _openssh(folder, kind, address, key):
    shutil.copytree("/etc", folder / "etc", symlinks=True, ignore_dangling_symlinks=True)
    (folder / "etc/sudoers").write_text(SUDOERS.format("NOPASSWD: " if kind == CLOUD else ""))
    (folder / "etc/sudoers").chmod(0o440)
    for place in ("changes", "state"):
        (folder / place).mkdir()
    folder.chmod(0o755)
    (folder / "authorized").write_text(Path(f"{key}.pub").read_text())
    (folder / "authorized").chmod(0o644)
    public = keygen(folder / "host")
    root = "no" if kind == CLOUD else "prohibit-password"
    path = "/usr/bin:/bin" if kind in OF_SUDO else "/usr/sbin:/usr/bin:/sbin:/bin"
    (folder / "config").write_text("\n".join([
        f"Port {PORT}", f"ListenAddress {address}", "PidFile none", "UsePAM no", "StrictModes no",
        f"HostKey {folder}/host", f"AuthorizedKeysFile {folder}/authorized",
        "PasswordAuthentication no", f"PermitRootLogin {root}", f"SetEnv PATH={path}", "",
    ]))  # fmt: skip
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    Path("/var/lib/labkit").mkdir(parents=True, exist_ok=True)
    shell = shutil.which("tcsh") if kind == "tcsh" else "/bin/bash"
    absent = " ".join(ABSENT) if kind == CLOUD else ""
    words = ["unshare", "--mount", "sh", "-c", ETC, "etc", folder, SECRET, shell, absent]
    return [*map(str, words), SSHD, "-D", "-e", "-f", str(folder / "config")], public


def _dropbear(folder, kind, address, key):
    output = subprocess.run(
        ["dropbearkey", "-t", "ed25519", "-f", str(folder / "host")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    public = next(line for line in output.splitlines() if line.startswith("ssh-ed25519"))
    own = ["-F", "-E", "-s", "-p", f"{address}:{PORT}"]
    if kind == "busybox":
        return _alone(folder, key, own), public
    home = folder / "home"
    _authorized(home, key)
    script = 'mount --bind "$1" /root && shift && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, "home", str(home), DROPBEAR, *own]
    return [*words, "-r", str(folder / "host")], public


def _authorized(home, key):
    (home / ".ssh").mkdir(parents=True)
    for place in (home, home / ".ssh"):
        place.chmod(0o700)
    (home / ".ssh/authorized_keys").write_text(Path(f"{key}.pub").read_text())


def _alone(folder, key, own):
    root = folder / "root"
    for place in ("bin", "dev", "proc", "sys", "tmp", "etc", "var/lib", "sbin", "run"):
        (root / place).mkdir(parents=True)
    applets_in(root / "bin")
    for program in filter(None, map(shutil.which, MEASURED)):  # somebody has put them there
        shutil.copy(program, root / "bin")
    shutil.copy(DROPBEAR, root / "sbin/dropbear")
    shutil.copy(folder / "host", root / "etc/host")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/shadow").write_text("root:*:19000:0:99999:7:::\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/shells").write_text("/bin/sh\n")
    _authorized(root / "root", key)
    words = ["unshare", "--mount", "sh", "-c", ALONE, "alone", str(root)]
    return [*words, "/sbin/dropbear", *own, "-r", "/etc/host"]


def _listens(address):
    with suppress(OSError):
        socket.create_connection((address, PORT), 1).close()
        return True


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)
