"""libvirt: how a guest of a host of one's own moves, by `virsh migrate`."""

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial

from labkit.errors import HostError, LabkitError, Obstacle, StayedBehind
from labkit.event import Say
from labkit.events._move import NEAR, US, AskedMove, note
from labkit.host import Host
from labkit.lab import Lab
from labkit.machine.scripts import beside
from labkit.programs.packages import brings
from labkit.setting import Words

PROGRAMS = ("ip", "perl", "ping", "stat", "tc", "virsh")

EVERY = 0.2
EVERY_EVENT = ("virsh", "event", "--all", "--loop", "--timestamp")
# What that prints of a domain that moves.
HEARD = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\+\d{4}): event '(?P<event>[\w-]+)' "
    r"for domain '?(?P<vm>[^':]+)'?: (?P<about>.*)", re.ASCII,
)  # fmt: skip
EVENTS = {
    "Suspended Migrated": {"event": "STOP"},
    "Resumed Migrated": {"event": "RESUME"},
    "Stopped Migrated": {"event": "MIGRATION", "status": "completed"},
}
COMPLETED = '"status":"completed"'
# What `virsh domjobinfo` prints of a job: a name, a figure, and its unit.
FIGURE = re.compile(r"([A-Z][\w ]+):\s+([\d.]+)\s*(\S*)", re.ASCII)
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
CPU = re.compile(r"<cpu\b[^>]*?(?:/>|>.*?</cpu>)", re.DOTALL)
KIND = re.compile(r"<domain type='(\w+)'", re.ASCII)
MEASURED = re.compile(r" = [\d.]+/([\d.]+)/")
ROUTE = re.compile(r" dev (\S+)", re.ASCII)
DISK = re.compile(r"^\s*\w+\s+disk\s+\S+\s+(/\S+)", re.ASCII | re.MULTILINE)
SAME = "%i %s %Y"
RATE = """\
cat "/sys/class/net/$1/speed" 2>/dev/null || echo
tc qdisc show dev "$1" 2>/dev/null; tc class show dev "$1" 2>/dev/null; true"""
SHAPED = re.compile(r"\brate (\d+(?:\.\d+)?)([KMGT]?)bit", re.ASCII)
MBIT = {"b": 1e-6, "K": 1e-3, "M": 1.0, "G": 1e3, "T": 1e6}
WATCHER = beside(__file__, "_libvirt_watch.pl")
WATCH_SECONDS = 7_200.0


def words(asked: AskedMove, vm: str, there: str) -> Words:
    """The command that moves a machine to the host of an address (virsh(1), migrate)."""
    ways_out = {
        "give up": (),
        "stop and copy": ("--timeout", f"{asked.deadline:.0f}", "--timeout-suspend"),
        "post-copy": ("--postcopy", "--timeout", f"{asked.deadline:.0f}", "--timeout-postcopy"),
        "throttle": ("--auto-converge",),
    }
    return (
        "virsh", "migrate", "--live", "--persistent", "--undefinesource", vm,
        f"qemu+ssh://{there}/system", "--migrateuri", f"tcp://{there}",
        *(("--parallel", "--parallel-connections", str(asked.channels)) * (asked.channels > 1)),
        *(("--copy-storage-all",) * asked.disks),
        *(("--postcopy", "--postcopy-after-precopy") * asked.post_copy),
        *(("--auto-converge",) * (asked.throttle and asked.escape != "throttle")),
        *ways_out[asked.escape],
    )  # fmt: skip


def move(lab: Lab, asked: AskedMove, say: Say) -> None:
    """Move the machine; where that fails libvirt leaves it running where it was."""
    origin, target = lab.host(asked.origin), lab.host(asked.to)
    vm = asked.vm(lab)
    sent, late = list[float](), list[float]()
    with ExitStack() as watched:
        for host, other in ((origin, target), (target, origin)):
            take = partial(heard, host.name, vm, say)
            watched.enter_context(_beside(partial(_read, host, EVERY_EVENT, take), 0))
            watched.enter_context(_watched(host, vm, _link(host, other), say))
        watched.enter_context(_beside(partial(_poll, origin, vm, say, sent), 10))
        note(say, origin.name, "setup")
        with _beside(partial(_give_up, origin, vm, asked, late), 0):
            completed = origin.run(*words(asked, vm, target.address), seconds=asked.deadline + 600)
        if completed.ok:
            if COMPLETED not in say.text:
                note(say, origin.name, "completed")
            if figures := job(target.run("virsh", "domjobinfo", vm, "--completed").stdout):
                say(host=origin.name, said=figures, by=US)
    if not completed.ok:
        _not_moved(origin, target, vm, completed.stderr, under_way=bool(sent or late))
    if _runs(origin, vm) or not _runs(target, vm):
        raise HostError(f"{vm} does not run on {target.name} alone after it has moved")


# One that was under way and runs on has not arrived; one that never began says nothing of moves.
def _not_moved(origin: Host, destination: Host, vm: str, why: str, under_way: bool) -> None:
    stays = _runs(origin, vm)
    where = "and stays on" if stays else "and does not run on"
    kind = StayedBehind if stays and under_way else HostError
    raise kind(
        f"{vm} was not moved to {destination.name}, {where} {origin.name}", said=why,
        hint="`virsh domjobinfo` says how far it came; another escape may help",
    )  # fmt: skip


# libvirt has no way out of its own that leaves the machine where it is.
def _give_up(
    host: Host, vm: str, asked: AskedMove, late: list[float], done: threading.Event
) -> None:
    if asked.escape == "give up" and not done.wait(asked.deadline):
        late.append(time.time())
        host.run("virsh", "domjobabort", vm)


def back(lab: Lab, asked: AskedMove) -> None:
    """Move it back, if it is there."""
    origin, target, vm = lab.host(asked.origin), lab.host(asked.to), asked.vm(lab)
    if _runs(target, vm):
        home = asked.homeward
        target.check(*words(home, vm, origin.address), seconds=home.deadline + 600)


def refusal(lab: Lab, asked: AskedMove) -> str:
    """It takes two hosts with libvirt, and a link and a storage that are as asked for."""
    if why := asked.lacking(lab):
        return why
    origin, target, vm = lab.host(asked.origin), lab.host(asked.to), asked.vm(lab)
    for host in (origin, target):
        if not host.run("virsh", "version").ok:
            return Obstacle(f"libvirt does not answer on {host.name}", brings("virsh"))
    return (
        _other_cpu(origin, target, vm)
        or _too_far(origin, target, asked.rtt_ms)
        or _other_rate(origin, target, asked)
        or _stored(origin, target, vm, asked.disks)
    )


# What libvirt says of it at the destination. A CPU that is passed through has no model to compare.
def _other_cpu(here: Host, there: Host, vm: str) -> str:
    described = here.run("virsh", "dumpxml", "--migratable", vm).stdout
    if not (cpu := CPU.search(described)) or "<model" not in cpu[0]:
        return ""
    kind = KIND.search(described)
    words = ("hypervisor-cpu-compare", "/dev/stdin", *(("--virttype", kind[1]) if kind else ()))
    completed = there.run("virsh", *words, stdin=cpu[0].encode())
    if completed.ok or "incompatible" not in completed.stdout + completed.stderr:
        return ""
    why = f"{there.name} lacks the CPU that {vm} uses on {here.name}"
    return f"{why}; give it a model that both have (virsh hypervisor-cpu-baseline)"


# Settings add the round trip that is asked for to the link's own.
def _too_far(here: Host, there: Host, wanted: float) -> str:
    if not wanted:
        return ""
    output = here.run("ping", "-n", "-q", "-c", "5", "-i", "0.2", there.address).stdout
    match = MEASURED.search(output)
    if match and float(match[1]) <= wanted * (NEAR - 1):
        return ""
    delay = f"{float(match[1]):g} ms" if match else "no answer"
    return f"the way to {there.name} takes {delay} by itself, so it cannot take {wanted:g} ms"


# As its NIC says, or as it was shaped; a line that is slower elsewhere is not seen from here.
# With a round trip, settings give a faster one its rate.
def _other_rate(origin: Host, destination: Host, asked: AskedMove) -> str:
    if not (wanted := asked.rate_mbit):
        return ""
    most = math.inf if asked.rtt_ms else wanted * NEAR
    for host, other in ((origin, destination), (destination, origin)):
        link = _link(host, other)
        speed = rate(host.run("sh", "-c", RATE, "rate", link).stdout)
        if not wanted / NEAR <= (speed or wanted) <= most or not (speed or asked.rtt_ms):
            answer = f"has {speed:g} Mbit/s" if speed else "does not say its rate"
            return f"{link or 'the link'} of {host.name} {answer}, not {wanted:g}: shape it with tc"
    return ""


def rate(text: str) -> float:
    """Mbit/s of a link: the least of its NIC's speed and the rates of its queues; 0 if unknown."""
    first, _, queues = text.partition("\n")
    speed = [float(first)] if first.isdigit() else []
    shaped = [float(n) * MBIT[unit or "b"] for n, unit in SHAPED.findall(queues)]
    return min([*speed, *shaped], default=0.0)


# Where its disks are on both hosts the same, only its memory can move, and else only all of it.
def _stored(origin: Host, destination: Host, vm: str, disks: bool) -> str:
    output = origin.run("virsh", "domblklist", vm, "--details").stdout
    for path in DISK.findall(output):
        stat = ("stat", "-L", "-c", SAME, path)
        shared = origin.run(*stat).stdout == destination.run(*stat).stdout != ""
        if shared == disks:
            how = "is the same on both" if shared else f"of {origin.name} is not shared"
            return f"{path} {how}, so {'its disks do not move' if disks else 'they have to move'}"
    return ""


def _link(host: Host, other: Host) -> str:
    route = ROUTE.search(host.run("ip", "-o", "route", "get", other.address).stdout)
    return route[1] if route else host.interface


# Something done at the same time, until we leave; then it has some seconds to end.
@contextmanager
def _beside(work: Callable[[threading.Event], None], seconds: float) -> Iterator[None]:
    done = threading.Event()
    worker = threading.Thread(target=work, args=(done,), daemon=True)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join(seconds)


# Each line of a program on the host.
def _read(host: Host, words: Words, take: Callable[[str], None], done: threading.Event) -> None:
    with suppress(LabkitError), host.stream(*words, seconds=WATCH_SECONDS) as lines:
        for line in lines:
            if done.is_set():
                return
            take(line.text)


def heard(host: str, vm: str, say: Say, text: str) -> None:
    """Say what a line of `virsh event` means, in QEMU's words and by that host's clock."""
    line = HEARD.fullmatch(text)
    if line is None or line["vm"] != vm:
        return
    at = datetime.fromisoformat(line["at"]).timestamp()
    if line["event"] == "lifecycle" and (event := EVENTS.get(line["about"])):
        say(host=host, **event, at=at)
    elif line["event"] == "migration-iteration":
        say(host=host, event="MIGRATION_PASS", at=at,
            **{"pass": int(line["about"].rpartition(" ")[2].strip("'"))})  # fmt: skip


# Bytes on the link and CPU time, by a program of ours on the host itself.
@contextmanager
def _watched(host: Host, vm: str, link: str, say: Say) -> Iterator[None]:
    begun = threading.Event()

    def take(line: str) -> None:
        with suppress(ValueError):
            say(host=host.name, **json.loads(line))
            begun.set()

    with _beside(partial(_read, host, ("perl", "-e", WATCHER, "--", vm, link), take), 5):
        if not begun.wait(20):
            raise HostError(
                f"nothing was seen of the links of {host.name}, so {vm} was not moved",
                hint=f"does perl run there? To get it: {brings('perl')}",
            )
        yield


# What it has sent by then is noted.
def _poll(host: Host, vm: str, say: Say, sent: list[float], done: threading.Event) -> None:
    while not done.wait(EVERY):
        with suppress(LabkitError):
            if figures := job(host.run("virsh", "domjobinfo", vm).stdout):
                say(host=host.name, said=figures, by=US)
                sent += [figures["transferred"]] if figures.get("transferred") else []


def job(text: str) -> dict[str, float]:
    """The figures that `virsh domjobinfo` gives of a migration, under QEMU's names."""
    figures = {match[1]: float(match[2]) * UNITS.get(match[3], 1)
               for match in map(FIGURE.match, text.splitlines()) if match}  # fmt: skip
    names = {"Memory processed": "transferred", "Memory remaining": "remaining",
             "Memory total": "total", "Iteration": "dirty-sync-count",
             "Total downtime": "downtime", "Time elapsed": "total-time"}  # fmt: skip
    return {names[name]: value for name, value in figures.items() if name in names}


def _runs(host: Host, vm: str) -> bool:
    return host.run("virsh", "domstate", vm).stdout.strip() == "running"
