"""The conductor: begins the points of a campaign in their order, and goes on after any death.

A point at work has a process of its own, which says how far it has come and is asked to stop.
"""

import json
import os
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Self

from labkit.campaign.asked import CampaignPoint
from labkit.campaign.folder import (
    BEGUN,
    DIED,
    FINISHED,
    STOPPED,
    Attempt,
    CampaignFolder,
    counted,
    pause,
)
from labkit.campaign.foreseen import Foreseen, together
from labkit.campaign.places import WAITS, Needs, Queue, Taken, Waiting, to_begin
from labkit.errors import Stopped, last_words
from labkit.machine import lean
from labkit.machine.units import spoken
from labkit.pages.terminal import BAR

WORKER, PUT_BACK = "labkit.campaign.worker", "put-back"
GRACE_SECONDS = 120.0
"""For so long a point that is stopped may put settings back; then it is asked once more."""


@dataclass(kw_only=True)
class PointAtWork(ABC):
    """A point at work, here or elsewhere."""

    folder: CampaignFolder
    point: CampaignPoint
    begun: float = field(default_factory=time.monotonic)
    said: str = "getting ready"
    seconds_left: float | None = None
    """The study's own forecast, once it measures."""
    why: str = ""
    """Reason why it was stopped, if it was."""
    asked: list[float] = field(default_factory=list)
    """Times at which it was asked to stop."""

    @property
    def seconds(self) -> float:
        """Seconds that it has been at work."""
        return time.monotonic() - self.begun

    def stop(self, reason: str) -> None:
        """Ask it to put its settings back and to end; asked twice, it ends at once."""
        self.why = self.why or reason
        self.asked.append(time.monotonic())
        self._ask_to_stop()

    @abstractmethod
    def _ask_to_stop(self) -> None: ...

    @abstractmethod
    def insist(self) -> None:
        """Ask once more where it takes too long to stop."""

    @abstractmethod
    def ended(self) -> Attempt | None:
        """The outcome; None while it is at work."""


@dataclass(kw_only=True)
class AtWork(PointAtWork):
    """One point at work, in a process of its own."""

    number: int
    process: subprocess.Popen[bytes]

    @classmethod
    def begin(cls, folder: CampaignFolder, point: CampaignPoint, *, put_back: bool) -> Self:
        """Start it; it has a session of its own, so that Ctrl-C is for its conductor to pass on."""
        path = folder.of(point)
        path.mkdir(parents=True, exist_ok=True)
        number = 1 + max((tried.number for tried in folder.attempts(point)), default=0)
        words = str(folder.path), str(point.number), str(number), *[PUT_BACK] * put_back
        with (path / f"attempt-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                lean.words(WORKER, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, start_new_session=True,
                env={**os.environ, "LABKIT_OUT": str(folder.path.parents[1])},
            )  # fmt: skip
        at_work = cls(folder=folder, point=point, number=number, process=process)
        threading.Thread(target=at_work._listen, args=(process.stdout,), daemon=True).start()
        return at_work

    def _listen(self, output: IO[bytes]) -> None:
        for line in output:
            with suppress(ValueError, LookupError):
                message = json.loads(line)
                self.said, self.seconds_left = message["said"], message["seconds_left"]

    # Where SIGINT is ignored (a shell's job in the background), the worker ignores it as well.
    def _ask_to_stop(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGTERM)

    def insist(self) -> None:
        """Ask once more where it takes too long to stop; then end it."""
        if not self.asked or time.monotonic() < self.asked[-1] + GRACE_SECONDS:
            return
        if len(self.asked) < 2:
            self.stop(self.why)
        else:
            self.process.kill()

    def ended(self) -> Attempt | None:
        """The outcome; None while it is at work."""
        if self.process.poll() is None:
            return None
        if self.process.stdin:
            self.process.stdin.close()
        if done := self.folder.finished(self.point):  # perhaps by another, while it waited
            return done
        last = [Attempt.begin(self.number), *self.folder.attempts(self.point)][-1]
        attempt = last if last.number >= self.number else Attempt.begin(self.number)
        return self._died(attempt) if attempt.state == BEGUN else attempt

    # It could write nothing down any more.
    def _died(self, attempt: Attempt) -> Attempt:
        path = self.folder.of(self.point)
        if self.asked:
            return attempt.settle(path, STOPPED, self.why, "Stopped")
        code = self.process.returncode
        cause = f"signal {-code}" if code < 0 else f"exit code {code}"
        log = (path / f"attempt-{self.number}.log").read_text("utf-8", "replace")
        reason = [f"its process ended: {cause}", last_words(log)]
        return attempt.settle(path, DIED, "\n".join(filter(None, reason)))


LOOK_SECONDS, SHOW_SECONDS = 0.1, 0.5


@dataclass(frozen=True)
class CampaignStanding:
    """The standing of a campaign."""

    finished: int
    failed: int
    of: int
    at_work: tuple[str, ...]
    seconds_left: float

    def __str__(self) -> str:
        """One line of progress: how many points, how long still, what is at work."""
        count = self.finished + self.failed
        full = round(BAR * count / self.of) if self.of else BAR
        text = f"[{'#' * full:.<{BAR}}] {self.finished} of {self.of} points"
        text += f", {self.failed} failed" if self.failed else ""
        if self.at_work:
            first, *others = self.at_work
            company = f" and {len(others)} more" if others else ""
            text += f", about {spoken(self.seconds_left)} left: {first}{company}"
        return text


class Workplace:
    """The place where points are begun: this machine, where each is a process of its own."""

    def needs(self, lab: str) -> Needs:
        """The resources that a point on a lab has for itself: the lab's hosts, or all CPUs."""
        return Needs.of(lab)

    def taken(self) -> Taken:
        """The room for points at once, while none is at work."""
        return Taken()

    def begin(self, folder: CampaignFolder, point: CampaignPoint, *, put_back: bool) -> PointAtWork:
        """Begin a point, perhaps by putting back what a dead attempt has left."""
        return AtWork.begin(folder, point, put_back=put_back)

    def wait(self, seconds: float) -> None:
        """Wait so long, or until something has ended."""
        time.sleep(seconds)


@dataclass
class Conductor:
    """One run of a campaign, until every point has finished or has failed for good."""

    folder: CampaignFolder
    foreseen: Mapping[str, Foreseen]
    show: Callable[[CampaignStanding], None]
    note: Callable[[str], None]
    retries: int = 2
    deadline: float | None = None
    limit: float | None = None
    at: Workplace = field(default_factory=Workplace)
    waiting: Queue = field(default_factory=Queue)
    working: list[PointAtWork] = field(default_factory=list)
    failed: dict[str, Attempt] = field(default_factory=dict)
    """The points that failed for good, by name."""
    finished: int = 0
    late: bool = False
    """Whether the deadline came first."""
    dirty: set[str] = field(default_factory=set)
    """Labs on which an attempt has died, so that settings may still be in force."""
    _needs: dict[str, Needs] = field(default_factory=dict)
    _tries: Counter[str] = field(default_factory=Counter)
    _begun: float = field(default_factory=time.monotonic)
    _said: dict[str, str] = field(default_factory=dict)
    _shown: float = 0.0
    _took: float = 0.0
    _expected: float = 0.0

    def conduct(self) -> None:
        """Bring all points to their end; an interrupt lets those at work put settings back."""
        self._gather()
        try:
            while self.waiting or self.working:
                self._step()
        except KeyboardInterrupt as stop:
            self._stop_all(str(stop) or "you stopped it")
            of = len(self.folder.points)
            left = of - self.finished
            goes_on = f"goes on with the other {left}" if left else "writes the report"
            problem = f"stopped; {self.finished} of {of} points are finished"
            raise Stopped(problem, hint=f"`labkit campaign run` {goes_on}") from None

    # What finished is never begun again.
    def _gather(self) -> None:
        self._needs = {lab: self.at.needs(lab) for lab in {p.lab for p in self.folder.points}}
        last: dict[str, Attempt] = {}
        for point in self.folder.points:
            tries = self.folder.attempts(point)
            for attempt in tries:
                if point.lab not in last or attempt.began > last[point.lab].began:
                    last[point.lab] = attempt
            if any(attempt.state == FINISHED for attempt in tries):
                self.finished += 1
            else:
                self._wait_for(point)
        self.dirty |= {lab for lab, attempt in last.items() if attempt.leaves_settings}

    def _wait_for(self, point: CampaignPoint, after: float = 0.0) -> None:
        seconds = self.foreseen[point.name].seconds
        self.waiting.add(Waiting(point, self._needs[point.lab], after, seconds))

    def _step(self) -> None:
        for worker in list(self.working):
            worker.insist()
            name, said = worker.point.name, worker.said
            if said.startswith(WAITS) and said != self._said.get(name):
                self._said[name] = said
                self.note(f"{worker.point.title}: {said}")
            if self.limit is not None and worker.seconds > self.limit and not worker.asked:
                worker.stop(f"it took longer than its limit of {self.limit:.0f} s")
            if (attempt := worker.ended()) is not None:
                self.working.remove(worker)
                self._end(worker, attempt)
        if self.deadline is not None and time.monotonic() - self._begun > self.deadline:
            self._leave_off()
        self._begin_more()
        if time.monotonic() >= self._shown + SHOW_SECONDS:
            self._shown = time.monotonic()
            self.show(self.standing())
        self.at.wait(LOOK_SECONDS)

    def _leave_off(self) -> None:
        self.late = self.late or bool(self.waiting or self.working)
        self.waiting.clear()
        for worker in self.working:
            if not worker.asked:
                worker.stop("the deadline came first")

    def _begin_more(self) -> None:
        working = [self._needs[worker.point.lab] for worker in self.working]
        room = self.at.taken()
        heads = self.waiting.heads(room.at_most)
        for waiting in to_begin(heads, working, time.monotonic(), room):
            self.waiting.take(waiting)
            point = waiting.point
            self._tries[point.name] += 1
            put_back = point.lab in self.dirty
            self.dirty.discard(point.lab)
            self.working.append(self.at.begin(self.folder, point, put_back=put_back))

    def _end(self, worker: PointAtWork, attempt: Attempt) -> None:
        point = worker.point
        reason = attempt.why.partition("\n")[0]
        if attempt.state == FINISHED:
            self.finished += 1
            self._took += attempt.seconds
            self._expected += self.foreseen[point.name].seconds
            self.note(f"{point.title}: finished in {attempt.seconds:.0f} s{_verdicts(attempt)}")
            return
        if attempt.leaves_settings:
            self.dirty.add(point.lab)
        tries = self._tries[point.name]
        if attempt.may_pass and tries <= self.retries and not worker.asked:
            self._wait_for(point, time.monotonic() + pause(tries))
            self.note(f"{point.title}: {reason}; again in {pause(tries):.0f} s")
            return
        if not self.late:
            self.failed[point.name] = attempt
        self.note(f"{point.title}: {attempt.state}: {worker.why or reason}")

    # Once more from the terminal is passed on: settings may then stay in force.
    def _stop_all(self, reason: str) -> None:
        self.waiting.clear()
        for worker in self.working:
            worker.stop(reason)
        while self.working:
            try:
                for worker in list(self.working):
                    worker.insist()
                    if (attempt := worker.ended()) is not None:
                        self.working.remove(worker)
                        self.finished += attempt.state == FINISHED
                self.at.wait(LOOK_SECONDS)
            except KeyboardInterrupt:
                for worker in self.working:
                    worker.stop(reason)

    def standing(self) -> CampaignStanding:
        """The campaign's current standing."""
        texts = tuple(f"{worker.point.title}: {worker.said}" for worker in self.working)
        return CampaignStanding(
            self.finished, len(self.failed), len(self.folder.points), texts, self._seconds_left()
        )  # fmt: skip

    # By what points took so far beside what was foreseen of them.
    def _seconds_left(self) -> float:
        pace = self._took / self._expected if self._expected else 1.0
        times = [(needs, pace * seconds) for needs, seconds in self.waiting.left()]
        for worker in self.working:
            rest = worker.seconds_left
            if rest is None:
                rest = pace * self.foreseen[worker.point.name].seconds - worker.seconds
            times.append((self._needs[worker.point.lab], max(rest, 0.0)))
        return together(times)


def _verdicts(attempt: Attempt) -> str:
    text = counted(Counter(str(kept["verdict"]) for kept in attempt.verdicts))
    return f"; {text}" if text else ""
