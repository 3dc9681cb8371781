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
ELSEWHERE = 'sed -i "s|^\\(disk[0-9]*\\)=$2/$1[^/]*/|\\1=$2/$3/|" "/run/labkit/guests/$1/wires"'


def devices(move: Move) -> list[str]:
    """The disks that move, by the name that the guest has for each."""
    plan = move.now.plan(move.guest)
    each = range(len(plan.volumes)) if move.how.disks else []
    return [device(number, plan.accelerator) for number in each]


def prepare(move: Move) -> None:
    """Give the destination empty disks of its own."""
    if not devices(move):
        return
    plan, folder = move.now.plan(move.guest), f"{move.guest}-{move.to.name}"
    if not (move.folder.disks / folder).exists():
        uid = move.now.uid(move.guest)
        disk.make(move.folder.disks / folder, plan.volumes, plan.accelerator, uid)
    move.to.check("sh", "-c", ELSEWHERE, "elsewhere", move.guest, SEEN_BY_HOSTS, folder)


def received(move: Move, there: str) -> list[tuple[str, dict[str, Any]]]:
    """The commands for the destination, before the guest comes."""
    found = devices(move)
    if not found:
        return []
    at = {"type": "inet", "data": {"host": there, "port": str(PORT)}}
    added = [("nbd-server-add", {"device": name, "writable": True}) for name in found]
    return [("nbd-server-start", {"addr": at}), *added]


@contextmanager
def copied(move: Move, there: str) -> Iterator[None]:
    """The disks are copied as they are, and from then on what is written goes to both."""
    found = devices(move)
    for name in found:
        target = f"nbd:{there}:{PORT}:exportname={name}"
        asked = {"device": name, "target": target, "sync": "full", "mode": "existing"}
        move.qmp(move.origin, "drive-mirror", format="raw", granularity=PIECE, **asked)
    try:
        _until_little_is_left(move, found)
        yield
    except BaseException:
        if found:
            _cancelled(move, found)
        raise
    if found:
        move.qmp(move.to, "nbd-server-stop")


def _until_little_is_left(move: Move, found: list[str]) -> None:
    until, jobs = time.monotonic() + READY_SECONDS, []
    while found:
        jobs = move.qmp(move.origin, "query-block-jobs")
        if len(jobs) < len(found):
            raise BoxError("the copy of a disk has ended before the guest could move")
        for job in jobs:
            said = {key: job[key] for key in ("device", "len", "offset")}
            move.hears({"host": move.origin.name, "t": time.time(), "disk": said})
        if all(job["ready"] or 0 < job["len"] - LITTLE <= job["offset"] for job in jobs):
            return
        if time.monotonic() > until:
            raise BoxError(f"the disks were not copied within {READY_SECONDS:g} s")
        time.sleep(0.1)


def _cancelled(move: Move, found: list[str]) -> None:
    for job in move.qmp(move.origin, "query-block-jobs"):
        move.qmp(move.origin, "block-job-cancel", device=job["device"])
    until = time.monotonic() + move.patience
    while move.qmp(move.origin, "query-block-jobs"):
        if time.monotonic() > until:
            raise BoxError(f"the copies of {', '.join(found)} do not end")
        time.sleep(0.02)
