"""Resources that a container may use, and its network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from labkit.errors import BadInput
from labkit.host import Host
from labkit.setting import Details, Way, Words
from labkit.settings._cpu import CpuTime, OnCpus
from labkit.settings._ways import ROOT, OnHost, named, script, whole

PROGRAMS = ("docker",)

# Made anew, a container is without what was set later on.
MADE_ANEW = ("ContainerNetwork",)
INSPECT = ("docker", "inspect", "--type", "container", "--format")
# A container keeps its network as long as it lives, so it is made anew from the same words.
ANEW = """\
name=$1 network=$2; shift 2
docker rm -f "$name" >/dev/null &&
    docker run -d --name "$name" --network "$network" "$@" >/dev/null"""


@dataclass(frozen=True)
class OfContainer(OnHost):
    """A setting of the container of that name."""

    container: str

    def __post_init__(self) -> None:
        super().__post_init__()
        named("container", self.container)

    @property
    def which(self) -> str:
        """The container."""
        return self.container

    def _shown(self, template: str) -> Words:
        return (*INSPECT, f"{{{{{template}}}}}", self.container)

    # The engine takes a limit back for nobody, whatever number or emptiness it is given.
    def _endless(self, option: str, unset: str = "0") -> Callable[[str], str]:
        why = (
            f"container {self.container} was started without {option}, "
            "so the change could not be undone"
        )
        return lambda text: why if text.strip() == unset else ""

    def _update(self, *options: str) -> tuple[Words, ...]:
        return (("docker", "update", *options, self.container),)


@dataclass(frozen=True)
class ContainerNetwork(OfContainer):
    """Whether a container is on Docker's bridge, behind its NAT, or on the `host`'s network.

    It is made again, with its name and `run`: the options and the image it was started with. What
    it wrote outside of its volumes is lost.
    """

    network: str
    run: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        named("network", self.network)
        if not self.run or not all(isinstance(word, str) for word in self.run):
            raise BadInput(f"container {self.container}: name its options and its image")
        if any(word.partition("=")[0] in ("--network", "--net", "--name") for word in self.run):
            raise BadInput(f"container {self.container}: leave name and network out of its options")

    @property
    def wanted(self) -> str:
        """The network."""
        return self.network

    def on_docker(self, host: Host) -> Way:
        """The way of Docker, whose `default` is the bridge."""
        return Way(
            self._shown(".HostConfig.NetworkMode"),
            lambda value: (script(ANEW, self.container, value, *self.run),),
            lambda text: text.strip().replace("default", "bridge"),
            needs=frozenset({"root", "guest restart"}),
            more=Details(persists=True, seconds=3),
        )  # fmt: skip


@dataclass(frozen=True)
class ContainerCpus(OnCpus, OfContainer):
    """The CPUs that a container may run on; not exclusive by itself."""

    def on_docker(self, host: Host) -> Way:
        """`docker update --cpuset-cpus`."""
        return Way(
            self._shown(".HostConfig.CpusetCpus"),
            lambda value: self._update("--cpuset-cpus", value),
            str.strip, self._endless("--cpuset-cpus", ""),
            needs=ROOT,
            more=Details(persists=True, after=MADE_ANEW, seconds=0.5),
        )  # fmt: skip


@dataclass(frozen=True)
class ContainerCpuLimit(CpuTime, OfContainer):
    """The most CPU time that a container gets, in CPUs: 1.5 is one and a half."""

    def on_docker(self, host: Host) -> Way:
        """`docker update --cpus`."""
        return Way(
            self._shown(".HostConfig.NanoCpus"),
            lambda value: self._update("--cpus", value),
            lambda text: f"{int(text) / 1e9:g}", self._endless("--cpus"),
            needs=ROOT,
            more=Details(persists=True, after=MADE_ANEW, seconds=0.5),
        )  # fmt: skip


@dataclass(frozen=True)
class ContainerMemory(OfContainer):
    """The most memory that a container gets, in MiB; without more of it in swap."""

    mib: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("memory", self.mib, 6, 16 * 2**20, "MiB")

    @property
    def wanted(self) -> str:
        """In MiB."""
        return f"{self.mib} MiB"

    def on_docker(self, host: Host) -> Way:
        """`docker update --memory`."""
        return Way(
            self._shown(".HostConfig.Memory"), self._writes,
            lambda text: f"{int(text) / 2**20:g} MiB", self._endless("--memory"),
            needs=ROOT,
            more=Details(persists=True, after=MADE_ANEW, seconds=0.5),
        )  # fmt: skip

    def _writes(self, value: str) -> tuple[Words, ...]:
        amount = value.replace(" MiB", "m")
        return self._update("--memory", amount, "--memory-swap", amount)
