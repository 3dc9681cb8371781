"""An event: something done to the lab while a workload runs, with its time line on one clock."""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from labkit.errors import ResultsError
from labkit.fleet.together import ClockReading
from labkit.lab import Lab
from labkit.results import Run
from labkit.setting import Setting
from labkit.workload import Sample, Series, Workload

LEFT_SECONDS = 900.0
"""Seconds that an event under way may take to end once its load has failed."""


@dataclass(frozen=True)
class Phase:
    """A part of an event, in seconds of the controller's clock since 1970."""

    name: str
    begun: float
    ended: float

    @property
    def seconds(self) -> float:
        """Seconds that it took."""
        return self.ended - self.begun


@dataclass(frozen=True)
class TimeLine:
    """The start, phases and end of an event."""

    event: str
    phases: tuple[Phase, ...]

    @property
    def begun(self) -> float:
        """Start of its first phase."""
        return min(phase.begun for phase in self.phases)

    def rows(self) -> list[dict[str, Any]]:
        """Its phases as rows, in seconds since it began."""
        return [
            {"event": self.event, "phase": phase.name, "begun": round(phase.begun - self.begun, 3),
             "seconds": round(phase.seconds, 3)}
            for phase in self.phases
        ]  # fmt: skip


@dataclass(frozen=True)
class Event(ABC):
    """Something done to a lab in the middle of a run; its fields are its knobs."""

    after: float = field(default=2.0, kw_only=True)
    """Seconds of steady load before it begins."""
    settle: float = field(default=2.0, kw_only=True)
    """Seconds of load after it has ended."""
    measures: ClassVar[Mapping[str, str]] = {}
    """Metrics that `parse` reads, and their units."""

    @property
    def name(self) -> str:
        """Under which its raw text is kept."""
        return type(self).__name__.lower()

    @property
    @abstractmethod
    def seconds(self) -> float:
        """About how long it takes and is undone, without the load before and after it."""

    @abstractmethod
    def happen(self, lab: Lab, say: Say) -> None:
        """Do it, and `say` a line for each thing that is seen of it."""

    @abstractmethod
    def undo(self, lab: Lab) -> None:
        """Leave the lab as it was before."""

    def settings(self, lab: Lab) -> tuple[Setting, ...]:
        """The settings that it asks of this lab, beside those of its condition."""
        return ()

    def refusal(self, lab: Lab) -> str:
        """The reason why it cannot happen in this lab; empty if it can."""
        return ""

    def cuts_power(self, lab: Lab) -> tuple[str, ...]:
        """The roles of hosts of one's own that may lose their power; what they count is lost."""
        return ()

    def impossible(self, lab: str) -> str:
        """The reason why it happens in no lab of this kind (`box`, `KVM`, `ESXi`), if any."""
        return ""

    def unseen(self, lab: str) -> Mapping[str, str]:
        """By metric why this kind of lab (`box`, `KVM`, `ESXi`) does not give it."""
        return {}

    @staticmethod
    def succeeded(text: str) -> bool:
        """Whether it came to its end; a run in which it did not has no figures of that end."""
        return True

    @staticmethod
    @abstractmethod
    def time_line(text: str) -> TimeLine:
        """Read its time line from what it said; pure, so that old runs can be read again."""

    @staticmethod
    @abstractmethod
    def parse(text: str, loads: Mapping[str, Series]) -> list[Sample]:
        """Its metrics; some need the load over time: metric -> moments and values."""


@dataclass
class Say:
    """Collects what shows of one event, as lines of JSON."""

    lines: list[str] = field(default_factory=list)

    def __call__(self, **facts: Any) -> None:
        """One more line; `t` is the controller's clock unless it is given."""
        line = {"t": round(time.time(), 4)} | facts
        self.lines.append(json.dumps(line, separators=(",", ":")))

    def clocks(self, read: Mapping[str, ClockReading]) -> None:
        """Add a line for each host on how far its clock is from ours."""
        for name, clock in read.items():
            self(clock=name, offset=round(clock.offset, 6), bound=round(clock.bound, 6))

    @property
    def text(self) -> str:
        """All of them."""
        return "".join(f"{line}\n" for line in list(self.lines))


def said(text: str) -> list[dict[str, Any]]:
    """The lines of an event, with the times of hosts turned into the controller's.

    A line that says `by` whom was stamped by the controller.
    """
    try:
        lines = [json.loads(line) for line in text.splitlines()]
    except ValueError as error:
        raise ResultsError("the lines of an event cannot be read", said=str(error)) from None
    ahead_of = offsets(lines)
    for line in lines:
        ahead = 0.0 if "by" in line else ahead_of.get(line.get("host", ""), (0.0, 0.0))[0]
        for key in {"t", "at"} & set(line):
            line[key] -= ahead
    return lines


def moments(text: str) -> dict[str, float]:
    """The moment of each thing that was said to have happened, by what it was."""
    return {line["event"]: line["at"] for line in said(text) if "event" in line}


def offsets(lines: Iterable[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """The offset of each host's clock from ours, and its bound."""
    return {
        line["clock"]: (float(line["offset"]), line.get("bound", 0.0))
        for line in lines if "clock" in line
    }  # fmt: skip


@dataclass
class Happening:
    """The events of one run: they begin when its load says that it is steady."""

    events: Sequence[Event]
    lab: Lab
    said: dict[str, Say] = field(default_factory=dict)
    failed: list[BaseException] = field(default_factory=list)
    clocks: Future[dict[str, ClockReading]] | None = None
    """Read while the load is prepared: an emulated guest takes seconds to print the time."""
    _thread: threading.Thread | None = None
    _over: threading.Event = field(default_factory=threading.Event)
    _given_up: threading.Event = field(default_factory=threading.Event)

    def begun(self) -> None:
        """The load is steady from now on."""
        if self.events and self._thread is None:
            self._thread = threading.Thread(target=self._happen, daemon=True)
            self._thread.start()

    @property
    def texts(self) -> dict[str, str]:
        """The text said of each event so far, under the name that it is kept as."""
        return {name: say.text for name, say in list(self.said.items())}

    @property
    def going(self) -> bool:
        """Whether the load has to go on."""
        return bool(self.events) and not self._over.is_set()

    def _happen(self) -> None:
        try:
            for event in self.events:
                if self._given_up.wait(event.after):
                    return
                say = self.said[f"{event.name}.txt"] = Say()
                say.clocks(self.clocks.result() if self.clocks else {})
                event.happen(self.lab, say)
                self._given_up.wait(event.settle)
        except BaseException as error:
            self.failed.append(error)
        finally:
            self._over.set()

    def _end(self) -> None:
        self._given_up.set()
        if self._thread:
            self._thread.join(LEFT_SECONDS)
        for event in self.events:
            event.undo(self.lab)


@contextmanager
def happening(events: Sequence[Event], lab: Lab) -> Iterator[Happening]:
    """The events of a run; they have ended afterwards, and the lab is as it was."""
    with ThreadPoolExecutor(1) as pool:
        clocks = pool.submit(lambda: lab.fleet.clocks().ok) if events else None
        beside = Happening(events, lab, clocks=clocks)
        try:
            yield beside
        finally:
            beside._end()
    if beside.failed:
        raise beside.failed[0]


Text = Callable[[str], str | None]
"""The raw text of a name, where a run has it."""


def event_samples(events: Iterable[Event], loads: Iterable[Workload], text: Text) -> list[Sample]:
    """The metrics of what happened in a run."""
    texts = {event: text(f"{event.name}.txt") for event in events}
    if not any(texts.values()):
        return []
    over_time: dict[str, Series] = {}
    for load in loads:
        over_time |= load.over_time(text(f"{load.name}.txt") or "")
    return [sample for event, content in texts.items() if content
            for sample in event.parse(content, over_time)]  # fmt: skip


def all_succeeded(events: Iterable[Event], text: Text) -> bool:
    """Whether what happened in a run came to its end each time."""
    return all(event.succeeded(text(f"{event.name}.txt") or "") for event in events)


def kept_text(run: Run) -> Text:
    """The raw texts of a run that is kept."""
    return lambda name: run.text(name) if name in run.raw else None
