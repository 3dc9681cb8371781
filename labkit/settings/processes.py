"""The CPUs for a host's processes and for its interrupts, and the services that go on."""

from functools import partial
from typing import ClassVar

from labkit.errors import Impossible
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Setting, Way, Words
from labkit.settings._fields import cpu_list, cpu_set, name, pattern, rule
from labkit.settings._ways import OWN_KERNEL, ROOT, OnHost, alike, script

PROGRAMS = ("pgrep", "systemctl", "taskset")

# The CPUs of every thread of every process of that name, each list once.
PLACE_SCRIPT = beside(__file__, "processes_placed.sh")
PLACE = """\
for pid in $(pgrep -x "$1"); do
    taskset -a -c -p "$2" "$pid" >/dev/null || [ ! -d "/proc/$pid" ] || exit; done"""
# Each interrupt whose name in /proc/interrupts begins so, with its CPUs.
ROUTE_SCRIPT = beside(__file__, "processes_routed.sh")
# A driver may keep an interrupt for itself; then the kernel says why.
ROUTE = """\
for pair; do
    printf %s "${pair#*=}" | tee "/proc/irq/${pair%%=*}/smp_affinity_list" >/dev/null || exit
done"""
ROUTE_ALL = ROUTE_SCRIPT + beside(__file__, "processes_route_all.sh")
TEST_NIC, FIRST_NODE = "NIC", "node"
"""In place of a name and of a list: the host's NIC of test traffic, and its first NUMA node."""
NODE_CPUS = "cat /sys/devices/system/node/node0/cpulist"
# Without systemd its programs say so at length, each in its own words.
STATE = """\
[ -d /run/systemd/system ] || { echo "no systemd runs here" >&2; exit 1; }
systemctl cat "$1.service" >/dev/null || exit
systemctl is-active --quiet "$1.service" && echo on || echo off"""


class ProcessCpus(OnHost):
    """The CPUs for all threads of all processes called `process`, and what they start later."""

    # The kernel keeps the first 15 letters of a name.
    process: str = pattern(
        "name of a process", r"[A-Za-z0-9][\w.:-]{0,14}", "redis-server", which=True
    )
    cpus: str = cpu_set()
    gaps: ClassVar = {"esxi": "GuestCpus places a guest there"}

    def on_linux(self, host: Host) -> Way:
        """`taskset`; when they are not all alike beforehand, they could not be put back."""
        return Way(
            script(PLACE_SCRIPT, self.process), lambda value: (script(PLACE, self.process, value),),
            lambda text: " and ".join(text.split()),
            lambda text: "" if len(text.split()) == 1
            else f"threads of {self.process} are not all on the same CPUs",
            needs=ROOT, settle_seconds=0.5,
        )  # fmt: skip


def _place(cpus: str) -> str:
    return cpus if cpus == FIRST_NODE else cpu_list(cpus)


class InterruptCpus(OnHost):
    """The CPUs that take the interrupts whose name begins with `name`, as in /proc/interrupts.

    `NIC` stands for the `interface` of the host in its lab file, `node` for its first NUMA node.
    irqbalance moves them again: ServiceRunning("irqbalance", False) goes with it.
    """

    name: str = pattern(
        "name of an interrupt", r"[A-Za-z][\w.:@-]{0,40}", "eth1 or virtio2", which=True
    )
    cpus: str = rule(_place, _place, "a list such as 0-1")
    gaps: ClassVar = {
        "esxi": "VMkernel routes them itself; AdvancedOption has its /Irq/... options"
    }

    def clash(self, setting: Setting) -> str:
        """irqbalance goes on placing interrupts as it likes."""
        irqbalance = ServiceRunning("irqbalance", True, role=self.role)
        return "irqbalance would move them again" if setting == irqbalance else ""

    def on_linux(self, host: Host) -> Way:
        """`smp_affinity_list` of each."""
        name = host.interface if self.name == TEST_NIC else self.name
        if not name:
            raise Impossible(f"{host.name}: its lab file does not say its `interface`")
        node = self.cpus == FIRST_NODE
        words = f'{ROUTE_SCRIPT}routed "$1"{f" && {NODE_CPUS}" * node}'
        return Way(
            script(words, name), partial(_routes, name), _on_node if node else alike,
            needs=ROOT, probe=script(OWN_KERNEL), after=("ServiceRunning",),
        )  # fmt: skip


def _routes(name: str, value: str) -> tuple[Words, ...]:
    if "=" in value:
        return (script(ROUTE, *value.split()),)
    if value == FIRST_NODE:
        return (script(f'set -- "$1" "$({NODE_CPUS})"\n{ROUTE_ALL}', name),)
    return (script(ROUTE_ALL, name, value),)


def _on_node(text: str) -> str:
    *pairs, node = text.split()
    cpus = alike(" ".join(pairs))
    return FIRST_NODE if cpus == node else cpus


class ServiceRunning(OnHost):
    """Whether a service of the host goes on: irqbalance, tuned, firewalld, ..."""

    service: str = name("service", which=True)
    running: bool = False

    def on_linux(self, host: Host) -> Way:
        """systemd, until the host starts again."""
        verbs = {"on": "start", "off": "stop"}
        return Way(
            script(STATE, self.service),
            lambda value: (("systemctl", verbs[value], f"{self.service}.service"),),
            needs=ROOT, probe=script(OWN_KERNEL), settle_seconds=2, seconds=1,
            cuts_management=self.service in ("firewalld", "nftables", "ufw", "ssh"),
        )  # fmt: skip
