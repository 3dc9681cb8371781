"""libvirt: how a guest of a host of one's own moves, by `virsh migrate`."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from labkit.errors import HostError, LabkitError
from labkit.event import Say
from labkit.events._move import AskedMove
from labkit.host import Host
from labkit.lab import Lab
from labkit.programs.packages import brings

PROGRAMS = ("ping", "virsh")

EVERY = 0.2
US = "controller"
# What `virsh event --all --loop --timestamp` prints of a domain that moves.
LIFECYCLE = re.compile(r".*event 'lifecycle' for domain '?\S+?'?: (\w+) (\w+)", re.ASCII)
ROUND = re.compile(
    r".*event 'migration-iteration' for domain '?\S+?'?: iteration: '?(\d+)", re.ASCII
)
EVENTS = {
    ("Suspended", "Migrated"): "STOP",
    ("Resumed", "Migrated"): "RESUME",
}
# What `virsh domjobinfo` prints of a job: a name, a figure, and its unit.
FIGURE = re.compile(r"([A-Z][\w ]+):\s+([\d.]+)\s*(\S*)", re.ASCII)
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
CPU = re.compile(r"<cpu\b[^>]*?(?:/>|>.*?</cpu>)", re.DOTALL)
KIND = re.compile(r"<domain type='(\w+)'", re.ASCII)
NEAR = 1.2
"""A link's round trip may differ from the requested one by this factor, up or down."""
MEASURED = re.compile(r" = [\d.]+/([\d.]+)/")


def words(asked: AskedMove, vm: str, there: str) -> tuple[str, ...]:
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
    here, there = lab.host(asked.origin), lab.host(asked.to)
    vm = _vm(lab, asked)
    with _listened(here, vm, say), _listened(there, vm, say), _polled(here, vm, say):
        say(host=here.name, event="MIGRATION", status="setup", at=time.time(), by=US)
        done = here.run(*words(asked, vm, there.address), seconds=asked.deadline + 600)
        if done.ok:
            say(host=here.name, event="MIGRATION", status="completed", at=time.time(), by=US)
    if not done.ok:
        where = "and stays on" if _runs(here, vm) else "and does not run on"
        raise HostError(
            f"{vm} was not moved to {there.name}, {where} {here.name}", said=done.stderr,
            hint="`virsh domjobinfo` says how far it came; another escape may help",
        )  # fmt: skip
    if _runs(here, vm) or not _runs(there, vm):
        raise HostError(f"{vm} does not run on {there.name} alone after it has moved")


def back(lab: Lab, asked: AskedMove) -> None:
    """Move it back, if it is there."""
    here, there, vm = lab.host(asked.origin), lab.host(asked.to), _vm(lab, asked)
    if _runs(there, vm):
        there.check(*words(asked, vm, here.address), seconds=asked.deadline + 600)


def refusal(lab: Lab, asked: AskedMove) -> str:
    """It takes two hosts with libvirt, and a link as long as the one that is asked for."""
    if missing := [role for role in (asked.origin, asked.to) if role not in lab.hosts]:
        return f"the lab has no host for it: no {missing[0]}"
    here, there = lab.host(asked.origin), lab.host(asked.to)
    if asked.guest not in here.guests:
        return f"{here.name} has no guest {asked.guest}: give it a vm = in the lab file"
    for host in (here, there):
        if not host.run("virsh", "version").ok:
            how = brings("virsh")
            return f"libvirt does not answer on {host.name}; to get it: {how}"
    return _other_cpu(here, there, _vm(lab, asked)) or _too_near(here, there, asked.rtt_ms)


# What libvirt says of it at the destination. A CPU that is passed through has no model to compare.
def _other_cpu(here: Host, there: Host, vm: str) -> str:
    described = here.run("virsh", "dumpxml", "--migratable", vm).stdout
    if not (cpu := CPU.search(described)) or "<model" not in cpu[0]:
        return ""
    kind = KIND.search(described)
    words = ("hypervisor-cpu-compare", "/dev/stdin", *(("--virttype", kind[1]) if kind else ()))
    done = there.run("virsh", *words, stdin=cpu[0].encode())
    if done.ok or "incompatible" not in done.stdout + done.stderr:
        return ""
    why = f"{there.name} lacks the CPU that {vm} uses on {here.name}"
    return f"{why}; give it a model that both have (virsh hypervisor-cpu-baseline)"


# A real link cannot be made longer from here: tc with netem on a router between them can.
def _too_near(here: Host, there: Host, wanted: float) -> str:
    if not wanted:
        return ""
    said = here.run("ping", "-n", "-q", "-c", "5", "-i", "0.2", there.address).stdout
    found = MEASURED.search(said)
    if found and wanted / NEAR <= float(found[1]) <= wanted * NEAR:
        return ""
    seen = f"{float(found[1]):g} ms" if found else "no answer"
    return f"the way to {there.name} takes {seen}, not {wanted:g} ms: delay it with tc netem"


@contextmanager
def _listened(host: Host, vm: str, say: Say) -> Iterator[None]:
    done = threading.Event()

    def read() -> None:
        command = ("virsh", "event", "--domain", vm, "--all", "--loop")
        with suppress(LabkitError), host.stream(*command, seconds=3600) as lines:
            for line in lines:
                if done.is_set():
                    return
                heard(host.name, line.text, say)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        done.set()


def heard(host: str, text: str, say: Say) -> None:
    """Say what a line of `virsh event` means, in QEMU's words."""
    if found := LIFECYCLE.fullmatch(text):
        if event := EVENTS.get((found[1], found[2])):
            say(host=host, event=event, at=time.time(), by=US)
    elif found := ROUND.match(text):
        say(host=host, event="MIGRATION_PASS", at=time.time(), by=US,
            **{"pass": int(found[1])})  # fmt: skip


@contextmanager
def _polled(host: Host, vm: str, say: Say) -> Iterator[None]:
    done = threading.Event()

    def poll() -> None:
        while not done.wait(EVERY):
            with suppress(LabkitError):
                if figures := job(host.run("virsh", "domjobinfo", vm).stdout):
                    say(host=host.name, said=figures, by=US)

    poller = threading.Thread(target=poll, daemon=True)
    poller.start()
    try:
        yield
    finally:
        done.set()
        poller.join(10)


def job(text: str) -> dict[str, float]:
    """The figures that `virsh domjobinfo` gives of a migration, under QEMU's names."""
    figures = {found[1]: float(found[2]) * UNITS.get(found[3], 1)
               for found in map(FIGURE.match, text.splitlines()) if found}  # fmt: skip
    names = {"Memory processed": "transferred", "Memory remaining": "remaining",
             "Memory total": "total", "Iteration": "dirty-sync-count",
             "Total downtime": "downtime", "Time elapsed": "total-time"}  # fmt: skip
    return {names[name]: value for name, value in figures.items() if name in names}


def _vm(lab: Lab, asked: AskedMove) -> str:
    return lab.host(asked.origin).guests[asked.guest].vm


def _runs(host: Host, vm: str) -> bool:
    return host.run("virsh", "domstate", vm).stdout.strip() == "running"
