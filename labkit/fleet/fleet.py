"""Several hosts at once: each answers or fails for itself, and commands can start together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from labkit.errors import BadInput, FleetFailed, LabkitError, Unknown
from labkit.fleet import together as starts
from labkit.fleet.together import Armed, ClockReading, Started
from labkit.host import KEPT, Completed, Host

T = TypeVar("T")
AT_ONCE = 64
# So long before the start the last host has been told of it.
LEAD_SECONDS, LEAD_PER_HOST = 0.05, 0.005


@dataclass(frozen=True)
class Outcomes(Mapping[str, T | LabkitError], Generic[T]):
    """The answer of each host, or the error that befell it, by the host's name."""

    all: Mapping[str, T | LabkitError]

    def __getitem__(self, name: str) -> T | LabkitError:
        if name not in self.all:
            raise Unknown("host", name, self.all)
        return self.all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    @property
    def ok(self) -> dict[str, T]:
        """The outcomes that went well: no error, and code 0 if there is one."""
        return {
            name: outcome
            for name, outcome in self.all.items()
            if not isinstance(outcome, LabkitError) and getattr(outcome, "ok", True)
        }

    @property
    def failed(self) -> dict[str, T | LabkitError]:
        """The others: the error, or what ended with another code."""
        ok = self.ok
        return {name: outcome for name, outcome in self.all.items() if name not in ok}

    def check(self) -> dict[str, T]:
        """All answers; if a host failed, one error that names every host that did."""
        if failures := self.failed:
            lines = [_explain(name, outcome) for name, outcome in failures.items()]
            raise FleetFailed(
                f"{len(failures)} of {len(self.all)} hosts failed: {', '.join(failures)}",
                said="\n".join(lines[:3]),
            )
        return self.ok


@dataclass(frozen=True)
class Start(Outcomes[Started]):
    """The outcomes of commands that were started together."""

    @property
    def spread(self) -> float:
        """Seconds between the first start and the last, by the hosts' clocks."""
        moments = [command.begun_here for command in self._starts]
        return max(moments) - min(moments) if moments else 0.0

    @property
    def bound(self) -> float:
        """Seconds by which the spread may be wrong, for clocks are not known exactly."""
        bounds = sorted((command.bound for command in self._starts), reverse=True)
        return sum(bounds[:2])

    @property
    def _starts(self) -> list[Started]:
        return [outcome for outcome in self.all.values() if isinstance(outcome, Started)]


@dataclass(frozen=True)
class StartLine:
    """Commands that wait on their hosts, all ready to start."""

    waiting: Mapping[str, Armed] = field(repr=False)
    _pool: ThreadPoolExecutor = field(repr=False)

    @property
    def clocks(self) -> dict[str, ClockReading]:
        """Each host's clock beside ours, read while it was made ready."""
        return {name: command.clock for name, command in self.waiting.items()}

    def go(self, *, seconds: float = 600.0) -> Start:
        """Start them together, and wait until all have ended, each for so long at most."""
        lead = LEAD_SECONDS + LEAD_PER_HOST * len(self.waiting)
        far = max((command.clock.round_trip for command in self.waiting.values()), default=0.0)
        moment = time.time() + lead + far
        # Those that start as they are told come last, the farthest of them first.
        order = sorted(self.waiting.values(), key=lambda a: (not a.by_clock, -a.clock.round_trip))
        for command in order:
            command.release(moment)
        deadline = time.monotonic() + lead + far + seconds
        return Start(_map(self._pool, self.waiting, lambda waiting: waiting.done(deadline)))


@dataclass(frozen=True)
class Fleet:
    """Hosts by name; what is done is done on all of them at the same time."""

    hosts: Mapping[str, Host]
    _pools: dict[int, ThreadPoolExecutor] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Threads by process: kept, as to start them takes longer than a short command does."""

    @classmethod
    def of(cls, hosts: Iterable[Host]) -> Fleet:
        """Hosts by their own names."""
        return cls({host.name: host for host in hosts})

    def run(
        self, *words: str, stdin: bytes = b"", seconds: float = 60.0, cap: int = KEPT,
        tell: Callable[[str], None] | None = None,
    ) -> Outcomes[Completed]:  # fmt: skip
        """Run a command on every host; `tell` is called with the name of each that is done."""
        return self.each(
            lambda host: host.run(*words, stdin=stdin, seconds=seconds, cap=cap), tell=tell
        )

    def each(
        self, action: Callable[[Host], T], *, tell: Callable[[str], None] | None = None
    ) -> Outcomes[T]:
        """Do something with every host, such as `lambda host: host.put(...)`."""
        try:
            return Outcomes(_map(self._pool(), self.hosts, action, tell))
        except BaseException:  # Ctrl-C: nobody waits for a host any longer
            self.close()
            raise

    def clocks(self) -> Outcomes[ClockReading]:
        """Each host's clock beside ours."""
        return self.each(_clock)

    @contextmanager
    def serving(
        self, commands: Mapping[str, Sequence[str]], *, ready: Mapping[str, Sequence[str]],
        seconds: int = 30,
    ) -> Iterator[None]:  # fmt: skip
        """Servers by host, each in the foreground, from when all are ready until we leave.

        `ready` is by host the command that succeeds there once its server answers; it is tried on
        the host itself, over and over. A server ends with the connection, too.
        """
        if missing := set(commands) - set(ready):
            raise BadInput(f"no ready= for {', '.join(sorted(missing))}")
        with self._enter(
            commands,
            lambda name, host: starts.served(host, commands[name], ready[name], seconds),
        ):
            yield

    @contextmanager
    def together(self, commands: Mapping[str, Sequence[str]]) -> Iterator[StartLine]:
        """Commands by host, which wait there until `go` starts them at the same moment.

        Leaving ends what has not ended, or not started.
        """
        with self._enter(
            commands, lambda name, host: starts.armed(host, commands[name])
        ) as waiting:
            yield StartLine(waiting, self._pool())

    def close(self) -> None:
        """Close all connections."""
        for host in self.hosts.values():
            host.close()
        if pool := self._pools.pop(os.getpid(), None):
            pool.shutdown(wait=False)

    # A child of fork(2) has none of the threads of its parent.
    def _pool(self) -> ThreadPoolExecutor:
        return self._pools.setdefault(os.getpid(), ThreadPoolExecutor(AT_ONCE))

    # All at once; and where one cannot, none stays.
    @contextmanager
    def _enter(
        self, names: Iterable[str], open_on: Callable[[str, Host], AbstractContextManager[T]]
    ) -> Iterator[dict[str, T]]:
        for name in set(names) - set(self.hosts):
            raise Unknown("host", name, self.hosts)
        contexts = {n: open_on(n, self.hosts[n]) for n in names}

        def enter(name: str) -> T:
            value = contexts[name].__enter__()
            stack.push(contexts[name])
            return value

        with ExitStack() as stack:
            try:
                each_name = {name: name for name in contexts}
                values = Outcomes(_map(self._pool(), each_name, enter)).check()
            except LabkitError:
                raise
            except BaseException:  # Ctrl-C: some may still be on their way in
                self.close()
                raise
            yield values


def _map(
    pool: ThreadPoolExecutor, items: Mapping[str, Any], action: Callable[[Any], T],
    tell: Callable[[str], None] | None = None,
) -> dict[str, T | LabkitError]:  # fmt: skip
    outcomes: dict[str, T | LabkitError] = {}
    futures: dict[Future[T], str] = {
        pool.submit(action, item): name for name, item in items.items()
    }
    try:
        for future in as_completed(futures):
            name, error = futures[future], future.exception()
            if error is not None and not isinstance(error, LabkitError):
                raise error
            outcomes[name] = future.result() if error is None else error
            if tell:
                tell(name)
    finally:
        for future in futures:
            future.cancel()
    return {name: outcomes[name] for name in items}


def _clock(host: Host) -> ClockReading:
    with starts.armed(host, ("true",)) as waiting:
        read = waiting.clock
    return read


# Most errors say themselves where they were.
def _explain(name: str, outcome: Any) -> str:
    if isinstance(outcome, LabkitError):
        text = str(outcome).replace("\n", " ")
        return text if name in text else f"{name}: {text}"
    text = " ".join((outcome.stderr or "").split())[-200:]
    return f"{name}: ended with code {outcome.code}" + (f": {text}" if text else "")
