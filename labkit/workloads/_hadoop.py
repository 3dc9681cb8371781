"""A Hadoop cluster for a run: HDFS and YARN on hosts of a lab, from start to wipe.

The jars are Apache's own from Maven Central, pinned in `_hadoop.lock` by version and hash. They lie
where guests of a box find them as well. A cluster has ports and a folder of its own, and settings
from `_hadoop.toml`; a Hadoop that is somebody else's is neither asked nor touched.
"""

import functools
import hashlib
import io
import random
import re
import secrets
import subprocess
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path

from labkit.errors import BadInput, CommandFailed, FleetFailed, HostError, LabkitError, absence
from labkit.fleet.fleet import Fleet
from labkit.host import Host
from labkit.machine import account
from labkit.machine.own_place import LASTING
from labkit.machine.scripts import beside
from labkit.programs.packages import brings, this_system
from labkit.workloads import _server
from labkit.workloads._own_place import own_folder

PROGRAMS = ("bash", "find", "java", "mvn", "tar", "taskset")

VERSION = "3.4.2"
HERE = Path(__file__).parent
HOME = "/usr/local/lib/labkit-hadoop"
"""Hadoop's place on a host, so that guests and containers that share its files find it too."""
ON_ITS_DISK = "/run/labkit/scratch"
MIB, MIB_INSTALLED = 74, 310
"""The size of all jars in megabytes, and with their classes as Java maps them."""
UNUSED = re.compile(
    r"bc(pkix|prov|util)|curator-client|zookeeper|http|netty-(codec-http|handler)|avro"
    r"|commons-(lang-|text|compress|collections)|jaxb-runtime"
)
"""Names of jars whose classes need no map: a cluster begins with few of them."""
JAR = re.compile(r"^([0-9a-f]{64}) ([\w.-]+):([\w.-]+):([\w.-]+)$", re.MULTILINE)
INSTALL = beside(__file__, "_hadoop_install.sh")
SET_UP = beside(__file__, "_hadoop_set_up.sh")
DAEMONS = beside(__file__, "_hadoop_daemons.sh")
JOB = beside(__file__, "_hadoop_job.sh")
LOG = beside(__file__, "_hadoop_log4j.properties")
WIPE = beside(__file__, "_hadoop_wipe.sh")
PLACE = f'if [ -w {ON_ITS_DISK} ]; then echo {ON_ITS_DISK}; else echo "$1"; fi'
PORTS, KINDS = range(20_000, 32_000, 8), 5
READY_SECONDS, JOB_SECONDS = 240, 1800
STARTS = "a port may be taken, or memory lacking for Java: try it again, or with fewer nodes"
CLASS = "org.apache.hadoop."
NAME_NODE = ("namenode", f"{CLASS}hdfs.server.namenode.NameNode", "96m", "registerDatanode:")
RESOURCES = (
    "resourcemanager", f"{CLASS}yarn.server.resourcemanager.ResourceManager", "96m",
    "NodeManager from node",
)  # fmt: skip
DATA_NODE = ("datanode", f"{CLASS}hdfs.server.datanode.DataNode", "64m", "successfully registered")
NODE_MANAGER = (
    "nodemanager", f"{CLASS}yarn.server.nodemanager.NodeManager", "96m", "Registered with",
)  # fmt: skip


@dataclass(frozen=True)
class HadoopCluster:
    """A running cluster: the host of its NameNode and ResourceManager, and its nodes by name."""

    master: Host
    nodes: Mapping[str, Host]
    folders: Mapping[str, str]
    disks: Mapping[str, Sequence[str]]
    """Folders of each node in which data are stored."""
    settings: Mapping[str, str]
    """All that differ from Hadoop's own, as the master has them."""

    def job(self, name: str, *words: str) -> str:
        """Run a class of Hadoop's with these words to its end, and return what it printed."""
        try:
            return self.master.check(*self.words(name, *words), seconds=JOB_SECONDS)
        except CommandFailed as error:
            raise HostError(f"{self.master.name}: {name} failed", said=error.said) from error

    def words(self, name: str, *words: str) -> tuple[str, ...]:
        """The command for the master that `job` runs."""
        folder = self.folders[self.master.name]
        return ("sh", "-c", JOB, "job", folder, HOME, CLASS + name, *words)

    def stored(self) -> int:
        """Bytes of all copies of blocks on the nodes; a job has a few small files of its own."""
        find = 'find "$@" -name "blk_*" ! -name "*.meta" -type f -exec stat -c %s {} +'
        outputs = (host.check("sh", "-c", find, "stored", *self.disks[name])
                for name, host in self.nodes.items())  # fmt: skip
        return sum(int(size) for sizes in outputs for size in sizes.split())

    def lose(self, name: str) -> None:
        """End the DataNode of a node at once, as if its disks were gone."""
        self.nodes[name].check("sh", "-c", 'kill -KILL "$(cat "$1")"', "lose",
                               f"{self.folders[name]}/datanode.pid")  # fmt: skip


@contextmanager
def cluster(
    master: Host, nodes: Mapping[str, Host], values: Mapping[str, object],
    cpus: Mapping[str, str], disks: Sequence[str] = (),
) -> Iterator[HadoopCluster]:  # fmt: skip
    """Start a cluster on these hosts, wait until all nodes are registered, wipe it at the end.

    `cpus` of each node are a list, and `disks` folders; without them data lie beside the rest.
    """
    hosts = {master.name: master, **nodes}
    folder_name = f"hadoop-{secrets.token_hex(4)}"
    fleet = Fleet(hosts)
    # On the machine's disk where a host of a box has a place there: memory is for Java.
    places_of = fleet.each(lambda h: h.check("sh", "-c", PLACE, "place", own_folder(h, LASTING)))
    folders = {name: f"{at.strip()}/{folder_name}" for name, at in places_of.check().items()}
    places = {name: [f"{disk}/labkit-{folder_name}-{name}" for disk in disks] or [folder]
              for name, folder in folders.items()}  # fmt: skip
    base = _free(master)
    settings = {
        name: filled({
            **values, "home": HOME, "folder": folders[name], "address": host.address,
            "master": master.address,
            "data": ",".join(f"file://{place}/data" for place in places[name]),
            "local": ",".join(f"{place}/local" for place in places[name]),
            **{f"port{n or ''}": base + n for n in range(KINDS)},
        })
        for name, host in hosts.items()
    }  # fmt: skip
    try:
        outcome = fleet.each(lambda host: _set_up(host, folders[host.name], settings[host.name]))
        for error in outcome.failed.values():
            if isinstance(error, LabkitError):  # with what to try
                raise error
        with _start(fleet, _daemons(master, nodes, folders, cpus), folders):
            properties = {name: value for kind in settings[master.name].values()
                          for name, value in kind.items()}  # fmt: skip
            yield HadoopCluster(master, nodes, folders, places, properties)
    finally:
        fleet.each(lambda host: host.run("sh", "-c", WIPE, "wipe", folders[host.name],
                                         *places[host.name]))  # fmt: skip


# Whoever cannot start is named with its last words, not with the script that started it.
@contextmanager
def _start(
    fleet: Fleet, commands: Mapping[str, tuple[str, ...]], folders: Mapping[str, str]
) -> Iterator[None]:
    ready = {name: ("test", "-e", f"{folders[name]}/started") for name in commands}
    with ExitStack() as stack:
        try:
            stack.enter_context(fleet.serving(commands, ready=ready, seconds=READY_SECONDS))
        except FleetFailed as error:
            ends = [line.strip() for line in error.said.splitlines() if "ended before" in line]
            text = "\n".join(line.rpartition("` ")[2] for line in ends) or error.said[-500:]
            raise HostError(f"Hadoop: {error.what}", said=text, hint=STARTS) from error
        yield


# The master counts its nodes, and a node waits for the master.
def _daemons(
    master: Host, nodes: Mapping[str, Host], folders: Mapping[str, str], cpus: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    def words(name: str, times: int, *daemons: Sequence[str]) -> tuple[str, ...]:
        words_of = [word for daemon in daemons for word in (*daemon, str(times))]
        return ("sh", "-c", DAEMONS, "daemons", folders[name], HOME, cpus.get(name, ""), *words_of)

    daemons_of = {name: words(name, 1, DATA_NODE, NODE_MANAGER) for name in nodes}
    return {**daemons_of, master.name: words(master.name, len(nodes), RESOURCES, NAME_NODE)}


def filled(values: Mapping[str, object]) -> dict[str, dict[str, str]]:
    """The settings of a host by file, with these values in their places."""
    plain = tomllib.loads((HERE / "_hadoop.toml").read_text("utf-8"))
    return {
        kind: {name: value.format_map(values) for name, value in rows.items()}
        for kind, rows in plain.items()
    }


def _set_up(host: Host, folder: str, settings: Mapping[str, Mapping[str, str]]) -> None:
    files = {"conf/log4j.properties": LOG}
    for kind, rows in settings.items():
        lines = (f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
                 for name, value in rows.items())  # fmt: skip
        files[f"conf/{kind}-site.xml"] = "\n".join(["<configuration>", *lines, "</configuration>"])
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text.encode()), 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    result = host.run("sh", "-c", SET_UP, "set_up", folder, stdin=buffer.getvalue())
    if not result.ok:
        hint = "end it, or measure on other hosts: labkit changes nothing of it"
        raise HostError(
            f"{host.name}: no cluster can be set up", said=result.stderr,
            hint=hint if "another Hadoop" in result.stderr else f"is there room at {folder}?",
        )  # fmt: skip


def _free(master: Host) -> int:
    busy = _server.taken(master)
    free = [base for base in PORTS if not busy & {*range(base, base + KINDS)}]
    if not free:
        raise HostError(f"{master.name}: no {KINDS} ports in a row are free from {PORTS.start} on")
    return random.SystemRandom().choice(free)


# --- the jars ---------------------------------------------------------------------------------


Jars = Mapping[str, tuple[str, str, str, str]]
"""By file name: group, artefact, version, SHA-256."""


@functools.cache
def jars() -> Jars:
    """The jars that are pinned."""
    rows = JAR.findall((HERE / "_hadoop.lock").read_text("utf-8"))
    return {
        f"{name}-{version}.jar": (group, name, version, sha) for sha, group, name, version in rows
    }


def mark() -> str:
    """The mark of an installation: its version, and a hash of its jars and its script."""
    digest = hashlib.sha256((HERE / "_hadoop.lock").read_bytes() + INSTALL.encode())
    return f"{VERSION}-{digest.hexdigest()[:12]}"


def installed(host: Host) -> bool:
    """Whether this Hadoop is on the host."""
    return host.run("cat", f"{HOME}/mark").stdout.strip() == mark()


def lacking(host: Host) -> str:
    """Java or Hadoop where the host lacks it, and how to get it."""
    if not host.run("sh", "-c", "command -v java").ok:
        return absence("java", host.name, brings("java"))
    if not installed(host):
        return absence(f"Hadoop {VERSION}", host.name, "labkit prepare hadoop_v6")
    return ""


def install(host: Host) -> None:
    """Bring the archive to the host, and make it ready there; it takes root."""
    host.as_root().check("sh", "-c", INSTALL, "install", HOME, mark(), stdin=archive(), seconds=900)


def archive() -> Path:
    """All jars in one file, and the classes that Java is to map; fetched once, for all hosts."""
    return account.kept(f"hadoop/{mark()}.tar", _make)


def _make(at: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="labkit-") as folder:
        lib = Path(folder, "lib")
        _fetch(Path(folder), jars())
        # Names of classes as `java -Xshare:dump` wants them; a jar's own description has none.
        names = [name for jar in sorted(lib.glob("*.jar")) if not UNUSED.match(jar.name)
                 for name in zipfile.ZipFile(jar).namelist()]  # fmt: skip
        classes = [name.removesuffix(".class") for name in names if name.endswith(".class")
                   and not name.startswith("META-INF") and "-info" not in name]  # fmt: skip
        (lib / "classes").write_text("\n".join(classes))
        with tarfile.open(at, "w") as tar:
            for file in sorted(lib.iterdir()):
                tar.add(file, file.name)


def _fetch(folder: Path, jars: Jars) -> None:
    (folder / "pom.xml").write_text(_pom(jars), "utf-8")
    words = ["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies",
             f"-DoutputDirectory={folder / 'lib'}"]  # fmt: skip
    try:
        result = subprocess.run(words, capture_output=True, text=True)
    except FileNotFoundError:
        raise BadInput(
            "Maven is missing on this machine, which fetches Hadoop",
            hint=f"to get it: {brings('mvn', system=this_system())}",
        ) from None
    if result.returncode:
        lines = [line for line in result.stdout.splitlines() if line.startswith("[ERROR]")]
        raise BadInput(
            "Hadoop cannot be fetched from Maven Central", said="\n".join(lines[:3]),
            hint="is it reached? ~/.m2/settings.xml names a mirror or a proxy",
        )  # fmt: skip
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in (folder / "lib").iterdir()}  # fmt: skip
    known_sums = {file: row[3] for file, row in jars.items()}
    if odd := sorted(
        file for file in {*sums, *known_sums} if sums.get(file) != known_sums.get(file)
    ):
        raise BadInput(f"{odd[0]} from Maven Central is not the file that labkit knows",
                       said=f"its SHA-256 is {sums.get(odd[0], 'missing')}")  # fmt: skip
    lines = [f"{sha}  {file}\n" for file, sha in sorted(sums.items())]
    (folder / "lib" / "sums").write_text("".join(lines))


# Exactly these: what Hadoop's own files say of versions is not followed.
def _pom(jars: Jars) -> str:
    dependency = beside(__file__, "_hadoop_dependency.xml")
    rows = (dependency.format(group, name, version) for group, name, version, _ in jars.values())
    return beside(__file__, "_hadoop_pom.xml").format("".join(rows))
