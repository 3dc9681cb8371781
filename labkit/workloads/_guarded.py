"""A machine that its owner's own Pacemaker guards: that cluster is watched, and never changed.

The machine is the host `center` of a lab file. A run brings its management server, which starts
whenever the machine does, and takes it away.
"""

import re
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from xml.etree import ElementTree

from labkit.errors import HostError, Obstacle
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.programs import simulator
from labkit.shop import kit
from labkit.workloads import _cluster

PROGRAMS = ("crm_mon", "crm_node", "python3")

CENTER = "center"
"""The role of the machine."""
PAIR = ("server", "server2")
"""The roles of the hosts that it may run on."""
FOLDER = "/var/lib/labkit-center"
"""All that a run brings the machine, beside a unit of systemd."""
PATIENCE_SECONDS = 1800.0
"""Hosts and their machines boot for minutes, and firmware takes its own time."""
LOOK_SECONDS, SILENT_SECONDS = 0.2, 10.0
AGENT, FENCES = "ocf:heartbeat:VirtualDomain", "stonith:"
RUNNING, SILENT = "running", "silent"
ITS_MACHINE = " runs it"
"""Ends the name of a host that was asked whether it runs the machine."""
LOOK = "crm_node -n && crm_mon -1 --output-as=xml"
MACHINE, DOMAIN = beside(__file__, "_guarded_center.sh"), beside(__file__, "_guarded_domain.sh")
KERNEL = re.compile(r"^boot (\d+\.\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class ClusterView:
    """A cluster as one of its hosts, `node`, shows it (crm_mon(8))."""

    node: str
    shown: ElementTree.Element = field(repr=False)
    resource: str

    @classmethod
    def of(cls, host: Host, resource: str) -> "ClusterView":
        """Ask a host."""
        result = host.run("sh", "-c", LOOK, seconds=SILENT_SECONDS)
        node, _, text = result.stdout.partition("\n")
        try:
            return cls(node.strip(), ElementTree.fromstring(text), resource)
        except ElementTree.ParseError:
            raise HostError(f"{host.name}: its cluster does not answer", said=result.stderr or text,
                            hint="is Pacemaker running there?") from None  # fmt: skip

    @property
    def runs_on(self) -> list[str]:
        """The nodes on which the machine runs, or is being started."""
        return [str(at.get("name")) for at in self._primitive.findall("node")]

    def has_happened(self, node: str) -> Iterator[str]:
        """The steps of the failover from a node that can be seen by now."""
        is_up = self.node in self.runs_on
        away = is_up or not self._is(node, "online")
        if away or self._is(node, "unclean"):
            yield "lost"
        if away and not self._is(node, "unclean"):
            yield "fenced"
        if is_up:
            yield "start"

    def refusal(self, peer: str) -> str:
        """The reason why no failover can be measured, as another node is to take over."""
        machine, name = self._primitive, self.resource
        if machine.get("resource_agent") != AGENT:
            return f"its cluster has no {AGENT} that is called {name}"
        if not self._is(peer, "online") or self._is(peer, "unclean"):
            return f"it does not see {peer}: a split brain, or another cluster"
        if self._is(peer, "standby"):
            return f"its cluster keeps {peer} in standby"
        if self._option("maintenance-mode") or machine.get("managed") != "true":
            return f"its cluster does not manage {name}"
        fences = [row for row in self.shown.iter("resource") if row.get("role") == "Started"
                  and str(row.get("resource_agent")).startswith(FENCES)]  # fmt: skip
        if not self._option("stonith-enabled") or not fences:
            return "its cluster takes no host's power: two hosts could run the machine at once"
        if machine.get("role") != "Started" or len(self.runs_on) != 1:
            return f"{name} runs on {' and '.join(self.runs_on) or 'no host'}"
        return ""

    def trouble(self, node: str) -> str:
        """The cluster's own words on what it could not do after it lost a node."""
        for fencing in self.shown.iter("fence_event"):
            if fencing.get("target") == node and fencing.get("status") == "failed":
                reason = fencing.get("exit-reason", "")
                return f"the power of {node} could not be taken {reason}".strip()
        for failure in self.shown.iter("failure"):
            if str(failure.get("op_key")).startswith(f"{self.resource}_"):
                words = failure.get("exitreason") or failure.get("exitstatus")
                return f"{failure.get('op_key')} failed on {failure.get('node')}: {words}"
        return ""

    @property
    def _primitive(self) -> ElementTree.Element:
        rows = (row for row in self.shown.iter("resource") if row.get("id") == self.resource)
        return next(rows, ElementTree.Element("none"))

    def _is(self, node: str, state: str) -> bool:
        rows = self.shown.iterfind(f"nodes/node[@name='{node}']")
        return any(row.get(state) == "true" for row in rows)

    def _option(self, name: str) -> bool:
        rows = self.shown.iterfind("summary/cluster_options")
        return any(row.get(name) == "true" for row in rows)


def views(hosts: Mapping[str, Host]) -> dict[str, ClusterView]:
    """The cluster as each of its two hosts shows it."""
    resource = hosts[CENTER].resource
    return {role: ClusterView.of(hosts[role], resource) for role in PAIR}


def sides(hosts: Mapping[str, Host]) -> dict[str, str]:
    """The answer of each host's own libvirt, whether it runs the machine."""
    words = ("sh", "-c", DOMAIN, "domain", hosts[CENTER].resource)
    found = dict.fromkeys(PAIR, SILENT)
    for role in PAIR:
        with suppress(HostError):
            found[role] = hosts[role].check(*words, seconds=SILENT_SECONDS).strip()
    return found


def unfit(hosts: Mapping[str, Host]) -> str:
    """The reason why this cluster is not as a run has to begin and to end; empty if it is."""
    if not hosts[CENTER].resource:
        return f'[hosts.{CENTER}] has no resource = "..."; a cluster that nobody names is let alone'
    try:
        by_role = views(hosts)
    except HostError as silent:
        return f"{silent.what}: {silent.said.strip()[-200:]}"
    for role, peer in (PAIR, PAIR[::-1]):
        if reason := by_role[role].refusal(by_role[peer].node):
            return f"{hosts[role].name}: {reason}"
    running = [role for role, state in sides(hosts).items() if state == RUNNING]
    if len(running) != 1:
        return f"libvirt runs {hosts[CENTER].resource} on {' and '.join(running) or 'neither host'}"
    return ""


def lacking(hosts: Mapping[str, Host]) -> str:
    """The reason why this cluster and its machine cannot be measured; empty if they can."""
    machine = hosts[CENTER]
    if reason := unfit(hosts):
        return reason
    try:
        absent = machine.check("sh", "-c", MACHINE, "center", "lacks").split()
    except HostError as silent:
        return silent.what
    remedy = f"{simulator.REMEDY} --lab {machine.lab}"
    return Obstacle(f"{' and '.join(absent)} missing on {machine.name}", remedy) if absent else ""


@contextmanager
def serve(hosts: Mapping[str, Host], inventory: tuple[int, int]) -> Iterator[None]:
    """A management server in the machine, until we leave."""
    machine = hosts[CENTER]
    if reason := lacking(hosts):
        raise HostError(reason)
    try:
        _bring(machine, inventory)
        started(machine)
        yield
    finally:
        # A machine that is not back keeps it until the next run, which begins with this, too.
        with suppress(HostError):
            machine.check("sh", "-c", MACHINE, "center", "end", FOLDER)


def program() -> tuple[str, ...]:
    """The management server's program in the machine."""
    return ("python3", f"{FOLDER}/{kit.name(_cluster.CENTER)}")


def _bring(machine: Host, inventory: tuple[int, int]) -> None:
    machine.check("sh", "-c", MACHINE, "center", "end", FOLDER)
    machine.check("mkdir", "-p", "-m", "711", FOLDER)
    machine.put(kit.packed(_cluster.CENTER), program()[1], 0o644)
    machine.put(kit.SERVE_DATABASE, f"{FOLDER}/database.sh", 0o644)
    machine.put(simulator.vcsim(), f"{FOLDER}/vcsim", 0o755)
    place = (f"{FOLDER}/inventory", f"{FOLDER}/database.sh", f"{FOLDER}/vcsim", f"{FOLDER}/log")
    machine.check(*program(), "make", *place, machine.name, *map(str, inventory), seconds=600)
    words = shlex.join((*program(), "serve", *place))
    machine.check("sh", "-c", MACHINE, "center", "begin", FOLDER, words, machine.address)


def boot(machine: Host) -> str:
    """The number of the boot of a machine."""
    return machine.check("cat", "/proc/sys/kernel/random/boot_id").strip()


def started(machine: Host, before: str = "") -> Mapping[str, float]:
    """Notes of its server from the boot of a machine on, another one than `before`.

    `boot` is when its kernel began, by its own clock.
    """
    until, moments = time.monotonic() + PATIENCE_SECONDS, dict[str, float]()
    while time.monotonic() < until:
        text = ""
        with suppress(HostError):
            words = ("sh", "-c", MACHINE, "center", "look", FOLDER)
            text = machine.check(*words, seconds=SILENT_SECONDS)
        if text and not text.startswith(before or "\n"):
            boot_time = float(KERNEL.findall(text)[0])
            moments = _cluster.notes(text, boot_time)
            if "ready" in moments:
                return moments
            if "failed" in moments:
                raise HostError(f"{machine.name}: the management server cannot start",
                                said=_cluster.FAILURE.findall(text)[-1])  # fmt: skip
        time.sleep(LOOK_SECONDS)
    raise HostError(
        f"{machine.name}: the management server was not ready after {PATIENCE_SECONDS:g} s",
        said=f"it noted {', '.join(moments) or 'nothing'}",
    )
