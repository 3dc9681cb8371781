"""Resources that a container may use, and its network."""

from collections.abc import Callable

from labkit.errors import BadInput
from labkit.host import Host
from labkit.setting import Way, Words
from labkit.settings._fields import amount, aside, cpu_set, name, share
from labkit.settings._ways import RESTART, ROOT, OnHost, by, script

PROGRAMS = ("docker",)

# Made anew, a container is without what was set later on.
MADE_ANEW = ("ContainerNetwork",)
INSPECT = ("docker", "inspect", "--type", "container", "--format")
# A container keeps its network as long as it lives, so it is made anew from the same words.
ANEW = """\
name=$1 network=$2; shift 2
docker rm -f "$name" >/dev/null &&
    docker run -d --name "$name" --network "$network" "$@" >/dev/null"""


def _inspect(container: str, entry: str) -> Words:
    return (*INSPECT, f"{{{{.HostConfig.{entry}}}}}", container)


# The engine takes a limit back for nobody, whatever number or emptiness it is given.
def _of_limit(
    container: str, entry: str, option: str, value: Callable[[str], str] = str.strip,
    options: Callable[[str], Words] | None = None, unset: str = "0",
) -> Way:  # fmt: skip
    reason = (
        f"container {container} was started without {option}, so the change could not be undone"
    )
    words = options or (lambda value: (option, value))
    return Way(
        _inspect(container, entry),
        lambda value: (("docker", "update", *words(value), container),),
        value, lambda text: reason if text.strip() == unset else "", needs=ROOT,
        persists=True, after=MADE_ANEW, seconds=0.5,
    )  # fmt: skip


class OfContainer(OnHost):
    """A setting of the container of that name."""

    container: str = name("container", which=True)


class ContainerNetwork(OfContainer):
    """Whether a container is on Docker's bridge, behind its NAT, or on the `host`'s network.

    It is made again, with its name and `run`: the options and the image it was started with. What
    it wrote outside of its volumes is lost.
    """

    network: str = name("network")
    run: tuple[str, ...] = aside()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.run or not all(isinstance(word, str) for word in self.run):
            raise BadInput(f"container {self.container}: name its options and its image")
        if any(word.partition("=")[0] in ("--network", "--net", "--name") for word in self.run):
            raise BadInput(f"container {self.container}: leave name and network out of its options")

    def on_docker(self, host: Host) -> Way:
        """The way of Docker, whose `default` is the bridge."""
        return Way(
            _inspect(self.container, "NetworkMode"),
            lambda value: (script(ANEW, self.container, value, *self.run),),
            lambda text: text.strip().replace("default", "bridge"),
            needs=RESTART, persists=True, seconds=3,
        )  # fmt: skip


class ContainerCpus(OfContainer):
    """The CPUs that a container may run on; not exclusive by itself."""

    cpus: str = cpu_set()
    on_docker = by(lambda s: _of_limit(s.container, "CpusetCpus", "--cpuset-cpus", unset=""))


class ContainerCpuLimit(OfContainer):
    """The most CPU time that a container gets, in CPUs: 1.5 is one and a half."""

    cpus: float = share("the limit", 0.01, 4096, "CPUs")
    on_docker = by(lambda s: _of_limit(
        s.container, "NanoCpus", "--cpus", lambda text: f"{int(text) / 1e9:g}"
    ))  # fmt: skip


class ContainerMemory(OfContainer):
    """The most memory that a container gets, in MiB; without more of it in swap."""

    mib: int = amount("memory", 6, 16 * 2**20, "MiB", "{} MiB".format)
    on_docker = by(lambda s: _of_limit(
        s.container, "Memory", "--memory", lambda text: f"{int(text) / 2**20:g} MiB",
        lambda value: ("--memory", size := value.replace(" MiB", "m"), "--memory-swap", size),
    ))  # fmt: skip
