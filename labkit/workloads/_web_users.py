"""Users of a web, as a program for a client that has Python: how many of them does a server bear?

`_web_users.py JSON` prints a line of JSON for each trial. Each user has a schedule of pages, drawn
beforehand from a seed, that no answer delays: a page is asked for when it is due, on one more
connection if the one before is not there yet. Its time counts from when it was due until the last
byte of it and its images, so that no stall is overlooked. It needs only Python's own library.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import resource
import ssl
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

GOOD_SHARE, TOLERABLE_SHARE = 0.95, 0.99
"""The shares of pages that have to be good, and at least tolerable."""
LONGEST_THINK = 5.0
"""Times the mean, which no pause exceeds."""
LOOK_SECONDS = 0.05
LATE_PART, SATURATION = 0.25, 0.6
"""A generator that is later than this part of a good page's time, and busier than that, decides."""


WebConnection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Page(NamedTuple):
    """A page of a site (`_web_sites.toml`)."""

    bytes: int
    images: list[str]
    moves: dict[str, float]
    secure: bool = False


@dataclass(frozen=True)
class WebTask:
    """The work of the program; the fields are those of its JSON."""

    site: str
    pages: dict[str, dict[str, Any]]
    servers: list[list[Any]]
    """Address, port, and port of TLS of each; users are dealt out in turn."""
    identity: str
    """The certificate that the servers have to show, in PEM."""
    sessions: int
    """Users of the only trial; 0 searches for the most."""
    start: int
    step: float
    seconds: float
    warm_up: float
    think: float
    good: float
    tolerable: float
    seed: int
    most: int

    def page(self, name: str) -> Page:
        """A page of its site."""
        return Page(**self.pages[name])


class Due(NamedTuple):
    """A page of a user's schedule, `at` seconds after the beginning."""

    at: float
    name: str
    first: bool
    """Whether a visit begins, on connections of its own."""


def schedule(task: WebTask, user: int) -> Iterator[Due]:
    """The pages of a user until the trial ends: the same for a seed, whatever is answered."""
    dice = random.Random(f"{task.seed} {task.site} {user}")
    at, name, first = dice.uniform(0, task.think), "enter", True
    while at < task.warm_up + task.seconds:
        yield Due(at, name, first)
        at += min(dice.expovariate(1 / task.think), LONGEST_THINK * task.think)
        moves = task.page(name).moves
        first = dice.random() >= sum(moves.values())
        name = "enter" if first else dice.choices([*moves], [*moves.values()])[0]


# Ask for a path; return the bytes of the answer.
async def _get(connection: WebConnection, path: str) -> int:
    reader, writer = connection
    writer.write(f"GET {path} HTTP/1.1\r\nHost: web\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(head.split(b"\r\n", 1)[0].decode("latin-1"))
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    await reader.readexactly(length)
    return len(head) + length


@dataclass
class Trial:
    """Some users at the same time, and what came of their pages."""

    task: WebTask
    users: int
    trust: ssl.SSLContext
    begun: float = 0.0
    taken: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    pending: dict[object, float] = field(default_factory=dict)
    stopped: bool = False

    async def run(self) -> dict[str, Any]:
        """All users until the end of the trial, or until it cannot be passed any more."""
        plans = [[*schedule(self.task, user)] for user in range(self.users)]
        pages = sum(page.at >= self.task.warm_up for plan in plans for page in plan)
        cpu_start, self.begun = time.process_time(), time.monotonic() + LOOK_SECONDS
        users = [asyncio.ensure_future(self._user(n, plan)) for n, plan in enumerate(plans)]
        while not all(user.done() for user in users):
            await asyncio.sleep(LOOK_SECONDS)
            if not self.task.sessions and self._hopeless(pages):
                self.stopped = True
                for user in users:
                    user.cancel()
                break
        await asyncio.gather(*users, return_exceptions=True)
        seconds = time.monotonic() - self.begun
        return self._summarize(pages, seconds, (time.process_time() - cpu_start) / seconds)

    # In overload nothing gets better by waiting.
    def _hopeless(self, pages: int) -> bool:
        elapsed_time = time.monotonic() - self.begun
        bad = sum(time > self.task.good for time in self.taken) + sum(self.failed.values())
        bad += sum(elapsed_time - due > self.task.good for due in self.pending.values())
        return bad > (1 - GOOD_SHARE) * pages

    def _summarize(self, pages: int, seconds: float, busy: float) -> dict[str, Any]:
        times, late = sorted(self.taken), sorted(self.late)
        good = sum(time <= self.task.good for time in times)
        tolerable = sum(time <= self.task.tolerable for time in times)
        within = good >= GOOD_SHARE * pages and tolerable >= TOLERABLE_SHARE * pages
        return {
            "sessions": self.users, "passed": bool(pages) and within and not self.stopped,
            "pages": pages, "good": good, "tolerable": tolerable,
            "bytes": self.bytes, "seconds": round(min(seconds, self.task.warm_up
                                                      + self.task.seconds), 4),
            "failed": dict(self.failed), "busy": round(busy, 4),
            "behind": round(sum(delay > LATE_PART * self.task.good for delay in late)
                            / max(1, len(late)), 4),
            "late": round(late[math.ceil(0.99 * len(late)) - 1], 6) if late else 0.0,
            "times": [round(time, 5) for time in times],
        }  # fmt: skip

    async def _user(self, number: int, plan: list[Due]) -> None:
        address, plain, secure = self.task.servers[number % len(self.task.servers)]
        idle: dict[bool, list[WebConnection]] = {False: [], True: []}
        pages: list[asyncio.Future[None]] = []
        visit = number
        try:
            for due in plan:
                await asyncio.sleep(max(0.0, self.begun + due.at - time.monotonic()))
                if due.first:
                    visit += len(self.task.servers) * 7919
                    _close(idle)
                kind = self.task.page(due.name).secure
                port = secure if kind else plain
                pages.append(
                    asyncio.ensure_future(self._page(due, visit, address, port, idle[kind]))
                )
            await asyncio.gather(*pages)
        finally:
            for page in pages:
                page.cancel()
            await asyncio.gather(*pages, return_exceptions=True)
            _close(idle)

    async def _page(
        self, due: Due, visit: int, address: str, port: int, idle: list[WebConnection]
    ) -> None:
        page, counts = self.task.page(due.name), due.at >= self.task.warm_up
        mark, connection, size = object(), None, 0
        self.late.append(time.monotonic() - self.begun - due.at)
        if counts:
            self.pending[mark] = due.at
        try:
            connection = idle.pop() if idle else await self._connect(address, port, page.secure)
            words = f"/page/{due.name}?visitor={visit}&bytes={page.bytes}"
            for path in (words, *page.images):
                size += await _get(connection, path)
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in (23, 24):
                raise SystemExit(
                    f"file descriptors used up, by {self.users} users: {error}"
                ) from error
            self.failed[_reason(error)] += counts
            if connection:
                connection[1].transport.abort()
        else:
            idle.append(connection)
            self.bytes += size
            if counts:
                self.taken.append(time.monotonic() - self.begun - due.at)
        finally:
            self.pending.pop(mark, None)

    async def _connect(self, address: str, port: int, secure: bool) -> WebConnection:
        trust = self.trust if secure else None
        return await asyncio.open_connection(address, port, ssl=trust, limit=1 << 19)


def _reason(odd: BaseException) -> str:
    if isinstance(odd, ssl.SSLError):
        return f"TLS refused: {odd.reason or odd}"
    return "the server closed" if isinstance(odd, asyncio.IncompleteReadError) else str(odd)


def _close(idle: dict[bool, list[WebConnection]]) -> None:
    for connections in idle.values():
        while connections:
            connections.pop()[1].transport.abort()


def search(task: WebTask) -> Iterator[dict[str, Any]]:
    """Trials with more users until one fails, then in the middle, until the step is reached."""
    best, worst, users = 0, 0, task.start
    while True:
        trial = attempt(task, users)
        yield trial
        if trial["passed"]:
            best = users
        else:
            worst = users
            _refuse_own_fault(task, trial)
        if worst == 1:
            reason = ", ".join(trial["failed"]) or "too slow"
            raise SystemExit(f"no user at all is served well enough: {reason}")
        if best >= task.most or (worst and worst - best <= max(1, task.step * best)):
            return
        users = (best + worst) // 2 if worst else min(task.most, 2 * users)


# A trial that failed for want of time here says nothing about the server. One that was late because
# others had the CPU is known by its lateness: see `behind` of the workload.
def _refuse_own_fault(task: WebTask, trial: dict[str, Any]) -> None:
    if trial["late"] > LATE_PART * task.good and trial["busy"] > SATURATION:
        raise SystemExit(
            f"the load generator saturates at {trial['sessions']} users: it asks "
            f"{1000 * trial['late']:.0f} ms late, and used {100 * trial['busy']:.0f} % of a CPU"
        )


def attempt(task: WebTask, users: int) -> dict[str, Any]:
    """One trial."""
    trust = ssl.create_default_context(cadata=task.identity)
    trust.check_hostname = False
    return asyncio.run(Trial(task, users, trust).run())


def main(words: str) -> None:
    """Print each trial as it ends."""
    task = WebTask(**json.loads(words))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    trials = [attempt(task, task.sessions)] if task.sessions else search(task)
    for trial in trials:
        print(json.dumps(trial), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
