"""What the lab in a box needs of this machine, and which Debian package brings it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from labkit.machine.places import HOME

PROGRAMS = ("ip", "unshare")

CHECKOUT = (HOME / "Makefile").is_file()
"""Whether labkit runs from a checkout, where `make` installs what is missing."""
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for: a plain user's PATH, and root's after su, lack the sbin part."""

TUN = Path("/dev/net/tun")
"""What the network cards of guests are made by."""


@dataclass(frozen=True)
class Need:
    """Some programs, the Debian package that they come in, and what they bring."""

    programs: tuple[str, ...]
    package: str
    brings: str
    required: bool = True
    """Without it there can be no box; what is not required leaves a smaller one."""

    @property
    def absent(self) -> tuple[str, ...]:
        """The programs of this need that the machine does not have."""
        return tuple(word for word in self.programs if not shutil.which(word, path=SEARCHED))


NEEDS = {
    "namespaces": Need(
        ("unshare", "nsenter", "setpriv", "taskset", "chrt", "setsid", "flock"),
        "util-linux",
        "hosts of their own: namespaces, and processes on chosen CPUs",
    ),
    "mounts": Need(("mount",), "mount", "a view of the files of its own for each host"),
    "links": Need(
        ("ip", "tc", "bridge"), "iproute2", "links, bridges and addresses between the hosts"
    ),
    "sshd": Need(("sshd",), "openssh-server", "a real SSH server on each host"),
    "guest": Need(("linux.uml",), "user-mode-linux", "a virtual machine without KVM", False),
    "qemu": Need(
        ("qemu-system-x86_64",),
        "qemu-system-x86",
        "virtual machines with several CPUs, which can move from host to host",
        False,
    ),
    "modules": Need(("busybox",), "busybox-static", "loading drivers in guests of QEMU", False),
    "container": Need(
        ("crun",), "crun", "containers; with package docker.io they are real Docker's", False
    ),
    "ping": Need(("ping",), "iputils-ping", "round trips"),
    "offloads": Need(("ethtool",), "ethtool", "reading and changing network offloads"),
    "archives": Need(("tar",), "tar", "files for the hosts"),
    "search": Need(("find",), "findutils", "finding the guest's processes"),
    "perl": Need(("perl",), "perl-base", "asking and changing guests in milliseconds"),
}


def missing() -> dict[str, Need]:
    """The needs that this machine does not meet, by name."""
    return {name: need for name, need in NEEDS.items() if need.absent}


def is_root() -> bool:
    """Whether this process may make namespaces and links for the whole machine."""
    return os.geteuid() == 0


# Unlike apt-get by itself, make starts no SSH server for all the world.
def how_to_get(*packages: str) -> str:
    """The command that brings Debian packages, as a hint says it."""
    named = " ".join(sorted(set(packages)))
    if CHECKOUT:
        return f"`make system` installs {named}, and starts no service"
    server = ", which also starts an SSH server" if "openssh-server" in packages else ""
    return f"`sudo apt-get install {named}`{server}"
