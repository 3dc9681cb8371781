"""One guest on its way between two hosts of a box: how, what shows of it, disks, and arrival."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.box.folder import Folder
from labkit.box.guests import disk
from labkit.box.guests.disk import SEEN_BY_HOSTS, device
from labkit.box.layout import Layout
from labkit.box.network.link import LinkPlan
from labkit.box.processes import network_of, run
from labkit.errors import BadInput, BoxError, EndedAfterMove, LabkitError, StayedBehind, Unknown
from labkit.host import Host
from labkit.lab import Lab

PROGRAMS = ("ip", "python3")

Hears = Callable[[Mapping[str, Any]], None]
"""Called with each line that the watchers of both hosts print, with its `host`."""
WATCHER = Path(__file__).with_name("watch_guest.py").read_text("utf-8")
INTERVAL = 0.1
MOST_CHANNELS = 255
AS_FAST_AS_IT_GOES = 10**12
"""Bytes a second; QEMU by itself stays at 1 Gbit/s."""
USUAL_DOWNTIME = 300
"""Milliseconds."""
LONGEST_STOP = 2_000_000
"""Milliseconds; more than QEMU takes as a limit."""
ESCAPES = ("give up", "stop and copy", "post-copy", "throttle")
WATCH_SECONDS = 3600.0
AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
ENDS = ("completed", "failed", "cancelled")
PORT = 10809
PIECE = 256 << 10
"""Bytes. QEMU sends sixteen pieces before it waits for an answer: small ones fill no long way."""
LITTLE = 16 * PIECE
"""Over a long way a guest that writes leaves some to copy always, until it stands still."""
READY_SECONDS = 600.0
# The shared storage holds a folder for each host that pretends to have its own.
RELOCATE = 'sed -i "s|^\\(disk[0-9]*\\)=$2/$1[^/]*/|\\1=$2/$3/|" "/run/labkit/guests/$1/wires"'


@dataclass(frozen=True)
class Moving:
    """Knobs of one migration; `channels` above 1 are QEMU's multifd.

    When it has not converged after `deadline` seconds, `escape` says what is done: give up, stop
    the guest and copy the rest, post-copy, or throttle the guest.
    """

    channels: int = 1
    throttle: bool = False
    """Whether the guest is slowed down from the start when it writes too fast (auto-converge)."""
    post_copy: bool = False
    """Whether the guest goes on at the destination after the first round."""
    disks: bool = False
    """Whether the content of its disks moves too, as where no storage is shared."""
    rate: str = ""
    """Of a link of its own between the two hosts, as "500 Mbit/s"."""
    delay: str = ""
    """Of that link, one way, as "2.5 ms"."""
    deadline: float = 60.0
    escape: str = "give up"

    def __post_init__(self) -> None:
        if not 1 <= self.channels <= MOST_CHANNELS:
            legal = f"1 to {MOST_CHANNELS}"
            raise BadInput(f"a migration has {legal} channels, not {self.channels!r}")
        if not 0 < self.deadline <= WATCH_SECONDS:
            raise BadInput(f"a migration has 0 to {WATCH_SECONDS:g} s, not {self.deadline!r}")
        if self.escape not in ESCAPES:
            raise Unknown("way out of a migration that does not converge", self.escape, ESCAPES)
        if self.channels > 1 and self.may_post_copy:
            raise BadInput(
                "post-copy and several channels do not go together in QEMU 7.2",
                hint="use channels=1, or another escape",
            )

    @property
    def may_post_copy(self) -> bool:
        """Whether it goes on at the destination before its memory has come, at once or later."""
        return self.post_copy or self.escape == "post-copy"

    def link(self, role: str) -> LinkPlan | None:
        """The link of its own that it asks for, if any."""
        return LinkPlan(role, self.rate, self.delay) if self.rate or self.delay else None

    @property
    def able(self) -> dict[str, Any]:
        """QEMU's abilities that both sides switch on before it begins, by name."""
        states = {
            "multifd": self.channels > 1,
            "postcopy-ram": self.may_post_copy,
            "auto-converge": self.throttle or self.escape == "throttle",
            "pause-before-switchover": self.disks,
            "events": True,
        }
        capabilities = [{"capability": name, "state": state} for name, state in states.items()]
        return {"capabilities": capabilities}

    @property
    def limits(self) -> dict[str, int]:
        """The parameters that both sides set."""
        share = 20 if self.throttle else 1
        return {
            "max-bandwidth": AS_FAST_AS_IT_GOES,
            "multifd-channels": self.channels,
            "downtime-limit": USUAL_DOWNTIME,
            "cpu-throttle-initial": share,
            "cpu-throttle-increment": 10 if self.throttle else 1,
        }


AS_IT_COMES = Moving()


@dataclass
class WatchedMove:
    """The lines that the watchers of both hosts have printed so far, in order of arrival."""

    hears: Hears
    lines: list[dict[str, Any]] = field(default_factory=list)

    def latest(self, host: str, since: float) -> dict[str, Any]:
        """QEMU's last report of the migration on a host, after that time; {} if there is none."""
        for line in reversed(self.lines):
            if line["host"] == host and "said" in line:
                return dict(line["said"]) if line["t"] > since else {}
        return {}

    def happened(self, host: str, event: str, since: float) -> bool:
        """Whether QEMU on a host has reported such an event since then."""
        return any(
            line["host"] == host and line.get("event") == event and line["t"] > since
            for line in list(self.lines)
        )

    @contextmanager
    def on(self, host: Host, guest: str, *disks: str) -> Iterator[None]:
        """Watch the guest on one more host; mirrors of these disks end when it stands still."""
        pids = host.check("guest", f"@{guest}", "pids").split()
        socket = f"/run/labkit/guests/{guest}/run/watched"
        mirrors = (f"mirror={disk}" for disk in disks)
        words = ["python3", "-c", WATCHER, socket, str(INTERVAL), *pids, *mirrors]
        has_begun, has_ended = threading.Event(), threading.Event()

        def read() -> None:
            with suppress(LabkitError), host.stream(*words, seconds=WATCH_SECONDS) as streaming:
                for line in streaming:
                    if has_ended.is_set():
                        return
                    has_begun.set()
                    self._hear(host.name, line.stream, line.text)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            if not has_begun.wait(20):
                raise BoxError(f"{guest} on {host.name} cannot be watched: its monitor is silent")
            yield
        finally:
            has_ended.set()
            reader.join(5)

    def _hear(self, host: str, stream: str, text: str) -> None:
        try:
            facts = json.loads(text)
        except ValueError:
            facts = {"t": time.time(), "complaint": f"{stream}: {text}"}
        line = {"host": host, **facts}
        self.lines.append(line)
        self.hears(line)


@dataclass(frozen=True)
class Move:
    """One guest that is on its way: where it is, where it goes, and how."""

    folder: Folder
    lab: Lab
    now: Layout
    then: Layout
    guest: str
    how: Moving
    hears: Hears
    patience: float

    @property
    def origin(self) -> Host:
        """The host where it runs."""
        return self.lab.host(self.now.on(self.guest))

    @property
    def to(self) -> Host:
        """The host where it is to run."""
        return self.lab.host(self.then.on(self.guest))

    def pid(self, role: str) -> int:
        """The process that holds the namespaces of a host, or of the switch."""
        return int(json.loads(self.folder.pids.read_text())[role])

    def switch(self, lines: str, *words: str) -> None:
        """Run ip in the network of the switch."""
        in_network(self.pid("switch"), lines, *words)

    def qmp(self, host: Host, command: str, **arguments: Any) -> Any:
        """Ask the monitor of its QEMU on a host; words of Python stand for those of QMP."""
        values = {key.replace("_", "-"): value for key, value in arguments.items()}
        words = [json.dumps(values)] if values else []
        return json.loads(host.check("guest", f"@{self.guest}", "qmp", command, *words))


def arrived(move: Move, watched: WatchedMove) -> dict[str, Any]:
    """QEMU's account of a migration that it was asked for just now, once the guest runs there."""
    asked, begun, sent, helped = time.time(), time.monotonic(), -1, False
    since = begun
    while (facts := _account(move, watched, asked)).get("status") not in ENDS:
        # Nobody hears that a link was cut, so that what does not go on is given up.
        if facts.get("transferred", 0) != sent:
            sent, since = facts.get("transferred", 0), time.monotonic()
        if time.monotonic() - since > move.patience:
            raise StayedBehind(
                f"nothing arrived for {move.patience:g} s",
                hint="is a link of its hosts cut? labkit box status shows them",
            )
        late = time.monotonic() - begun > move.how.deadline
        after_one = move.how.post_copy and facts.get("dirty-sync-count", 0) >= 2
        if not helped and facts.get("status") == "active" and (late or after_one):
            helped = True
            _help(move, "post-copy" if after_one else move.how.escape)
        time.sleep(0.01)
    if facts["status"] != "completed":
        raise StayedBehind(facts.get("error-desc", f"QEMU says that it {facts['status']}"))
    _insist_it_runs(move, watched, asked)
    return facts


# QEMU may say that it has ended a moment before it knows how long that took.
def _account(move: Move, watched: WatchedMove, asked: float) -> dict[str, Any]:
    facts = watched.latest(move.origin.name, asked)
    incomplete = facts.get("status") == "completed" and not facts.get("total-time")
    return {} if incomplete else facts


def _help(move: Move, escape: str) -> None:
    if escape == "give up":
        raise StayedBehind(
            f"it did not converge within {move.how.deadline:g} s: the guest writes faster than "
            "its memory goes over",
            hint='a longer deadline, a faster link, or another escape: "stop and copy", '
            '"post-copy", "throttle"',
        )
    if escape == "post-copy":
        move.qmp(move.origin, "migrate-start-postcopy")
    elif escape == "stop and copy":
        move.qmp(move.origin, "migrate-set-parameters", downtime_limit=LONGEST_STOP)
    else:
        hard = {"cpu_throttle_initial": 60, "cpu_throttle_increment": 20}
        move.qmp(move.origin, "migrate-set-parameters", **hard)


def _insist_it_runs(move: Move, watched: WatchedMove, asked: float) -> None:
    until = time.monotonic() + move.patience
    try:
        while move.qmp(move.to, "query-status")["status"] != "running":
            if time.monotonic() > until:
                raise BoxError(f"{move.guest} arrived on {move.to.name} and does not run there")
            time.sleep(0.02)
        move.qmp(move.to, "announce-self", initial=10, max=100, rounds=5, step=20)
    except LabkitError as silent:
        if not watched.happened(move.to.name, "RESUME", asked):
            raise
        raise EndedAfterMove(
            f"{move.guest} resumed on {move.to.name}, then ended as in a power failure",
            said=str(silent), hint="labkit box up starts it there",
        ) from silent  # fmt: skip


def disks_of(move: Move) -> list[str]:
    """The disks that move, by the name that the guest has for each."""
    plan = move.now.plan(move.guest)
    numbers = range(len(plan.volumes)) if move.how.disks else []
    return [device(number, plan.accelerator) for number in numbers]


def prepare_disks(move: Move) -> None:
    """Give the destination empty disks of its own."""
    if not disks_of(move):
        return
    plan, folder = move.now.plan(move.guest), f"{move.guest}-{move.to.name}"
    if not (move.folder.disks / folder).exists():
        uid = move.now.uid(move.guest)
        disk.make(move.folder.disks / folder, plan.volumes, plan.accelerator, uid)
    move.to.check("sh", "-c", RELOCATE, "elsewhere", move.guest, SEEN_BY_HOSTS, folder)


def exports(move: Move, address: str) -> list[tuple[str, dict[str, Any]]]:
    """The commands for the destination that export its disks by NBD, before the guest comes."""
    names = disks_of(move)
    if not names:
        return []
    at = {"type": "inet", "data": {"host": address, "port": str(PORT)}}
    exports = [("nbd-server-add", {"device": name, "writable": True}) for name in names]
    return [("nbd-server-start", {"addr": at}), *exports]


@contextmanager
def copied(move: Move, address: str) -> Iterator[None]:
    """The disks are copied as they are, and from then on what is written goes to both.

    QEMU on the origin mirrors to what the other exports, until the guest stands still, as libvirt
    does with --copy-storage-all. But memory begins to move when little is left.
    """
    names = disks_of(move)
    for name in names:
        target = f"nbd:{address}:{PORT}:exportname={name}"
        arguments = {"device": name, "target": target, "sync": "full", "mode": "existing"}
        move.qmp(move.origin, "drive-mirror", format="raw", granularity=PIECE, **arguments)
    try:
        _until_little_is_left(move, names)
        yield
    except BaseException:
        if names:
            _cancel(move, names)
        raise
    if names:
        move.qmp(move.to, "nbd-server-stop")


def _until_little_is_left(move: Move, names: list[str]) -> None:
    until, jobs = time.monotonic() + READY_SECONDS, []
    while names:
        jobs = move.qmp(move.origin, "query-block-jobs")
        if len(jobs) < len(names):
            raise BoxError("the copy of a disk has ended before the guest could move")
        for job in jobs:
            progress = {key: job[key] for key in ("device", "len", "offset")}
            move.hears({"host": move.origin.name, "t": time.time(), "disk": progress})
        if all(job["ready"] or 0 < job["len"] - LITTLE <= job["offset"] for job in jobs):
            return
        if time.monotonic() > until:
            raise BoxError(f"the disks were not copied within {READY_SECONDS:g} s")
        time.sleep(0.1)


def _cancel(move: Move, names: list[str]) -> None:
    for job in move.qmp(move.origin, "query-block-jobs"):
        move.qmp(move.origin, "block-job-cancel", device=job["device"])
    until = time.monotonic() + move.patience
    while move.qmp(move.origin, "query-block-jobs"):
        if time.monotonic() > until:
            raise BoxError(f"the copies of {', '.join(names)} do not end")
        time.sleep(0.02)


def in_network(pid: int, lines: str, *words: str) -> str:
    """Run ip in the network of a process."""
    return run(["ip", *words, *(["-batch", "-"] if lines else [])], lines, network_of(pid))


# Until it has moved both hosts hold it.
def check_fit(move: Move) -> None:
    """Refuse a move that has no room there, before anything is begun."""
    takes = int(move.origin.check("guest", f"@{move.guest}", "get", "memory").strip()[:-1])
    match = AVAILABLE.search(move.to.check("cat", "/proc/meminfo"))
    if match and (free := int(match[1]) >> 10) < takes:
        raise BadInput(
            f"{move.guest} takes {takes} MiB of memory, and {move.to.name} has {free} MiB to give",
            hint=f"end what takes memory there, or give it less: guest @{move.guest} set memory=",
        )
