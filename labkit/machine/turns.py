"""Work that says what it waits for, so that one thread can do that of many hosts.

Threads that each do little and wait a lot cost more than what they do: they wake one another to
get the interpreter, and each brings memory and random numbers of its own.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from labkit.errors import LabkitError

T = TypeVar("T")
# A signal that comes just as a wait begins, Ctrl-C too, is seen when it ends: so none is long.
TURN_SECONDS = 1.0


@dataclass(frozen=True)
class Awaited:
    """That something can be done with a socket, or that it is so late by the monotonic clock."""

    until: float
    end: socket.socket | None = None
    events: int = select.POLLIN

    @property
    def milliseconds(self) -> float:
        """How long it still is until then."""
        return max(1000 * (self.until - time.monotonic()), 0)

    def pause(self) -> None:
        """Wait for it."""
        poll = select.poll()
        with suppress(ValueError):  # the socket was closed, which whoever waits will see
            if self.end is not None:
                poll.register(self.end, self.events)
            poll.poll(self.milliseconds)


Steps = Generator[Awaited | None, None, T]
"""It yields what it waits for, and None where its next step may block: that takes a thread."""


def finished(steps: Steps[T]) -> T:
    """What all the steps come to, done by this thread."""
    with closing(steps):
        while True:
            try:
                awaited = next(steps)
            except StopIteration as end:
                found: T = end.value
                return found
            if awaited is not None:
                awaited.pause()


def blocking(action: Callable[[], T]) -> Steps[T]:
    """One step, for a thread of its own."""
    yield None
    return action()


Ended = list[tuple[str, T | LabkitError]]


def abreast(works: Mapping[str, Steps[T]], threads: int) -> Generator[tuple[str, T | LabkitError]]:
    """The outcome or the error of each, as soon as it is known, with the help of `threads`."""
    with closing(_Abreast[T](works, threads)) as going_on:
        for name in works:
            yield from going_on.step(name)
        while going_on.works:
            yield from going_on.wait()


class _Abreast(Generic[T]):
    def __init__(self, works: Mapping[str, Steps[T]], threads: int) -> None:
        self.works = dict(works)
        self._waiting: dict[str, tuple[float, int]] = {}
        self._ends: dict[int, str] = {}
        self._poll = select.poll()
        self._threads = ThreadPoolExecutor(max(min(threads, len(works)), 1))
        self._back: SimpleQueue[tuple[str, Future[Awaited | None]]] = SimpleQueue()
        self._ear, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        self._poll.register(self._ear, select.POLLIN)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for work in self.works.values():
            with suppress(ValueError):  # a thread is at it, and ends with its connection
                work.close()
        self._ear.close()
        self._bell.close()

    def step(self, name: str) -> Ended[T]:
        return self._went(name, partial(next, self.works[name]))

    def wait(self) -> Ended[T]:
        until = min((until for until, _ in self._waiting.values()), default=float("inf"))
        left = min(max(until - time.monotonic(), 0), TURN_SECONDS)
        ended: Ended[T] = []
        for end, _ in self._poll.poll(1000 * left):
            if end in self._ends:
                ended += self._on(self._ends[end])
        with suppress(BlockingIOError, Empty):
            self._ear.recv(4096, socket.MSG_DONTWAIT)
            while True:
                name, future = self._back.get_nowait()
                ended += self._went(name, future.result)
        now = time.monotonic()
        for name in [name for name, (until, _) in self._waiting.items() if until <= now]:
            ended += self._on(name)
        return ended

    def _on(self, name: str) -> Ended[T]:
        _, end = self._waiting.pop(name)
        if self._ends.get(end) == name:
            del self._ends[end]
            self._poll.unregister(end)
        return self.step(name)

    def _went(self, name: str, step: Callable[[], Awaited | None]) -> Ended[T]:
        try:
            awaited = step()
        except StopIteration as end:
            del self.works[name]
            return [(name, end.value)]
        except LabkitError as failed:
            del self.works[name]
            return [(name, failed)]
        if awaited is None:
            future = self._threads.submit(next, self.works[name])
            future.add_done_callback(partial(self._came_back, name))
        else:
            self._await(name, awaited)
        return []

    def _await(self, name: str, awaited: Awaited) -> None:
        end = awaited.end.fileno() if awaited.end is not None else -1
        if end >= 0:
            self._ends[end] = name
            self._poll.register(end, awaited.events)
        closed = awaited.end is not None and end < 0
        self._waiting[name] = (0.0 if closed else awaited.until), end

    def _came_back(self, name: str, future: Future[Awaited | None]) -> None:
        self._back.put((name, future))
        with suppress(OSError):  # there are rings enough, or nobody waits any more
            self._bell.send(b"x")
