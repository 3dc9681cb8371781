"""Holds frames between two links of one namespace: delay, jitter, loss, and a rate if need be.

Run as a program: `relay.py LINK LINK JSON FILE`. JSON is an object with what is asked, in seconds,
bits per second and parts of 1. FILE gets the number of this process, and is locked for as long as
it runs, however it ends. Frames are handed on as they are, the large ones of segmentation offload
whole, so that both ends see one network and one round trip. Each waits from the moment that the
kernel got it. It runs as root, on the standard library.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import json
import os
import random
import select
import socket
import struct
import sys
import time
from collections import deque
from contextlib import suppress

# Of linux/if_packet.h, asm-generic/socket.h and linux/prctl.h.
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
SO_TIMESTAMPNS, SO_RCVBUFFORCE, SO_SNDBUFFORCE = 35, 33, 32
PR_SET_TIMERSLACK = 29
EVERY_PROTOCOL = 3
HEADER = 10
"""The bytes before each frame that say how it is to be segmented (struct virtio_net_hdr)."""
LONGEST = HEADER + 65_536 + 64
STAMP = struct.Struct("@qq")
ANCILLARY = socket.CMSG_SPACE(STAMP.size)
BATCH = 64
BUFFER = 32 << 20
LONGEST_QUEUE = 0.05
"""Seconds that a frame may wait for its turn at a rate; what would wait longer is dropped."""
PRIORITY = 2


class Direction:
    """One direction: what is read at `source` leaves at `sink` when it is due."""

    def __init__(
        self, source: socket.socket, sink: socket.socket, figures: dict[str, float]
    ) -> None:
        self.source, self.sink = source, sink
        self.held: deque[tuple[float, bytes]] = deque()
        self.free = self.last = 0.0
        self.delay, self.jitter = figures["delay"], figures["jitter"]
        self.loss, self.rate = figures["loss"], figures["rate"]

    def take(self) -> None:
        """Read what has come, up to a batch."""
        receive, hold, moment = self.source.recvmsg, self.hold, time.time()
        with suppress(OSError):  # nothing more, or a kind of frame that the kernel cannot describe
            for _ in range(BATCH):
                frame, notes, _, _ = receive(LONGEST, ANCILLARY, socket.MSG_DONTWAIT)
                seconds, nano = STAMP.unpack(notes[0][2]) if notes else (int(moment), 0)
                hold(frame, min(seconds + nano * 1e-9, time.time()))

    def hold(self, frame: bytes, came: float) -> None:
        """Keep a frame until it is due, in the order in which they came."""
        if self.loss and random.random() < self.loss:
            return
        if self.rate:
            turn = max(self.free, came)
            if turn - came > LONGEST_QUEUE:
                return
            came = self.free = turn + 8 * (len(frame) - HEADER) / self.rate
        due = came + self.delay
        if self.jitter:
            due += random.uniform(-self.jitter, self.jitter)
        self.last = due if due > self.last or self.last - due > 60 else self.last
        self.held.append((self.last, frame))

    def give(self) -> None:
        """Send what is due."""
        queue, send = self.held, self.sink.send
        while queue and queue[0][0] <= time.time():
            with suppress(OSError):  # no room in the queue behind, or the link is down: it is lost
                send(queue[0][1])
            queue.popleft()

    def wait(self, moment: float) -> float:
        """Seconds for which nothing has to be sent; a clock that was set back ends no wait."""
        return min(max(self.held[0][0] - moment, 0.0), 1.0) if self.held else 3600.0


def opened(link: str) -> socket.socket:
    """A socket that sees each frame that comes in at `link`, and none that goes out."""
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    packets.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    packets.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    packets.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    sizes = ((SO_RCVBUFFORCE, socket.SO_RCVBUF), (SO_SNDBUFFORCE, socket.SO_SNDBUF))
    for size, usual in sizes:
        try:
            packets.setsockopt(socket.SOL_SOCKET, size, BUFFER)
        except PermissionError:  # root of a user namespace has what the machine allows to all
            packets.setsockopt(socket.SOL_SOCKET, usual, BUFFER)
    packets.bind((link, EVERY_PROTOCOL))
    return packets


def prompt() -> None:
    """Woken before anything else on this machine, where that is allowed."""
    gc.disable()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))


def main(near: str, far: str, figures: str, file: str) -> None:
    """Relay until ended."""
    prompt()
    near_end, far_end = ends = opened(near), opened(far)
    asked = json.loads(figures)
    ways = (Direction(near_end, far_end, asked), Direction(far_end, near_end, asked))
    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(lock, f"{os.getpid()}\n".encode())
    print("ready", flush=True)
    while True:
        moment = time.time()
        pause = min(way.wait(moment) for way in ways)
        came, _, _ = select.select(ends, (), (), pause)
        for way in ways:
            if way.source in came:
                way.take()
            way.give()


if __name__ == "__main__":
    main(*sys.argv[1:])
