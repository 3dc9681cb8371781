"""Users of remote desktops, as a program for a client that has Python; they speak RFB (RFC 6143).

`_desktop_users.py` reads what to do as JSON and prints a line of JSON for each trial. A user
presses a key when it is due by a schedule drawn beforehand from a seed. The answer is there when
the first update has come that changes a region of the picture: at least `region` pixels at a place,
which no cursor has. A user whose answer is late presses the next key late; that one's time counts
from when it was due all the same. Where nobody presses keys the updates are counted: those are the
frames that the client sees.
"""

from __future__ import annotations

import asyncio
import ctypes
import ctypes.util
import json
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

GATE = 0.95
"""The share of answers that have to be there in time, rounded down to whole answers."""
LONGEST_THINK, PATIENCE = 5.0, 10.0
"""Times the mean pause, which none exceeds; times the limit, after which no answer is expected."""
ENCODINGS = {"raw": (0,), "zrle": (16, 0), "tight": (7, -254, 0)}
"""Numbers that a client asks for, the best first. None loses a pixel: a server that sends JPEG
mends the picture later, and an update that mends it looks like one that changes it."""
KEYS = {"next": 0x2E, "back": 0x2C, "in": 0x2B, "out": 0x2D}
"""Keysyms of a PDF viewer: . and , turn pages, + and - change the size."""
NEXT, BACK = 0.6, 0.2
"""Shares of the keys that turn a page; the rest changes its size."""
DRAG_SECONDS, SETTLE_SECONDS, REST_SECONDS = 1 / 30, 0.7, 0.3
VNC_AUTH = 2
PIXELS = struct.pack("!BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)


@dataclass(frozen=True)
class DesktopTask:
    """The fields are those of the JSON that the program reads."""

    desktops: list[list[Any]]
    """Address, port and password of each: one for each user there can be."""
    encoding: str
    hand: str
    """`keys` presses them, `drag` moves the mouse all the time, `watch` does nothing."""
    users: list[int]
    """Numbers of users, tried in turn until one fails."""
    seconds: float
    think: float
    good: float
    seed: int
    region: int = 400
    warm_up: float = 0.0
    begin: float = 30.0
    """Seconds in which an application has to show its first picture."""


def des(key: bytes, data: bytes) -> bytes:
    """Encrypt as VNC does: DES, each byte of the key mirrored; thrice with one key is DES again.

    By the library that Python's own TLS uses: as a word of a command anybody could read the key.
    """
    crypto = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
    for name in ("EVP_CIPHER_CTX_new", "EVP_des_ede3_ecb"):
        getattr(crypto, name).restype = ctypes.c_void_p
    mirrored = bytes(int(f"{byte:08b}"[::-1], 2) for byte in key)
    context = ctypes.c_void_p(crypto.EVP_CIPHER_CTX_new())
    out, length = ctypes.create_string_buffer(len(data) + 8), ctypes.c_int()
    cipher = ctypes.c_void_p(crypto.EVP_des_ede3_ecb())
    crypto.EVP_EncryptInit_ex(context, cipher, None, 3 * mirrored, None)
    crypto.EVP_EncryptUpdate(context, out, ctypes.byref(length), data, len(data))
    crypto.EVP_CIPHER_CTX_free(context)
    return out.raw[: length.value]


@dataclass
class Screen:
    """A connection to one desktop."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    region: int
    size: tuple[int, int] = (0, 0)
    received: int = 0
    updates: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    async def reach(cls, desktop: list[Any], encoding: str, region: int) -> Screen:
        """Shake hands, and say how pictures are to come."""
        address, port, password = desktop
        screen = cls(*await asyncio.open_connection(address, port, limit=1 << 22), region)
        await screen.take(12)
        screen.writer.write(b"RFB 003.008\n")
        kinds = await screen.take((await screen.take(1))[0])
        if VNC_AUTH not in kinds:
            raise ConnectionError(f"the desktop has no password (security types {[*kinds]})")
        screen.writer.write(bytes([VNC_AUTH]))
        screen.writer.write(des(password.encode(), await screen.take(16)))
        if await screen.take(4) != bytes(4):
            raise ConnectionError("the desktop refused the password")
        screen.writer.write(b"\x01")
        width, height = struct.unpack("!HH", await screen.take(4))
        screen.size = width, height
        await screen.take(struct.unpack("!16xI", await screen.take(20))[0])
        numbers = ENCODINGS[encoding]
        screen.writer.write(b"\0\0\0\0" + PIXELS)
        screen.writer.write(struct.pack(f"!BxH{len(numbers)}i", 2, len(numbers), *numbers))
        return screen

    async def take(self, count: int) -> bytes:
        """Read a number of bytes."""
        self.received += count
        return await self.reader.readexactly(count)

    def ask(self, incremental: bool) -> None:
        """Ask for the next update: exactly one request is under way."""
        self.writer.write(struct.pack("!BBHHHH", 3, incremental, 0, 0, *self.size))

    def press(self, key: str) -> None:
        """Press a key and let it go."""
        for down in (1, 0):
            self.writer.write(struct.pack("!BBxxI", 4, down, KEYS[key]))

    def point(self, button: int, x: int, y: int) -> None:
        """Move the mouse, with a button held or not."""
        self.writer.write(struct.pack("!BBHH", 5, button, x, y))

    async def listen(self) -> None:
        """Take updates for ever, and ask for the next each time; the first one is no change."""
        self.ask(False)
        await self.update()
        while True:
            self.ask(True)
            if await self.update() >= self.region:
                self.updates += 1
                self.changed.set()

    async def update(self) -> int:
        """One message; the largest rectangle of it in pixels, 0 where it brings no picture."""
        kind = (await self.take(1))[0]
        if kind == 3:
            await self.take(struct.unpack("!3xI", await self.take(7))[0])
        elif kind == 1:
            raise ConnectionError("the desktop sends a palette, which was not asked for")
        if kind != 0:
            return 0
        largest = 0
        for _ in range(struct.unpack("!xH", await self.take(3))[0]):
            *_, width, height, encoding = struct.unpack("!HHHHi", await self.take(12))
            await self._skip(encoding, width, height)
            largest = max(largest, width * height)
        return largest

    async def _skip(self, encoding: int, width: int, height: int) -> None:
        if encoding == 0:
            await self.take(4 * width * height)
        elif encoding == 16:
            await self.take(struct.unpack("!I", await self.take(4))[0])
        elif encoding == 7:
            await self._skip_tight(width, height)
        else:
            raise ConnectionError(f"the desktop sends encoding {encoding}, which was not asked for")

    # Tight: a fill or zlib, the last with a palette or without (rfbproto, 7.7.6).
    async def _skip_tight(self, width: int, height: int) -> None:
        control = (await self.take(1))[0] >> 4
        if control == 8:
            await self.take(3)
            return
        if control > 8:
            raise ConnectionError("the desktop sends JPEG, which was not asked for")
        size, filtered = 3 * width * height, control & 4
        if filtered and (await self.take(1))[0] == 1:
            colours = (await self.take(1))[0] + 1
            await self.take(3 * colours)
            size = (width + 7) // 8 * height if colours == 2 else width * height
        await self.take(size if size < 12 else await self._length())

    async def _length(self) -> int:
        length = 0
        for shift in (0, 7, 14):
            byte = (await self.take(1))[0]
            length |= (byte & (0x7F if shift < 14 else 0xFF)) << shift
            if not byte & 0x80:
                break
        return length


def schedule(task: DesktopTask, user: int) -> Iterator[tuple[float, str]]:
    """Draw the keys of a user and their moments until the trial ends: the same for a seed.

    Each changes the picture: none turns back before the first page, or asks twice for one size.
    """
    dice = random.Random(f"{task.seed} {user}")
    at, page, size = dice.uniform(0, task.think), 0, "out"
    while at < task.warm_up + task.seconds:
        drawn = dice.random()
        if drawn < NEXT or (drawn < NEXT + BACK and not page):
            key, page = "next", page + 1
        elif drawn < NEXT + BACK:
            key, page = "back", page - 1
        else:
            key = size = "in" if size == "out" else "out"
        yield at, key
        at += min(dice.expovariate(1 / task.think), LONGEST_THINK * task.think)


@dataclass
class DesktopSession:
    """A user at a desktop, from the connection until both are closed."""

    task: DesktopTask
    user: int
    screen: Screen | None = None
    listening: asyncio.Future[None] | None = None
    opened: float = 0.0
    """Seconds until the application's first picture was there."""
    failed: str = ""
    times: list[float] = field(default_factory=list)
    bytes: int = 0
    frames: int = 0

    @property
    def plan(self) -> list[tuple[float, str]]:
        """The user's keys, with the moments when they are due."""
        return [*schedule(self.task, self.user)] if self.task.hand == "keys" else []

    async def open(self) -> None:
        """Connect, and wait for the application's first picture."""
        begun = time.monotonic()
        desktop = self.task.desktops[self.user]
        self.screen = await Screen.reach(desktop, self.task.encoding, self.task.region)
        self.listening = asyncio.ensure_future(self.screen.listen())
        picture = asyncio.ensure_future(self.screen.changed.wait())
        await self._while_up(picture, self.task.begin)
        if not picture.done():
            raise ConnectionError(f"no picture in {self.task.begin:g} s")
        self.opened = time.monotonic() - begun
        # Keys go to the window below the pointer, where no manager of windows gives a focus.
        width, height = self.screen.size
        self.screen.point(0, width // 4, height // 2)
        await asyncio.sleep(SETTLE_SECONDS)

    async def work(self, begun: float) -> None:
        """Do what the hand does until the trial ends, counted from `begun`."""
        if self.screen:
            await self._while_up(asyncio.ensure_future(self._hand(self.screen, begun)), None)

    async def guarded(self, part: Coroutine[Any, Any, None]) -> None:
        """Run a part of it; a session that fails says why, and does no more."""
        try:
            if self.failed:
                part.close()
            else:
                await part
        except asyncio.IncompleteReadError:
            self.failed = "the desktop ended in mid-session"
        except OSError as odd:
            self.failed = str(odd)

    async def close(self) -> None:
        """Leave the desktop."""
        if self.listening:
            self.listening.cancel()
            await asyncio.gather(self.listening, return_exceptions=True)
        if self.screen:
            self.screen.writer.transport.abort()

    async def _while_up(self, doing: asyncio.Future[Any], limit: float | None) -> None:
        assert self.listening
        both: set[asyncio.Future[Any]] = {self.listening, doing}
        await asyncio.wait(both, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if self.listening.done():
            doing.cancel()
            self.listening.result()
        if doing.done():
            doing.result()
        else:
            doing.cancel()

    async def _hand(self, screen: Screen, begun: float) -> None:
        await _until(begun + self.task.warm_up)
        seen, taken = screen.updates, screen.received
        end = begun + self.task.warm_up + self.task.seconds
        if self.task.hand == "keys":
            await self._press(screen, begun)
        elif self.task.hand == "drag":
            await self._drag(screen, end)
        await _until(end)
        self.frames, self.bytes = screen.updates - seen, screen.received - taken

    async def _press(self, screen: Screen, begun: float) -> None:
        for due, key in self.plan:
            await _until(begun + due)
            screen.changed.clear()
            screen.press(key)
            answer = asyncio.ensure_future(screen.changed.wait())
            await asyncio.wait({answer}, timeout=PATIENCE * self.task.good)
            if not answer.cancel() and due >= self.task.warm_up:
                self.times.append(time.monotonic() - begun - due)

    # To and fro over the middle of the picture.
    async def _drag(self, screen: Screen, end: float) -> None:
        width, height = screen.size
        turn = 0
        while time.monotonic() < end - REST_SECONDS:
            swing = abs(turn % 60 - 30) * width // 120
            screen.point(1, width // 4 + swing, height // 2)
            turn += 1
            await asyncio.sleep(DRAG_SECONDS)
        screen.point(0, width // 4, height // 2)


async def _until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))


async def trial(task: DesktopTask, users: int) -> dict[str, Any]:
    """Run a number of users at the same time; one who fails has answers to none of the keys."""
    sessions = [DesktopSession(task, user) for user in range(users)]
    try:
        await asyncio.gather(*(session.guarded(session.open()) for session in sessions))
        begun, spent = time.monotonic(), time.process_time()
        await asyncio.gather(*(session.guarded(session.work(begun)) for session in sessions))
        busy = (time.process_time() - spent) / (time.monotonic() - begun)
    finally:
        await asyncio.gather(*(session.close() for session in sessions))
    return _row(task, sessions, busy)


def _row(task: DesktopTask, sessions: Sequence[DesktopSession], busy: float) -> dict[str, Any]:
    times = [time for session in sessions if not session.failed for time in session.times]
    keys = sum(due >= task.warm_up for session in sessions for due, _ in session.plan)
    good = sum(time <= task.good for time in times)
    failed = Counter(session.failed for session in sessions if session.failed)
    return {
        "users": len(sessions), "keys": keys, "good": good,
        "passed": not failed and good >= int(GATE * keys), "failed": dict(failed),
        "seconds": task.seconds, "frames": sum(session.frames for session in sessions),
        "bytes": sum(session.bytes for session in sessions), "busy": round(busy, 4),
        "opened": [round(session.opened, 4) for session in sessions if session.opened],
        "times": [round(time, 6) for time in sorted(times)],
    }  # fmt: skip


def main(words: str) -> None:
    """Print each trial as it ends; after one that fails there are no more."""
    task = DesktopTask(**json.loads(words))
    for users in task.users:
        row = asyncio.run(trial(task, users))
        print(json.dumps(row), flush=True)
        if not row["passed"]:
            return


if __name__ == "__main__":
    main(sys.stdin.read())
