"""Users of remote desktops, as a program for a client that has Python; they speak RFB (RFC 6143).

`_desktop_users.py` reads what to do as JSON and prints a line of JSON for the trial. A user
presses a key when it is due by a schedule drawn beforehand from a seed. The answer is there when
the first update has come that changes a region of the picture: at least `region` pixels at a place,
which no cursor has. A user whose answer is late presses the next key late; that one's time counts
from when it was due all the same. Where nobody presses keys the updates are counted: those are the
frames that the client sees. Pictures are taken, and none is drawn.
"""

from __future__ import annotations

import asyncio
import ctypes.util
import errno
import json
import random
import re
import struct
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

PROGRAMS = ("ss",)

GATE = 0.95
"""The share of answers that have to be there in time, rounded down to whole answers."""
LONGEST_THINK, PATIENCE = 5.0, 10.0
"""Times the mean pause, which none exceeds; times the limit, after which no answer is expected."""
NEXT, BACK = 0.6, 0.2
"""Shares of the keys that turn a page; the rest changes something and changes it back."""
LATE_PART, SATURATION = 0.25, 0.6
"""Users later than this part of a good answer's time, who are busier than that, decide."""
DRAG_SECONDS, REST_SECONDS = 1 / 30, 0.3
ENCODINGS = {"raw": (0,), "zrle": (16, 0), "tight": (7, -254, 0)}
"""Numbers that a client asks for, the best first. None loses a pixel: a server that sends JPEG
mends the picture later, and an update that mends it looks like one that changes it."""
PIXELS = struct.pack("!BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)


def des(key: bytes, data: bytes) -> bytes:
    """Encrypt as VNC does: DES, each byte of the key mirrored; thrice with one key is DES again.

    By the library that Python's own TLS uses: as a word of a command anybody could read the key.
    """
    crypto = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
    for name in ("EVP_CIPHER_CTX_new", "EVP_des_ede3_ecb"):
        getattr(crypto, name).restype = ctypes.c_void_p
    mirror = bytes(int(f"{byte:08b}"[::-1], 2) for byte in key)
    context = ctypes.c_void_p(crypto.EVP_CIPHER_CTX_new())
    out, length = ctypes.create_string_buffer(len(data) + 8), ctypes.c_int()
    cipher = ctypes.c_void_p(crypto.EVP_des_ede3_ecb())
    crypto.EVP_EncryptInit_ex(context, cipher, None, 3 * mirror, None)
    crypto.EVP_EncryptUpdate(context, out, ctypes.byref(length), data, len(data))
    crypto.EVP_CIPHER_CTX_free(context)
    return out.raw[: length.value]


@dataclass
class Screen:
    """A connection to one desktop."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    region: int
    size: Sequence[int] = (0, 0)
    received: int = 0
    updates: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    async def reach(cls, desktop: list[Any], encoding: str, region: int) -> Screen:
        """Shake hands, and say how pictures are to come."""
        address, port, password, *_ = desktop
        screen = cls(*await asyncio.open_connection(address, port, limit=1 << 22), region)
        await screen.take(12)
        screen.writer.write(b"RFB 003.008\n")
        await screen.take(*await screen.read("!B"))  # kinds of security: it has the one
        screen.writer.write(b"\x02")
        screen.writer.write(des(password.encode(), await screen.take(16)))
        if await screen.take(4) != bytes(4):
            raise ConnectionError("the desktop refused the password")
        screen.writer.write(b"\x01")
        *screen.size, length = await screen.read("!HH16xI")
        await screen.take(length)
        numbers = ENCODINGS[encoding]
        screen.writer.write(b"\0\0\0\0" + PIXELS)
        screen.writer.write(struct.pack(f"!BxH{len(numbers)}i", 2, len(numbers), *numbers))
        return screen

    async def take(self, count: int) -> bytes:
        """Read a number of bytes."""
        self.received += count
        return await self.reader.readexactly(count)

    async def read(self, form: str) -> tuple[int, ...]:
        """Read numbers of this form."""
        return struct.unpack(form, await self.take(struct.calcsize(form)))

    def press(self, keys: Sequence[int]) -> None:
        """Press keys together and let them go."""
        for down, key in [*((1, key) for key in keys), *((0, key) for key in reversed(keys))]:
            self.writer.write(struct.pack("!BBxxI", 4, down, key))

    def point(self, button: int, x: int, y: int) -> None:
        """Move the mouse, with a button held or not."""
        self.writer.write(struct.pack("!BBHH", 5, button, x, y))

    async def listen(self) -> None:
        """Take updates for ever, exactly one request under way; the first one is no change."""
        incremental = False
        while True:
            self.writer.write(struct.pack("!BBHHHH", 3, incremental, 0, 0, *self.size))
            if await self._update() >= self.region and incremental:
                self.updates += 1
                self.changed.set()
            incremental = True

    # One message; the largest rectangle of it in pixels, 0 where it brings no picture.
    async def _update(self) -> int:
        (kind,) = await self.read("!B")
        if kind == 3:
            await self.take(*await self.read("!3xI"))
        if kind:
            return 0
        (count,) = await self.read("!xH")
        return max([await self._rectangle() for _ in range(count)], default=0)

    async def _rectangle(self) -> int:
        *_, width, height, encoding = await self.read("!HHHHi")
        if encoding == 0:
            await self.take(4 * width * height)
        elif encoding == 16:
            await self.take(*await self.read("!I"))
        elif encoding == 7:
            await self._skip_tight(width, height)
        else:
            raise ConnectionError(f"the desktop sends encoding {encoding}, which was not asked for")
        return width * height

    # Tight: a fill or zlib, the last with a palette or without (rfbproto, 7.7.6).
    async def _skip_tight(self, width: int, height: int) -> None:
        control = (await self.read("!B"))[0] >> 4
        if control > 8:
            raise ConnectionError("the desktop sends JPEG, which was not asked for")
        size = 3 * width * height
        if control == 8:
            size = 3
        elif control & 4 and await self.read("!B") == (1,):
            colours = (await self.read("!B"))[0] + 1
            await self.take(3 * colours)
            size = (width + 7) // 8 * height if colours == 2 else width * height
        await self.take(size if size < 12 else await self._length())

    async def _length(self) -> int:
        length = 0
        for shift in (0, 7, 14):
            (byte,) = await self.read("!B")
            length |= (byte & (0x7F if shift < 14 else 0xFF)) << shift
            if not byte & 0x80:
                break
        return length


@dataclass(frozen=True)
class DesktopTask:
    """The fields are those of the JSON that the program reads."""

    desktops: list[Any]
    """Address, port and password of each, or why it did not come up: one for each user.
    At the end may stand where a program on that screen gets its pictures from, whose bytes count.
    """
    encoding: str
    hand: str
    """`keys` presses them, `drag` moves the mouse all the time, `watch` does nothing."""
    users: int
    seconds: float
    think: float
    good: float
    seed: int
    keys: dict[str, list[int]] = field(default_factory=dict)
    """Keysyms of `next`, `back`, `in` and `out`; several are pressed together."""
    region: int = 400
    warm_up: float = 0.0
    begin: float = 30.0
    """Seconds in which an application has to show its first picture."""
    settle: float = 0.7
    """Seconds without a new one, after which it is taken to wait for keys."""
    click: bool = False
    """Whether to click into it before."""


def schedule(task: DesktopTask, user: int) -> Iterator[tuple[float, str]]:
    """Draw the keys of a user and their moments until the trial ends: the same for a seed.

    Each changes the picture: none turns back before the first page, or asks twice for one size.
    """
    dice = random.Random(f"{task.seed} {user}")
    at, page, size = dice.uniform(0, task.think), 0, "out"
    while at < task.warm_up + task.seconds:
        draw = dice.random()
        if draw < NEXT or (draw < NEXT + BACK and not page):
            key, page = "next", page + 1
        elif draw < NEXT + BACK:
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
    late: list[float] = field(default_factory=list)
    """By how much keys were pressed late that waited for no answer."""
    bytes: int = 0
    frames: int = 0

    @property
    def plan(self) -> list[tuple[float, str]]:
        """The user's keys, with the moments when they are due."""
        return [*schedule(self.task, self.user)] if self.task.hand == "keys" else []

    async def open(self) -> None:
        """Connect, and wait for the application's first picture."""
        start, limit, desktop = time.monotonic(), self.task.begin, self.task.desktops[self.user]
        if isinstance(desktop, str):
            raise ConnectionError(desktop)
        reaching = Screen.reach(desktop, self.task.encoding, self.task.region)
        screen: Screen = await self._while_up(reaching, limit, "no answer")
        self.screen, self.listening = screen, asyncio.ensure_future(screen.listen())
        await self._while_up(screen.changed.wait(), limit, "no picture")
        self.opened = time.monotonic() - start
        # Keys go to the window below the pointer, where no manager of windows gives a focus.
        width, height = screen.size
        for button in (1, 0) if self.task.click else (0,):
            screen.point(button, width // 4, height // 2)
        await self._settle(screen, start + limit)

    # An application that waits for keys draws nothing more once it is there.
    async def _settle(self, screen: Screen, limit: float) -> None:
        picture = -1
        while picture != screen.updates:
            if time.monotonic() > limit:
                raise ConnectionError(f"no picture that stays in {self.task.begin:g} s")
            picture = screen.updates
            await asyncio.sleep(self.task.settle)
            picture = picture if self.task.hand == "keys" else screen.updates

    async def work(self, start: float) -> None:
        """Do what the hand does until the trial ends, counted from `start`."""
        assert self.screen
        await self._while_up(self._hand(self.screen, start))

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
            used_up = odd.errno in (errno.ENFILE, errno.EMFILE)
            self.failed = f"file descriptors used up: {odd}" if used_up else str(odd)

    async def close(self) -> None:
        """Leave the desktop."""
        if self.listening:
            self.listening.cancel()
            await asyncio.gather(self.listening, return_exceptions=True)
        if self.screen:
            self.screen.writer.transport.abort()

    # A part is over as soon as nobody listens any more: then the desktop is gone.
    async def _while_up(
        self, part: Coroutine[Any, Any, Any], limit: float | None = None, lacks: str = ""
    ) -> Any:
        doing = asyncio.ensure_future(part)
        tasks = [*filter(None, [self.listening]), doing]
        done, _ = await asyncio.wait(tasks, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        doing.cancel()
        if not done:
            raise ConnectionError(f"{lacks} in {limit:g} s")
        return [task.result() for task in tasks if task in done][-1]

    async def _hand(self, screen: Screen, trial_start: float) -> None:
        start = trial_start + self.task.warm_up
        end = start + self.task.seconds
        before = asyncio.ensure_future(self._count(screen, start))
        if self.task.hand == "keys":
            await self._press(screen, trial_start)
        elif self.task.hand == "drag":
            await self._drag(screen, end)
        updates, size = await self._count(screen, end)
        self.frames, self.bytes = updates - (await before)[0], size - (await before)[1]

    # The updates and bytes that came until then.
    async def _count(self, screen: Screen, moment: float) -> tuple[int, int]:
        await _until(moment)
        updates, (_, _, _, *source) = screen.updates, self.task.desktops[self.user]
        if not source:
            return updates, screen.received
        words = ("ss", "-tinH", "dst", *source)
        listing = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        text, _ = await listing.communicate()
        return updates, sum(map(int, re.findall(rb"bytes_received:(\d+)", text)))

    async def _press(self, screen: Screen, start: float) -> None:
        for due, key in self.plan:
            if time.monotonic() < start + due:
                await _until(start + due)
                self.late.append(time.monotonic() - start - due)
            screen.changed.clear()
            screen.press(self.task.keys[key])
            answer = asyncio.ensure_future(screen.changed.wait())
            await asyncio.wait({answer}, timeout=PATIENCE * self.task.good)
            if not answer.cancel() and due >= self.task.warm_up:
                self.times.append(time.monotonic() - start - due)

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


async def trial(task: DesktopTask) -> dict[str, Any]:
    """Run all users at the same time; one who fails has answers to none of the keys."""
    sessions = [DesktopSession(task, user) for user in range(task.users)]
    try:
        await asyncio.gather(*(session.guarded(session.open()) for session in sessions))
        start, cpu_start = time.monotonic(), time.process_time()
        await asyncio.gather(*(session.guarded(session.work(start)) for session in sessions))
        busy = (time.process_time() - cpu_start) / (time.monotonic() - start)
    finally:
        await asyncio.gather(*(session.close() for session in sessions))
    return _row(task, sessions, busy)


def _row(task: DesktopTask, sessions: Sequence[DesktopSession], busy: float) -> dict[str, Any]:
    times = [time for session in sessions if not session.failed for time in session.times]
    keys = sum(due >= task.warm_up for session in sessions for due, _ in session.plan)
    good = sum(time <= task.good for time in times)
    failures = Counter(session.failed for session in sessions if session.failed)
    late = [time for session in sessions for time in session.late]
    behind = sum(time > LATE_PART * task.good for time in late) / max(1, len(late))
    return {
        "users": len(sessions), "keys": keys, "good": good,
        "passed": not failures and good >= int(GATE * keys), "failed": dict(failures),
        "seconds": task.seconds, "frames": sum(session.frames for session in sessions),
        "bytes": sum(session.bytes for session in sessions), "busy": round(busy, 4),
        "opened": [round(session.opened, 4) for session in sessions if session.opened],
        "times": [round(time, 6) for time in sorted(times)],
        "late": round(max(late, default=0.0), 6), "behind": round(behind, 4),
    }  # fmt: skip


# A trial that failed for want of time here says nothing about the desktops.
def _refuse_own_fault(task: DesktopTask, row: dict[str, Any]) -> None:
    if not row["passed"] and row["late"] > LATE_PART * task.good and row["busy"] > SATURATION:
        raise SystemExit(
            f"the client saturates at {row['users']} users: it presses keys "
            f"{1000 * row['late']:.0f} ms late, and used {100 * row['busy']:.0f} % of a CPU"
        )


def main() -> None:
    """Print what a trial came to."""
    task = DesktopTask(**json.load(sys.stdin))
    row = asyncio.run(trial(task))
    _refuse_own_fault(task, row)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
