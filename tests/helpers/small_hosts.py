"""This machine with fewer programs: other shells, no perl, no flock, BusyBox alone, no /proc."""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from labkit.host import Host, Transport
from labkit.transports.local import Local

PROGRAMS = ("busybox", "mount", "unshare")

# What POSIX asks for and coreutils, grep, awk and util-linux bring; neither perl nor Python.
USUAL = [
    "awk", "cat", "chmod", "date", "dd", "df", "env", "flock", "grep", "head", "id",
    "ls", "mkdir", "mv", "rm", "setsid", "sh", "sleep", "sync", "tail", "wc",
]  # fmt: skip
KINDS = ("usual", "dash", "bash", "busybox", "bare")


@dataclass(frozen=True)
class Within:
    """As another transport, but each command is started by `first`."""

    first: tuple[str, ...]
    transport: Transport = field(default_factory=Local)

    def run(self, words, **limits):
        return self.transport.run((*self.first, *words), **limits)

    def close(self):
        """Nothing to let go of."""


@dataclass(frozen=True)
class Small:
    """A host, where its spool is, and where that folder is on this machine."""

    host: Host
    spool: str
    seen: Path


def small(kind, folder):
    """A host of a kind: usual, dash or bash (no perl), busybox (no flock), bare (no /proc)."""
    if kind == "usual":
        return Small(Host("usual", "127.0.0.1", Local()), f"{folder}/spool", folder / "spool")
    if kind == "bare":
        return _bare(folder)
    (folder / "bin").mkdir()
    if kind == "busybox":
        _busybox(folder / "bin")
    else:
        for name in USUAL:
            (folder / "bin" / name).symlink_to(shutil.which(kind if name == "sh" else name))
    first = ("env", "-i", f"PATH={folder}/bin", f"HOME={folder}")
    host = Host(kind, "127.0.0.1", Within(first))
    return Small(host, f"{folder}/spool", folder / "spool")


def _bare(folder):
    if os.geteuid():
        pytest.skip("needs root: chroot")
    root = folder / "root"
    for name in ("bin", "dev", "home"):
        (root / name).mkdir(parents=True)
    _busybox(root / "bin")
    (root / "dev/null").touch()
    first = (
        "unshare", "-m", "sh", "-c",
        'mount --bind /dev/null "$0/dev/null" && exec chroot "$0" "$@"', str(root),
        "/bin/env", "-i", "PATH=/bin", "HOME=/home",
    )  # fmt: skip
    return Small(Host("bare", "127.0.0.1", Within(first)), "/spool", root / "spool")


def _busybox(bin):
    found = shutil.which("busybox")
    if not found or "not a dynamic" not in _ldd(found):
        pytest.skip("no static BusyBox; to get it: make system-test")
    applets_in(bin)


def applets_in(bin):
    """All that this machine's BusyBox can be, in a folder."""
    shutil.copy(shutil.which("busybox"), bin / "busybox")
    result = subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True)
    for name in result.stdout.split():
        if name != "busybox":
            (bin / name).symlink_to("busybox")


def _ldd(program):
    result = subprocess.run(["ldd", program], capture_output=True, text=True)
    return result.stdout + result.stderr
