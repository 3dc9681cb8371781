"""A host with Linux: its interface, and what else on it may disturb a measurement."""

import time
from collections.abc import Iterator

from labkit.box.status import processes
from labkit.check import FAILURE, OK, WARNING, Finding, Subject, check
from labkit.errors import LabkitError
from labkit.gates import around as machines
from labkit.gates.gate import collect, gates, tripped
from labkit.machine.scripts import beside
from labkit.running.possible import no_link

PROGRAMS = ("ip", "iptables", "nft", "systemctl")

LINUX = ("linux",)
DAEMONS = {
    "irqbalance": "moves interrupts between CPUs", "tuned": "sets governors, sysctls and disks",
    "power-profiles-": "sets governors", "numad": "moves processes and memory between nodes",
    "ksmtuned": "merges memory pages of guests",
}  # fmt: skip
# Names of processes, as the kernel cuts them; BusyBox's ps knows no options.
RUNNING = "cat /proc/[0-9]*/comm 2>/dev/null | sort -u"
FIREWALL = beside(__file__, "linux_firewall.sh")
INTERFACE = beside(__file__, "linux_interface.sh")
APART = 1.0
"""Seconds between two looks at what a machine counts."""
NOISE = ("steal", "throttling", "swap", "foreign load")
TOP = "top -b -n 1"
END_BUSY = f"{TOP} | head -n 15   # and end what is busy"
GOVERNORS = (
    "for f in /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; do "
    '[ ! -r "$f" ] || cat "$f"; done | sort -u'
)
IDLE = (
    "cd /sys/devices/system/cpu/cpu0/cpuidle 2>/dev/null && for s in state*; do "
    '[ "$(cat $s/disable)" = 1 ] || echo "$(cat $s/name) $(cat $s/latency)"; done; true'
)
LONG = 10
"""Microseconds to wake up: more than a round trip on a good link takes."""


@check("nothing changes settings by itself", after="kind", kinds=LINUX)
def daemons(place: Subject) -> Iterator[Finding]:
    """Does something on the host change settings by itself?"""
    running = DAEMONS.keys() & place.shown(RUNNING).splitlines()
    for name in running:
        service = f"{name}daemon" if name.endswith("-") else name
        fix = f"systemctl stop {service}"
        yield Finding(WARNING, f"{service} runs: it {DAEMONS[name]}", fix=fix)
    if not running:
        yield Finding(OK, "no irqbalance, TuneD or similar service runs")


@check("no firewall is in the way of test traffic", after="kind", kinds=LINUX)
def firewall(place: Subject) -> Iterator[Finding]:
    """Does a firewall look at each packet? The paper has none (p. 8); `ports` tries what passes."""
    lines = place.shown(FIREWALL).splitlines()
    if not lines:
        yield Finding(OK, "none is seen")
        return
    service = next((line for line in lines if not line.startswith("rules")), "")
    fix = "nft list ruleset   # and take out what test traffic passes"
    if service:
        fix = f"systemctl stop {service}   # in a lab that nobody else can reach"
    yield Finding(WARNING, f"it filters packets: {', '.join(dict.fromkeys(lines))}", fix=fix)


@check("the interface of test traffic is up", after="kind", kinds=LINUX)
def interface(place: Subject) -> Iterator[Finding]:
    """Is the interface of test traffic there and up, with the address that the lab names?"""
    host = place.host
    if host.interface:
        yield _state(place, *place.shown(INTERFACE, host.interface).splitlines())
    elif any(place.role in other_host.guests for other_host in place.lab.hosts.values()):
        yield Finding(OK, "not named, because a guest has another name for it on each network")
    else:
        problem = "the interface of test traffic is not named, so its settings are left out"
        yield Finding(WARNING, problem, fix=f'interface = "..." in {place.table}')


def _state(place: Subject, first: str, *addresses: str) -> Finding:
    host, name = place.host, place.host.interface
    if first == "absent":
        text = f"there are {', '.join(' '.join(addresses).split())}"
        fix = f'put the right interface = "..." into {place.table}'
        return Finding(FAILURE, f"no interface {name}", text, fix)
    state, flags, mtu, *words = first.split()
    fault, mend = no_link(name, state, flags)
    if fault:
        return Finding(FAILURE, fault, fix=mend)
    if host.address[:1].isdigit() and host.address not in addresses:
        problem = f"{name} does not have the address {host.address}"
        text = f"it has {', '.join(addresses) or 'none'}"
        return Finding(FAILURE, problem, text, f"ip addr add {host.address}/24 dev {name}")
    driver = next((word for word in words if not word.lstrip("-").isdigit()), "")
    speed = next((word for word in words if word.isdigit()), "")
    facts = [f"MTU {mtu}", driver, speed and f"{speed} Mbit/s"]
    return Finding(OK, f"{name}: {', '.join(fact for fact in facts if fact)}")


@check("nothing else is busy", after="kind", kinds=LINUX)
def load(place: Subject) -> Iterator[Finding]:
    """Is the host busy with something else?"""
    before = collect(place.host)
    place.shown(f"sleep {APART:g}")
    after = collect(place.host)
    try:
        gates_of = gates(before, after, APART)
    except LabkitError as error:
        yield Finding(WARNING, "its load cannot be read", error.what, TOP)
        return
    wrong = [gate for gate in tripped(gates_of) if gate.name in NOISE]
    yield from (Finding(WARNING, gate.why, fix=END_BUSY) for gate in wrong)
    if not wrong:
        quiet = [gate.why for gate in gates_of if gate.name in NOISE and gate.ok]
        yield Finding(OK, "; ".join(quiet))


@check("nothing else is busy on the machine of the box", after="kind", about="lab")
def around(place: Subject) -> Iterator[Finding]:
    """Does the machine under a box do something else?"""
    if not place.lab.emulated:
        return
    before = machines.look(processes(place.lab.name))
    time.sleep(APART)
    work = machines.between(before, machines.look(processes(place.lab.name)))
    if work is None:
        yield Finding(WARNING, "its load cannot be read", fix=TOP, where=machines.ROLE)
    elif work.much:
        yield Finding(WARNING, work.gate.why, fix=END_BUSY, where=machines.ROLE)
    else:
        yield Finding(OK, work.gate.why, where=machines.ROLE)


@check("CPUs stay awake", after="kind", kinds=LINUX)
def power(place: Subject) -> Iterator[Finding]:
    """Do the CPUs sleep or change their clock while labkit measures?"""
    governors = place.shown(GOVERNORS).split()
    if not governors:
        yield Finding(OK, "no frequency governor (a guest, or the firmware decides)")
    elif governors == ["performance"]:
        yield Finding(OK, "governor performance")
    else:
        problem = f"governor {', '.join(governors)}: CPUs change their clock"
        yield Finding(WARNING, problem, fix="cpupower frequency-set -g performance")
    rows = [line.rsplit(" ", 1) for line in place.shown(IDLE).splitlines()]
    if deep := [name for name, latency in rows if latency.isdigit() and int(latency) > LONG]:
        problem = f"idle CPUs sleep deeply ({', '.join(deep)}): waking up takes more than {LONG} µs"
        yield Finding(WARNING, problem, fix=f"cpupower idle-set -D {LONG}")


@check("memory stays in memory", after="kind", kinds=LINUX)
def swap(place: Subject) -> Iterator[Finding]:
    """Can memory be paged out while labkit measures?"""
    lines = (line.partition(":") for line in place.shown("cat /proc/meminfo").splitlines())
    kib = {name: int(value.split()[0]) for name, _, value in lines if value.split()}
    if used := max(kib.get("SwapTotal", 0) - kib.get("SwapFree", 0), 0):
        text = f"{used // 1024} MiB are swapped out; bringing them back takes time"
        yield Finding(WARNING, text, fix="swapoff -a")
    else:
        yield Finding(OK, "nothing is swapped out")
