"""The conductor: begins the points of a campaign in their order, and goes on after any death."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from labkit.campaign.again import passes, pause
from labkit.campaign.at_work import AtWork, PointAtWork, clean
from labkit.campaign.attempts import BEGUN, DIED, FINISHED, Attempt
from labkit.campaign.folder import CampaignFolder
from labkit.campaign.foreseen import Foreseen, together
from labkit.campaign.places import WAITS, Needs
from labkit.campaign.points import CampaignPoint
from labkit.campaign.queue import Queue, Taken, Waiting, to_begin
from labkit.campaign.worker import PUT_BACK
from labkit.errors import Busy, Stopped

LOOK_SECONDS, SHOW_SECONDS = 0.1, 0.5
ORPHAN_SECONDS = 180.0
"""For so long a process that lost its conductor may put settings back."""


@dataclass(frozen=True)
class CampaignStanding:
    """The standing of a campaign."""

    finished: int
    failed: int
    of: int
    at_work: tuple[str, ...]
    seconds_left: float


class Workplace(Protocol):
    """A place where points are begun."""

    def needs(self, lab: str) -> Needs:
        """The resources that a point on a lab has for itself while it runs."""

    def taken(self) -> Taken:
        """The room for points at once, while none is at work."""

    def begin(
        self, folder: CampaignFolder, point: CampaignPoint, number: int, words: Sequence[str]
    ) -> PointAtWork:
        """Begin a point."""

    def wait(self, seconds: float) -> None:
        """Wait so long, or until something has ended."""


class ThisMachine:
    """The workplace on this machine: each point is a process of its own."""

    def needs(self, lab: str) -> Needs:
        """The hosts of the lab, or all CPUs."""
        return Needs.of(lab)

    def taken(self) -> Taken:
        """Room for as much as its CPUs can do."""
        return Taken()

    def begin(
        self, folder: CampaignFolder, point: CampaignPoint, number: int, words: Sequence[str]
    ) -> PointAtWork:
        """Begin a point."""
        return AtWork.begin(folder, point, number, words)

    def wait(self, seconds: float) -> None:
        """Wait so long."""
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
    at: Workplace = field(default_factory=ThisMachine)
    waiting: Queue = field(default_factory=Queue)
    working: list[PointAtWork] = field(default_factory=list)
    failed: dict[str, Attempt] = field(default_factory=dict)
    """The points that failed for good, by name."""
    finished: int = 0
    late: bool = False
    """Whether the deadline came first."""
    dirty: set[str] = field(default_factory=set)
    """Labs on which an attempt has died, so that settings may still be in force."""
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
            raise self._interruption() from None

    def _interruption(self) -> Stopped:
        number = len(self.folder.points) - self.finished
        return Stopped(
            f"stopped; {self.finished} of {len(self.folder.points)} points are finished",
            hint=f"`labkit campaign run` goes on with the other {number}"
            if number
            else "`labkit campaign run` writes the report",
        )

    # What finished is never begun again; what died is written down as that.
    def _gather(self) -> None:
        needs = {lab: self.at.needs(lab) for lab in {point.lab for point in self.folder.points}}
        last: dict[str, Attempt] = {}
        for point in self.folder.points:
            tries = [self._settle(point, attempt) for attempt in self.folder.attempts(point)]
            for attempt_settled in tries:
                if point.lab not in last or attempt_settled.began > last[point.lab].began:
                    last[point.lab] = attempt_settled
            if any(attempt_settled.state == FINISHED for attempt_settled in tries):
                self.finished += 1
            else:
                self.waiting.add(self._waiting(point, needs[point.lab]))
        self.dirty |= {lab for lab, attempt in last.items() if _leaves_settings(attempt)}

    def _waiting(self, point: CampaignPoint, needs: Needs, after: float = 0.0) -> Waiting:
        return Waiting(point, needs, after, self.foreseen[point.name].seconds)

    # Its conductor has died, and it ends by itself as soon as it has noticed.
    def _settle(self, point: CampaignPoint, attempt: Attempt) -> Attempt:
        until, is_announced = time.monotonic() + ORPHAN_SECONDS, False
        while attempt.alive:
            if not is_announced:
                self.note(f"{point.name}: waiting for process {attempt.pid} of an earlier run")
            is_announced = True
            if time.monotonic() > until:
                problem = f"process {attempt.pid} of an earlier run is still at {point.name}"
                raise Busy(problem, hint=f"wait, or end it: kill {attempt.pid}")
            time.sleep(LOOK_SECONDS)
            attempt = self.folder.attempts(point)[attempt.number - 1]
        if attempt.state != BEGUN:
            return attempt
        latest = self.folder.attempts(point)[attempt.number - 1]
        return latest if latest.state != BEGUN else clean(self.folder, point, attempt)

    def _step(self) -> None:
        for worker in list(self.working):
            worker.insist()
            self._say_waiting(worker)
            if self.limit is not None and worker.seconds > self.limit and not worker.asked:
                worker.stop(f"it took longer than its limit of {self.limit:.0f} s")
            if (attempt := worker.ended()) is not None:
                self.working.remove(worker)
                self._end(worker, attempt)
        if self._is_late():
            self._leave_off()
        self._begin_more()
        if time.monotonic() >= self._shown + SHOW_SECONDS:
            self._shown = time.monotonic()
            self.show(self.standing())
        self.at.wait(LOOK_SECONDS)

    def _say_waiting(self, worker: PointAtWork) -> None:
        if worker.said.startswith(WAITS) and worker.said != self._said.get(worker.point.name):
            self._said[worker.point.name] = worker.said
            self.note(f"{_title(worker.point)}: {worker.said}")

    def _is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() - self._begun > self.deadline

    def _leave_off(self) -> None:
        self.late = self.late or bool(self.waiting or self.working)
        self.waiting.clear()
        for point_at_work in self.working:
            if not point_at_work.asked:
                point_at_work.stop("the deadline came first")

    def _begin_more(self) -> None:
        working = [point_at_work.needs for point_at_work in self.working]
        room = self.at.taken()
        heads = self.waiting.heads(room.at_most)
        for waiting in to_begin(heads, working, time.monotonic(), room):
            self.waiting.take(waiting)
            self._begin(waiting)

    def _begin(self, waiting: Waiting) -> None:
        point = waiting.point
        self._tries[point.name] += 1
        number = max((attempt.number for attempt in self.folder.attempts(point)), default=0) + 1
        words = [PUT_BACK] if point.lab in self.dirty else []
        self.dirty.discard(point.lab)
        self.working.append(self.at.begin(self.folder, point, number, words))

    def _end(self, point_at_work: PointAtWork, attempt: Attempt) -> None:
        point = point_at_work.point
        if attempt.state == FINISHED:
            self.finished += 1
            self._took += attempt.seconds
            self._expected += self.foreseen[point.name].seconds
            self.note(f"{_title(point)}: finished in {attempt.seconds:.0f} s{_verdicts(attempt)}")
            return
        if _leaves_settings(attempt):
            self.dirty.add(point.lab)
        tries = self._tries[point.name]
        if not point_at_work.asked and tries <= self.retries and _passes(attempt):
            after = time.monotonic() + pause(tries)
            self.waiting.put_first(self._waiting(point, point_at_work.needs, after))
            self.note(f"{_title(point)}: {_first(attempt.why)}; again in {pause(tries):.0f} s")
            return
        if not self.late:
            self.failed[point.name] = attempt
        self.note(f"{_title(point)}: {attempt.state}: {point_at_work.why or _first(attempt.why)}")

    # Once more from the terminal is passed on: settings may then stay in force.
    def _stop_all(self, reason: str) -> None:
        self.waiting.clear()
        for point_at_work in self.working:
            point_at_work.stop(reason)
        while self.working:
            try:
                for point_at_work in list(self.working):
                    point_at_work.insist()
                    if (attempt := point_at_work.ended()) is not None:
                        self.working.remove(point_at_work)
                        self.finished += attempt.state == FINISHED
                self.at.wait(LOOK_SECONDS)
            except KeyboardInterrupt:
                for point_at_work in self.working:
                    point_at_work.stop(reason)

    def standing(self) -> CampaignStanding:
        """The campaign's current standing."""
        texts = tuple(f"{_title(worker.point)}: {worker.said}" for worker in self.working)
        return CampaignStanding(
            self.finished, len(self.failed), len(self.folder.points), texts, self._seconds_left()
        )  # fmt: skip

    # By what points took so far beside what was foreseen of them.
    def _seconds_left(self) -> float:
        pace = self._took / self._expected if self._expected else 1.0
        times = [(needs, pace * seconds) for needs, seconds in self.waiting.left()]
        for worker in self.working:
            number = pace * self.foreseen[worker.point.name].seconds
            rest_of_point = (
                worker.seconds_left if worker.seconds_left is not None else number - worker.seconds
            )
            times.append((worker.needs, max(rest_of_point, 0.0)))
        return together(times)


def _title(point: CampaignPoint) -> str:
    repetition = f", repetition {point.repetition}" if point.repetition > 1 else ""
    values = f" ({point.said})" if point.said else ""
    return f"{point.number:04d} {point.study} on {point.place}{values}{repetition}"


def _first(text: str) -> str:
    return text.partition("\n")[0]


def _verdicts(attempt: Attempt) -> str:
    counts = Counter(str(verdict_kept["verdict"]) for verdict_kept in attempt.verdicts)
    text = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return f"; {text}" if text else ""


def _passes(attempt: Attempt) -> bool:
    return attempt.state == DIED or passes(attempt.kind)


def _leaves_settings(attempt: Attempt) -> bool:
    return attempt.state == DIED or attempt.kind == "KernelDied"
