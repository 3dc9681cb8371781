"""Several streams at once to one host: as many, and as wide, as the way to it asks for."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field

from labkit.files.pipe import WINDOW, Carries, Pipe

# How much may be under way on a fast link: 500 MB/s for one round trip.
RATE = 500_000_000
# sshd takes 2 MiB on a stream before it waits for us. Of the eight sessions that we use on a
# connection, one is left to other commands.
TAKEN = 2 << 20
MOST_LANES = 7
WIDEST = 64 << 20
TELL_SECONDS = 0.1


@dataclass(frozen=True)
class Moved:
    """The progress of a copy, in bytes; what was there already counts as done."""

    what: str
    done: int
    of: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.done / self.of if self.of else 1.0


Tell = Callable[[Moved], None]


@dataclass
class Meter:
    """Counts what has moved, and reports it no more than some times a second."""

    what: str
    of: int
    tell: Tell | None = None
    done: int = 0
    sent: int = 0
    _told: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, size: int, sent: bool = True) -> None:
        """Count `size` more bytes as moved, or as found there."""
        with self._lock:
            self.done += size
            self.sent += size if sent else 0
            now = time.monotonic()
            due = self.tell and (now - self._told > TELL_SECONDS or self.done >= self.of)
            if due:
                self._told = now
                self._say()

    def there(self, size: int) -> None:
        """Count `size` bytes as there already; those of a stream that was cut no longer count."""
        with self._lock:
            self.done = size
            self._say()

    def _say(self) -> None:
        if self.tell:
            self.tell(Moved(self.what, min(self.done, self.of), self.of))


@dataclass(frozen=True)
class Work:
    """One stream's worth: the command, and what is done with its streams."""

    words: tuple[str, ...]
    move: Callable[[Pipe], None]


@dataclass
class Lanes:
    """The streams to one host; the first that fails ends all, and so does Ctrl-C."""

    host: Carries
    count: int
    window: int = WINDOW
    _pipes: dict[int, Pipe] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def up(cls, host: Carries) -> Lanes:
        """Enough lanes to fill the way to the host."""
        under_way = host.round_trip() * RATE
        return cls(host, min(MOST_LANES, max(2, round(under_way / TAKEN))))

    @classmethod
    def down(cls, host: Carries) -> Lanes:
        """One is enough, for it can be as wide as the way is long."""
        under_way = host.round_trip() * RATE
        return cls(host, 1, int(min(WIDEST, max(2 * WINDOW, under_way))))

    @property
    def shares(self) -> int:
        """Into how many parts a file is best cut: while one is hashed, the next is on its way."""
        return 2 * self.count if self.count == 2 else self.count

    def run(self, works: Iterable[Work]) -> None:
        """Do all of them, that many at a time."""
        with ThreadPoolExecutor(self.count) as pool:
            futures: list[Future[None]] = []
            try:
                for work in works:
                    futures.append(pool.submit(self._run, work))
                _first_failure(futures)
            except BaseException:
                self._stopped.set()
                for future in futures:
                    future.cancel()
                for pipe in list(self._pipes.values()):
                    pipe.abort()
                raise

    def _run(self, work: Work) -> None:
        if not self._stopped.is_set():
            with self._opened(work) as pipe:
                work.move(pipe)

    @contextmanager
    def _opened(self, work: Work) -> Iterator[Pipe]:
        # Another copy may have all streams of the host for as long as it takes.
        with self.host.raw(*work.words, window=self.window, seconds=math.inf) as pipe:
            self._pipes[id(pipe)] = pipe
            try:
                if self._stopped.is_set():
                    pipe.abort()
                yield pipe
            finally:
                del self._pipes[id(pipe)]


def _first_failure(futures: Sequence[Future[None]]) -> None:
    for future in wait(futures, return_when=FIRST_EXCEPTION).done:
        if failed := future.exception():
            raise failed
