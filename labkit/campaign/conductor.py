"""The conductor: begins the points of a campaign in their order, and goes on after any death."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from labkit.campaign.again import passes, pause
from labkit.campaign.at_work import AtWork, clean
from labkit.campaign.attempts import BEGUN, DIED, FINISHED, Attempt
from labkit.campaign.folder import CampaignFolder
from labkit.campaign.foreseen import Foreseen, together
from labkit.campaign.places import AT_MOST, WAITS, Needs
from labkit.campaign.points import CampaignPoint
from labkit.campaign.worker import PUT_BACK
from labkit.errors import Busy, Stopped

LOOK_SECONDS, SHOW_SECONDS = 0.1, 0.5
ORPHAN_SECONDS = 180.0
"""For so long a process that lost its conductor may put settings back."""


@dataclass(frozen=True)
class CampaignStanding:
    """Where a campaign stands."""

    finished: int
    failed: int
    of: int
    at_work: tuple[str, ...]
    seconds_left: float


@dataclass
class Waiting:
    """A point that is to be begun, and not before some time."""

    point: CampaignPoint
    needs: Needs
    after: float = 0.0


def to_begin(waiting: Sequence[Waiting], working: Sequence[Needs], now: float) -> list[Waiting]:
    """Choose what may be begun now, in order: none overtakes another that waits for its lab."""
    busy, chosen, claimed = list(working), [], set[str]()
    for one in waiting:
        if len(busy) >= AT_MOST:
            break
        due = now >= one.after
        if due and one.needs.beside(busy) and not claimed & one.needs.hosts:
            busy.append(one.needs)
            chosen.append(one)
        elif due and one.needs.alone:
            break
        claimed |= one.needs.hosts
    return chosen


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
    waiting: list[Waiting] = field(default_factory=list)
    working: list[AtWork] = field(default_factory=list)
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
    _pace: list[tuple[float, float]] = field(default_factory=list)

    def conduct(self) -> None:
        """Bring all points to their end; an interrupt lets those at work put settings back."""
        self._gather()
        try:
            while self.waiting or self.working:
                self._step()
        except KeyboardInterrupt:
            self._stop_all("you stopped it")
            left = len(self.folder.points) - self.finished
            raise Stopped(
                f"stopped; {self.finished} of {len(self.folder.points)} points are finished",
                hint=f"`labkit campaign run` goes on with the other {left}",
            ) from None

    # What finished is never begun again; what died is written down as that.
    def _gather(self) -> None:
        needs = {lab: Needs.of(lab) for lab in {point.lab for point in self.folder.points}}
        last: dict[str, Attempt] = {}
        for point in self.folder.points:
            tries = [self._settled(point, one) for one in self.folder.attempts(point)]
            for one in tries:
                if point.lab not in last or one.began > last[point.lab].began:
                    last[point.lab] = one
            if any(one.state == FINISHED for one in tries):
                self.finished += 1
            else:
                self.waiting.append(Waiting(point, needs[point.lab]))
        self.dirty = {lab for lab, one in last.items() if _leaves_settings(one)}

    # Its conductor has died, and it ends by itself as soon as it has noticed.
    def _settled(self, point: CampaignPoint, attempt: Attempt) -> Attempt:
        until, told = time.monotonic() + ORPHAN_SECONDS, False
        while attempt.alive:
            if not told:
                self.note(f"{point.name}: waiting for process {attempt.pid} of an earlier run")
            told = True
            if time.monotonic() > until:
                what = f"process {attempt.pid} of an earlier run is still at {point.name}"
                raise Busy(what, hint=f"wait, or end it: kill {attempt.pid}")
            time.sleep(LOOK_SECONDS)
            attempt = self.folder.attempts(point)[attempt.number - 1]
        if attempt.state != BEGUN:
            return attempt
        again = self.folder.attempts(point)[attempt.number - 1]
        return again if again.state != BEGUN else clean(self.folder, point, attempt)

    def _step(self) -> None:
        for one in list(self.working):
            one.insist()
            self._say_waiting(one)
            if self.limit is not None and one.seconds > self.limit and not one.asked:
                one.stop(f"it took longer than its limit of {self.limit:.0f} s")
            if (attempt := one.ended()) is not None:
                self.working.remove(one)
                self._ended(one, attempt)
        if self._is_late():
            self._leave_off()
        self._begin_more()
        if time.monotonic() >= self._shown + SHOW_SECONDS:
            self._shown = time.monotonic()
            self.show(self.standing())
        time.sleep(LOOK_SECONDS)

    def _say_waiting(self, one: AtWork) -> None:
        if one.said.startswith(WAITS) and one.said != self._said.get(one.point.name):
            self._said[one.point.name] = one.said
            self.note(f"{_called(one.point)}: {one.said}")

    def _is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() - self._begun > self.deadline

    def _leave_off(self) -> None:
        self.late = self.late or bool(self.waiting or self.working)
        self.waiting.clear()
        for one in self.working:
            if not one.asked:
                one.stop("the deadline came first")

    def _begin_more(self) -> None:
        working = [one.needs for one in self.working]
        for waiting in to_begin(self.waiting, working, time.monotonic()):
            self.waiting.remove(waiting)
            self._begin(waiting)

    def _begin(self, waiting: Waiting) -> None:
        point = waiting.point
        self._tries[point.name] += 1
        number = max((one.number for one in self.folder.attempts(point)), default=0) + 1
        words = [PUT_BACK] if point.lab in self.dirty else []
        self.dirty.discard(point.lab)
        self.working.append(AtWork.begin(self.folder, point, number, words))

    def _ended(self, one: AtWork, attempt: Attempt) -> None:
        point = one.point
        if attempt.state == FINISHED:
            self.finished += 1
            self._pace.append((attempt.seconds, self.foreseen[point.name].seconds))
            self.note(f"{_called(point)}: finished in {attempt.seconds:.0f} s{_verdicts(attempt)}")
            return
        if _leaves_settings(attempt):
            self.dirty.add(point.lab)
        tries = self._tries[point.name]
        if not one.asked and tries <= self.retries and _passes(attempt):
            again = Waiting(point, one.needs, time.monotonic() + pause(tries))
            self.waiting.insert(0, again)
            self.note(f"{_called(point)}: {_first(attempt.why)}; again in {pause(tries):.0f} s")
            return
        if not self.late:
            self.failed[point.name] = attempt
        self.note(f"{_called(point)}: {attempt.state}: {one.why or _first(attempt.why)}")

    # Once more from the terminal is passed on: settings may then stay in force.
    def _stop_all(self, why: str) -> None:
        self.waiting.clear()
        for one in self.working:
            one.stop(why)
        while self.working:
            try:
                for one in list(self.working):
                    one.insist()
                    if (attempt := one.ended()) is not None:
                        self.working.remove(one)
                        self.finished += attempt.state == FINISHED
                time.sleep(LOOK_SECONDS)
            except KeyboardInterrupt:
                for one in self.working:
                    one.stop(why)

    def standing(self) -> CampaignStanding:
        """Where the campaign stands now."""
        said = tuple(f"{_called(one.point)}: {one.said}" for one in self.working)
        return CampaignStanding(
            self.finished, len(self.failed), len(self.folder.points), said, self._left()
        )  # fmt: skip

    # By what points took so far beside what was foreseen of them.
    def _left(self) -> float:
        expected = sum(seconds for _, seconds in self._pace)
        pace = sum(took for took, _ in self._pace) / expected if expected else 1.0
        each = [(one.needs, pace * self.foreseen[one.point.name].seconds) for one in self.waiting]
        for one in self.working:
            whole = pace * self.foreseen[one.point.name].seconds
            left = one.seconds_left if one.seconds_left is not None else whole - one.seconds
            each.append((one.needs, max(left, 0.0)))
        return together(each)


def _called(point: CampaignPoint) -> str:
    again = f", repetition {point.repetition}" if point.repetition > 1 else ""
    values = f" ({point.said})" if point.said else ""
    return f"{point.number:04d} {point.study} on {point.place}{values}{again}"


def _first(why: str) -> str:
    return why.partition("\n")[0]


def _verdicts(attempt: Attempt) -> str:
    counts = Counter(str(one["verdict"]) for one in attempt.verdicts)
    said = ", ".join(f"{many} {verdict}" for verdict, many in counts.items())
    return f"; {said}" if said else ""


def _passes(attempt: Attempt) -> bool:
    return attempt.state == DIED or passes(attempt.kind)


def _leaves_settings(attempt: Attempt) -> bool:
    return attempt.state == DIED or attempt.kind == "KernelDied"
