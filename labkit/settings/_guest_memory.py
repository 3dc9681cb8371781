"""Run on a host: reclaims or locks the memory of a guest, which is a file that processes share.

    reclaims PID DESCRIPTOR        every 0.2 s what can be taken goes to the disk, until PID ends
    locks PID DESCRIPTOR           none of it goes, until PID ends
    can-reclaims, can-locks        ends with 0 where this user may

It needs nothing but Python. The number of process_madvise(2) is the same on all kinds of CPU.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import sys
from collections.abc import Iterator

PROCESS_MADVISE, PAGEOUT = 440, 21
PERIOD = 0.2
READ, SHARED = 1, 1
NOWHERE = ctypes.c_void_p(-1).value
LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S{3}s ([0-9a-f]+) \S+ (\d+)")
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Piece(ctypes.Structure):
    """A piece of memory, as the kernel wants it told (struct iovec)."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def named(name: str) -> None:
    """Be called so in lists of processes."""
    with open("/proc/self/comm", "w") as comm:
        comm.write(name)


def insisted(done: int, what: str) -> None:
    """End with what the kernel says when it refuses."""
    if done < 0:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


def pieces(pid: int, inode: int) -> Iterator[tuple[int, int, int]]:
    """Where the process has the file in its memory: start, length, and offset in the file."""
    with open(f"/proc/{pid}/maps") as lines:
        for line in lines:
            if (found := LINE.match(line)) and int(found[4]) == inode:
                start, end, offset = (int(found[n], 16) for n in (1, 2, 3))
                yield start, end - start, offset


def page_out(process: int, start: int, length: int) -> int:
    """Ask the kernel to take these pages from the process."""
    piece = Piece(start, length)
    done: int = libc.syscall(PROCESS_MADVISE, process, ctypes.byref(piece), 1, PAGEOUT, 0)
    return done


def reclaims(pid: int, process: int, file: int) -> None:
    """Only clean pages can be taken, and none of those that are locked."""
    inode = os.fstat(file).st_ino
    named("labkit-memory")
    while not select.select([process], [], [], PERIOD)[0]:
        os.fsync(file)
        for start, length, _ in pieces(pid, inode):
            page_out(process, start, length)


def locks(pid: int, process: int, file: int) -> None:
    """What anybody has locked is taken from nobody."""
    ranges = [(offset, offset + length) for _, length, offset in pieces(pid, os.fstat(file).st_ino)]
    first, last = min(a for a, _ in ranges), max(b for _, b in ranges)
    at = libc.mmap(None, last - first, READ, SHARED, file, first)
    insisted(-1 if at == NOWHERE else libc.mlock(at, last - first), "mlock")
    named("labkit-memory")
    select.select([process], [], [])


def can(what: str) -> None:
    """Try it on a child, or on memory of our own."""
    if what == "can-locks":
        at = libc.mmap(None, 1 << 25, READ, SHARED | 0x20, -1, 0)
        insisted(libc.mlock(at, 1 << 25), "mlock")
        return
    child = os.fork()
    if not child:
        select.select([], [], [], 10)
        os._exit(0)
    try:
        insisted(page_out(os.pidfd_open(child), 0, 0), "process_madvise")
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def main(what: str, *where: str) -> None:
    """As the words say."""
    if what.startswith("can-"):
        return can(what)
    pid = int(where[0])
    process, file = os.pidfd_open(pid), os.open(f"/proc/{pid}/fd/{where[1]}", os.O_RDWR)
    {"reclaims": reclaims, "locks": locks}[what](pid, process, file)


if __name__ == "__main__":
    main(*sys.argv[1:4])
