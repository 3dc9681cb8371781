"""Containers on the hosts of a box: the configuration, the engine that runs them, and their files.

An engine runs in a host's own namespaces, with all its files there: it ends with the host, and the
machine's own Docker is not asked. Containers have the programs of the machine, as the hosts do.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, replace

from labkit.box.needs import SEARCH_PATH
from labkit.box.rootless.inside import inside
from labkit.errors import BadInput, BoxError, Unknown

PROGRAMS = ("docker",)

CONTAINER_KEYS = {"on", "network", "cpus", "memory", "engine"}
NETWORKS = ("bridge", "host")
DOCKER = ("docker", "dockerd", "containerd", "iptables")
ENGINES = ("any", "docker", "crun", "runc")
IN_GUESTS = ("any", "crun", "runc")
"""A guest starts programs slowly: Docker's engine would take it longer than a study."""
PACKAGES = {"docker": "docker.io", "crun": "crun", "runc": "runc"}
NO_GROUPS = "they need control groups, which only root has here"
LEAST_MEMORY = 16
"""MiB; what sshd and a session need."""


@dataclass(frozen=True)
class ContainerPlan:
    """A container on the host or guest `on`; without `cpus` and `memory` it has what that has."""

    role: str
    on: str
    network: str = "bridge"
    """Behind the engine's bridge, or as `host`: on the host's own links."""
    cpus: str = ""
    memory: str = ""
    engine: str = "any"
    """Docker where it is installed, else crun or runc: then its networking is made as Docker's."""

    def __post_init__(self) -> None:
        for key, value, values in (
            ("network", self.network, NETWORKS), ("engine", self.engine, ENGINES)
        ):  # fmt: skip
            if value not in values:
                raise Unknown(f"{key} of container {self.role}", value, values)
        fits = re.fullmatch(r"[1-9]\d{0,5}M", self.memory, re.ASCII) and (
            int(self.memory[:-1]) >= LEAST_MEMORY
        )
        if self.memory and not fits:
            raise BadInput(
                f"cannot give container {self.role} {self.memory!r} of memory",
                hint=f'write it as "256M"; the least is {LEAST_MEMORY}M',
            )

    @property
    def in_guest(self) -> ContainerPlan:
        """The plan as a guest runs it: for any engine, the one that needs no daemon."""
        return replace(self, engine="crun") if self.engine == "any" else self


def choice(engine: str) -> str:
    """The engine for a container that asked for one; empty where any would do and none is here."""
    engines = [] if inside() else [name for name in ENGINES[1:] if not absent(name)]
    if engine == "any":
        return engines[0] if engines else ""
    if engine not in engines:
        raise BoxError(
            f"containers cannot be run by {engine} here",
            said=NO_GROUPS if inside() else f"no {', '.join(absent(engine))}",
            hint="use sudo" if inside() else f"install Debian's package {PACKAGES[engine]}",
        )
    return engine


def lacking() -> str:
    """Reason why there are no containers, if no engine was found for them."""
    return NO_GROUPS if inside() else "neither docker.io nor crun is installed"


def absent(name: str) -> list[str]:
    """The programs of an engine that the machine does not have."""
    programs = DOCKER if name == "docker" else (name,)
    return [word for word in programs if not shutil.which(word, path=SEARCH_PATH)]
