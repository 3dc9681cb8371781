"""Needs of the lab in a box on this machine, and the Debian packages that bring them."""

import os
from dataclasses import dataclass
from pathlib import Path

from labkit.machine.places import HOME
from labkit.programs.packages import SEARCH_PATH as SEARCH_PATH
from labkit.programs.packages import absent, install_words, package_of

CHECKOUT = (HOME / "Makefile").is_file()
"""Whether labkit runs from a checkout, where `make` installs what is missing."""
TUN = Path("/dev/net/tun")
"""The device that makes the network cards of guests."""


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
        return tuple(absent(self.programs))


def _need(programs: str, brings: str, required: bool = True) -> Need:
    words = tuple(programs.split())
    return Need(words, package_of(words[0]).name, brings, required)


NEEDS = {
    "namespaces": _need(
        "unshare nsenter setpriv taskset chrt setsid flock",
        "hosts of their own: namespaces, and processes on chosen CPUs",
    ),
    "mounts": _need("mount", "a view of the files of its own for each host"),
    "links": _need("ip tc bridge", "links, bridges and addresses between the hosts"),
    "sshd": _need("sshd", "a real SSH server on each host"),
    "guest": _need("linux.uml", "a virtual machine without KVM", False),
    "qemu": _need(
        "qemu-system-x86_64",
        "virtual machines with several CPUs, which can move from host to host",
        False,
    ),
    "modules": _need("busybox", "loading drivers in guests of QEMU", False),
    "container": _need("crun", "containers; with package docker.io they are real Docker's", False),
    "ping": _need("ping", "round trips"),
    "offloads": _need("ethtool", "reading and changing network offloads"),
    "archives": _need("tar", "files for the hosts"),
    "search": _need("find", "finding the guest's processes"),
    "processes": _need("pgrep", "finding by its name what runs on a host", False),
    "perl": _need("perl", "asking and changing guests in milliseconds"),
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
    names = " ".join(sorted(set(packages)))
    if CHECKOUT:
        return f"`make system` installs {names}, and starts no service"
    server = ", which also starts an SSH server" if "openssh-server" in packages else ""
    return f"`sudo {' '.join(install_words())} {names}`{server}"
