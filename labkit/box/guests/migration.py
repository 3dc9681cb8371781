"""Live migration: a guest of QEMU goes from one host of a box to another while it runs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labkit.box import needs
from labkit.box.folder import Folder, not_up, up_again
from labkit.box.guests.moving import (
    AS_IT_COMES,
    ENDS,
    Hears,
    Move,
    Moving,
    WatchedMove,
    arrived,
    check_fit,
    copied,
    disks_of,
    exports,
    in_network,
    prepare_disks,
)  # fmt: skip
from labkit.box.layout import Layout
from labkit.box.network.links import (
    UPLINK,
    VSWITCH,
    Wire,
    at_arrival,
    at_departure,
    at_switch_for,
    wires,
)
from labkit.box.network.shaping import Crossing
from labkit.box.processes import run
from labkit.box.status import in_force, stands
from labkit.box.view import GUESTS
from labkit.errors import BadInput, BoxError, EndedAfterMove, LabkitError, StayedBehind, Unknown
from labkit.host import Host
from labkit.lab import opened
from labkit.machine.cpus import ranges
from labkit.machine.scripts import beside

PROGRAMS = ("mount", "nsenter")

FIRST_PORT = 49152
CANCEL_SECONDS = 10.0
BANDWIDTH = re.compile(r"([1-9]\d{0,5}) ?([kMG])(?:bit/s)?", re.ASCII)
DOWNTIME = re.compile(r"(\d{1,6}) ?ms", re.ASCII)
POWERS = {"k": 1e3, "M": 1e6, "G": 1e9}
ARRIVAL = beside(__file__, "migration_arrival.sh")
FORGET = """\
cd /run/labkit && rm -rf "guests/$1" || exit
rmdir guests 2> /dev/null && rm -f bin/guest bin/guest.* bin/guest_*
true"""


@dataclass(frozen=True)
class Migration:
    """The cost of a migration, by QEMU's own figures."""

    guest: str
    origin: str
    to: str
    total_ms: int
    downtime_ms: int
    """From the guest's last instruction here to its first there."""
    bytes: int
    """Of memory and devices, sent over the data network."""
    rounds: int
    """Number of passes through memory."""
    bandwidth: str
    downtime: str


def migrate(
    name: str,
    guest: str,
    *,
    to: str,
    bandwidth: str = "",
    downtime: str = "",
    patience: float = 10.0,
    how: Moving = AS_IT_COMES,
    hears: Hears = lambda _: None,
) -> Migration:
    """Move `guest` of box `name` to the host `to`; where that fails it goes on where it was.

    `bandwidth` ("100M", bits a second) and `downtime` ("300 ms") are QEMU's limits. When nothing
    gets through for `patience` seconds the move is given up. `hears` gets what can be seen of it.
    """
    limits = how.limits | _limits(bandwidth, downtime)
    folder = Folder(name)
    if not needs.is_root():
        raise BoxError("migrating a guest of a box needs root", hint="use sudo")
    if not stands(name):
        raise not_up(name)
    with folder.locked(lambda _: None), opened(folder.lab) as lab:
        settled(folder)
        layout = Layout.from_json(folder.layout.read_text())
        new_layout = _check(folder, layout, guest, to)
        move = Move(folder, lab, layout, new_layout, guest, how, hears, patience)
        check_fit(move)
        with _hold_note(move):
            facts = _move(move, limits)
            _leave(move)
        return Migration(
            guest, layout.on(guest), to, facts["total-time"], facts["downtime"],
            facts["transferred"], facts["dirty-sync-count"], bandwidth, downtime,
        )  # fmt: skip


def settle(name: str) -> str:
    """Settle a move whose caller was killed before it ended; return the guest's host, or ""."""
    folder = Folder(name)
    if not _note(folder).exists():
        return ""
    with folder.locked(lambda _: None):
        return settled(folder)


# QEMU goes on without us: the guest has arrived, or it stays.
def settled(folder: Folder) -> str:
    """The same, by one who has locked the box."""
    note = _note(folder)
    if not note.exists():
        return ""
    content, now = json.loads(note.read_text()), Layout.from_json(folder.layout.read_text())
    guest, to = str(content["guest"]), str(content["to"])
    if now.on(guest) == to:
        note.unlink(missing_ok=True)
        return to
    new_layout, patience = _check(folder, now, guest, to), CANCEL_SECONDS
    try:
        with opened(folder.lab) as lab:
            move = Move(folder, lab, now, new_layout, guest, AS_IT_COMES, lambda _: None, patience)
            if _has_arrived(move):
                _leave(move)
                return to
            _stay(move, _new_wires(move))
            return now.on(guest)
    finally:
        note.unlink(missing_ok=True)


def _note(folder: Folder) -> Path:
    return folder.path / "moving.json"


# As long as it is there, a move is under way or was cut off with its controller.
@contextmanager
def _hold_note(move: Move) -> Iterator[None]:
    note = _note(move.folder)
    move.folder.write(note, json.dumps({"guest": move.guest, "to": move.to.name}))
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def _has_arrived(move: Move) -> bool:
    with suppress(LabkitError):
        before = move.qmp(move.origin, "query-status")["status"]
        after = move.qmp(move.to, "query-status")["status"]
        return bool(before == "postmigrate" and after == "running")
    return False


def _limits(bandwidth: str, downtime: str) -> dict[str, int]:
    limits: dict[str, int] = {}
    if bandwidth:
        if not (rate := BANDWIDTH.fullmatch(bandwidth)):
            raise BadInput(f"{bandwidth!r} is not a bandwidth", hint='"100M" is 100 Mbit/s')
        limits["max-bandwidth"] = int(int(rate[1]) * POWERS[rate[2]] / 8)
    if downtime:
        if not (span := DOWNTIME.fullmatch(downtime)):
            raise BadInput(f"{downtime!r} is not a downtime", hint='write it as "300ms"')
        limits["downtime-limit"] = int(span[1])
    return limits


def _check(folder: Folder, layout: Layout, guest: str, to: str) -> Layout:
    if guest not in layout.guests:
        raise Unknown(f"guest of box {layout.name}", guest, layout.guests)
    if to not in layout.hosts:
        raise Unknown(f"host of box {layout.name}", to, layout.hosts)
    if layout.plan(guest).accelerator == "uml":
        raise BadInput(
            f"{guest} is a guest of User-Mode Linux, which cannot be migrated",
            hint="labkit box up migration: its guest is one of QEMU",
        )
    if layout.on(guest) == to:
        raise BadInput(
            f"{guest} is on {to} already", hint="labkit box status shows where each guest is"
        )
    if to in {link.role for link in in_force(folder)}:
        raise BadInput(
            f"the link of {to} is shaped, and the migration would undo that",
            hint="put its link back first, or shape the link of the host it leaves",
        )
    plans = tuple(replace(p, on=to) if p.role == guest else p for p in layout.topology.guests)
    return replace(layout, topology=replace(layout.topology, guests=plans))


def _move(move: Move, limits: dict[str, int]) -> dict[str, Any]:
    new = _new_wires(move)
    try:
        _prepare(move, new)
        with _cross(move) as at:
            return _across(move, limits, at)
    except EndedAfterMove:
        _leave(move)
        raise
    except BaseException as error:
        _stay(move, new)
        if isinstance(error, LabkitError):
            kind = StayedBehind if isinstance(error, StayedBehind) else BoxError
            raise kind(
                f"{move.guest} was not migrated, and stays on {move.origin.name}",
                said=error.said or str(error), hint=error.hint,
            ) from error  # fmt: skip
        raise


# The address of the destination, on a link of its own if one is asked for.
@contextmanager
def _cross(move: Move) -> Iterator[str]:
    link = move.how.link(move.to.name)
    if link is None:
        yield move.then.data(move.to.name)
        return
    pids = {role: move.pid(role) for role in ("switch", move.origin.name, move.to.name)}
    crossing = Crossing(move.folder.name, pids, move.origin.name, move.to.name)
    with crossing.made(link) as address:
        yield address


def _across(move: Move, limits: dict[str, int], address: str) -> dict[str, Any]:
    at = f"{address}:{FIRST_PORT + move.now.number(move.guest)}"
    settings = [("migrate-set-capabilities", move.how.able), ("migrate-set-parameters", limits)]
    for command, arguments in settings:
        move.qmp(move.origin, command, **arguments)
    first = [*settings, *exports(move, address)]
    words = [word for command, arguments in first for word in (command, json.dumps(arguments))]
    move.to.check("guest", f"@{move.guest}", "receive", at, *words)
    watch = WatchedMove(move.hears)
    with (
        watch.on(move.origin, move.guest, *disks_of(move)),
        watch.on(move.to, move.guest),
        copied(move, address),
    ):
        move.qmp(move.origin, "migrate", uri=f"tcp:{at}")
        return arrived(move, watch)


# Those of the guest exist for its present host as well: until it is gone they have other names.
def _new_wires(move: Move) -> dict[str, Wire]:
    text = in_network(move.pid("switch"), "", "-o", "link")
    ends, old = set(re.findall(r"^\d+: ([^@:]+)", text, re.MULTILINE)), set(wires(move.now))
    prefix = f"g{move.now.seat(move.guest)}-"
    new = [wire for wire in wires(move.then) if wire not in old]
    own = {f"m{wire.near}": wire for wire in new if wire.near.startswith(prefix)}
    return own | {wire.near: wire for wire in new
                  if wire.near not in ends and not wire.near.startswith(prefix)}  # fmt: skip


def _prepare(move: Move, new: dict[str, Wire]) -> None:
    origin, to = (move.pid(host.name) for host in (move.origin, move.to))
    for near, wire in new.items():
        move.switch(f"{at_switch_for(wire, near, to)}\n")
    first = any(wire.far == UPLINK for wire in new.values())
    in_network(to, at_arrival(move.then, move.guest, first))
    run_here, run_there = (Path(f"/proc/{pid}/root/run") for pid in (origin, to))
    (run_there / GUESTS).mkdir(parents=True, exist_ok=True)
    (run_there / "labkit/bin").mkdir(exist_ok=True)
    command = sorted((run_here / "labkit/bin").glob("guest*"))
    run(["cp", "-a", *map(str, command), str(run_there / "labkit/bin")])
    run(["cp", "-a", str(run_here / GUESTS / move.guest), str(run_there / GUESTS / move.guest)])
    cpus = ranges(move.then.cpus_of(move.guest))
    move.to.check("sh", "-c", ARRIVAL, "arrival", move.guest, cpus)
    prepare_disks(move)


def _stay(move: Move, new: dict[str, Wire]) -> None:
    try:
        with suppress(LabkitError):
            move.to.run("guest", f"@{move.guest}", "stop")
        _go_on(move)
    finally:
        _clear(move, new)


# What was made at the destination for it.
def _clear(move: Move, new: dict[str, Wire]) -> None:
    _forget(move.to, move.guest)
    to = move.pid(move.to.name)
    with suppress(BoxError):
        in_network(to, at_departure(move.then, move.guest), "-force")
    with suppress(BoxError):
        move.switch("".join(f"link delete {near}\n" for near in new), "-force")
    if any(wire.far == UPLINK for wire in new.values()):
        with suppress(BoxError):
            in_network(to, f"link delete {VSWITCH}\n")


# The one that was to receive it is gone by now.
def _go_on(move: Move) -> None:
    until = time.monotonic() + CANCEL_SECONDS
    while move.qmp(move.origin, "query-migrate").get("status", "none") not in ("none", *ENDS):
        move.qmp(move.origin, "migrate_cancel")
        if time.monotonic() > until:
            raise BoxError(
                f"{move.guest} was cut off in post-copy: its memory is on both hosts",
                hint=up_again(move.folder.name),
            )
        time.sleep(0.05)
    if move.qmp(move.origin, "query-status")["status"] != "running":
        move.qmp(move.origin, "cont")


def _leave(move: Move) -> None:
    move.origin.check("guest", f"@{move.guest}", "stop")
    _forget(move.origin, move.guest)
    in_network(move.pid(move.origin.name), at_departure(move.now, move.guest))
    port = f"g{move.now.seat(move.guest)}"
    for near in (f"{port}-c", f"{port}-d"):
        move.switch(
            f"link delete {near}\nlink set m{near} down\n"
            f"link set m{near} name {near}\nlink set {near} up\n"
        )
    move.folder.write(move.folder.layout, move.then.to_json())


def _forget(host: Host, guest: str) -> None:
    host.check("sh", "-c", FORGET, "forget", guest)
