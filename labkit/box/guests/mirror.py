"""A moving guest's disks, copied to storage of the destination's own while the guest writes.

What QEMU on the destination exports by NBD, QEMU on the origin mirrors to, until the guest stands
still; as libvirt does with --copy-storage-all. But memory begins to move when little is left.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from labkit.box.guests import disk
from labkit.box.guests.disk import SEEN_BY_HOSTS, device
from labkit.box.guests.move import Move
from labkit.errors import BoxError

PORT = 10809
PIECE = 256 << 10
"""Bytes. QEMU sends sixteen pieces before it waits for an answer: small ones fill no long way."""
LITTLE = 16 * PIECE
"""Over a long way a guest that writes leaves some to copy always, until it stands still."""
READY_SECONDS = 600.0
# The shared storage holds a folder for each host that pretends to have its own.
RELOCATE = 'sed -i "s|^\\(disk[0-9]*\\)=$2/$1[^/]*/|\\1=$2/$3/|" "/run/labkit/guests/$1/wires"'


def devices(move: Move) -> list[str]:
    """The disks that move, by the name that the guest has for each."""
    plan = move.now.plan(move.guest)
    numbers = range(len(plan.volumes)) if move.how.disks else []
    return [device(number, plan.accelerator) for number in numbers]


def prepare(move: Move) -> None:
    """Give the destination empty disks of its own."""
    if not devices(move):
        return
    plan, folder = move.now.plan(move.guest), f"{move.guest}-{move.to.name}"
    if not (move.folder.disks / folder).exists():
        uid = move.now.uid(move.guest)
        disk.make(move.folder.disks / folder, plan.volumes, plan.accelerator, uid)
    move.to.check("sh", "-c", RELOCATE, "elsewhere", move.guest, SEEN_BY_HOSTS, folder)


def received(move: Move, address: str) -> list[tuple[str, dict[str, Any]]]:
    """The commands for the destination, before the guest comes."""
    names = devices(move)
    if not names:
        return []
    at = {"type": "inet", "data": {"host": address, "port": str(PORT)}}
    exports = [("nbd-server-add", {"device": name, "writable": True}) for name in names]
    return [("nbd-server-start", {"addr": at}), *exports]


@contextmanager
def copied(move: Move, address: str) -> Iterator[None]:
    """The disks are copied as they are, and from then on what is written goes to both."""
    names = devices(move)
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
