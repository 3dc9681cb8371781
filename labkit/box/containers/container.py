"""The engines that run the containers on the hosts of a box, and their programs.

An engine runs in a host's own namespaces, with all its files there: it ends with the host, and the
machine's own Docker is not asked. Containers have the programs of the machine, as the hosts do.
"""

import shutil

from labkit.box.needs import SEARCH_PATH
from labkit.box.rootless.inside import inside
from labkit.errors import BoxError

PROGRAMS = ("docker",)

DOCKER = ("docker", "dockerd", "containerd", "iptables")
ENGINES = ("any", "docker", "crun", "runc")
PACKAGES = {"docker": "docker.io", "crun": "crun", "runc": "runc"}
NO_GROUPS = "they need control groups, which only root has here"


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
