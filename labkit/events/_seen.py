"""Observations of a migration: its time line, its figures, and how far a load fell by it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from labkit.errors import ResultsError
from labkit.event import Phase, TimeLine, said
from labkit.events._move import ARRIVED
from labkit.workload import Sample, Series

SPAN = 0.5
"""Seconds that a bandwidth is the mean of: what is queued at once is no rate."""
COUNTED_SECONDS = 0.02
"""Upper limit in seconds for a pass that only counts pages."""
DONE, FAILED = "completed", "failed"
PROMISED = {"vsphere": ("migration time",)}
"""By driver what it gives of each move that arrived; `bandwidth` where that took time enough."""
USUALLY = ("migration time", "switchover time", "bandwidth")
MEGABIT = 8e-6
HELPERS = ("multifdsend", "live_migration")


@dataclass(frozen=True)
class MoveSeen:
    """The lines of one migration, in the controller's time; `about` says what was asked for."""

    lines: Sequence[Mapping[str, Any]]
    about: Mapping[str, Any]
    origin: str
    """The host that it left."""
    to: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Read what was said of a migration."""
        lines = said(text)
        about = next((line for line in lines if "moves" in line), None)
        if about is None:
            raise ResultsError("these lines are not of a migration")
        return cls(lines, about, str(about["origin"]), str(about["to"]))

    def events(self, host: str, name: str, **about: str) -> list[float]:
        """The times at which QEMU on a host reported such an event."""
        fields = {"host": host, "event": name, **about}
        return [line["at"] for line in self.lines if fields.items() <= line.items()]

    @cached_property
    def begun(self) -> float:
        """Time when the first of its disks was copied, or the first of its memory could go."""
        starts = [*self.copying, *self.events(self.origin, "MIGRATION", status="setup")]
        return min(starts) if starts else float(self.about["t"])

    @cached_property
    def copying(self) -> list[float]:
        """Times at which its disks were seen to be copied."""
        return [line["t"] for line in self.lines if "disk" in line]

    @cached_property
    def stopped(self) -> float | None:
        """Time when it stood still."""
        return next(iter(self.events(self.origin, "STOP")), None)

    @cached_property
    def resumed(self) -> float | None:
        """Time when it went on at the destination."""
        return next(iter(self.events(self.to, "RESUME")), None)

    @cached_property
    def arrived(self) -> bool:
        """Whether it runs at the destination, all of it."""
        ends = self.events(self.origin, "MIGRATION", status=DONE)
        return bool(ends) and bool(self.resumed is not None or self.events(self.to, ARRIVED))

    @cached_property
    def ended(self) -> float:
        """Time when all of it was over, or given up."""
        over = [at for how in (DONE, FAILED)
                for at in self.events(self.origin, "MIGRATION", status=how)]  # fmt: skip
        ends = [*over, *([self.resumed] if self.resumed else [])]
        return max(ends) if ends else float(self.lines[-1]["t"])

    @cached_property
    def rounds(self) -> list[Phase]:
        """Each pass over its memory while it still ran here.

        QEMU begins another one to count what is left; when that is little it stops the guest.
        """
        until = self.stopped or self.ended
        passes = [at for at in self.events(self.origin, "MIGRATION_PASS") if at < until]
        if len(passes) > 1 and until - passes[-1] < COUNTED_SECONDS:
            passes.pop()
        ends = pairwise([*passes, until])
        return [Phase(f"round {n}", a, b) for n, (a, b) in enumerate(ends, 1)]

    def told(self, host: str, what: str) -> list[tuple[float, Any]]:
        """All that a host told of one thing, and when."""
        return [(line["t"], line[what]) for line in self.lines
                if line.get("host") == host and what in line]  # fmt: skip

    @cached_property
    def said(self) -> Mapping[str, Any]:
        """QEMU's last words on it."""
        texts = [words for _, words in self.told(self.origin, "said") if words.get("transferred")]
        return texts[-1] if texts else {}

    @cached_property
    def first_round(self) -> float:
        """Bytes that the first pass over its memory sent."""
        sent = (words["transferred"] for at, words in self.told(self.origin, "said")
                if at >= self.begun and words.get("dirty-sync-count") == 1)  # fmt: skip
        return float(max(sent, default=0))

    @cached_property
    def arriving(self) -> Series:
        """Mbit/s that came in at the destination, and when."""
        return self._rates([(at, _came(net)) for at, net in self.told(self.to, "net")], MEGABIT)

    def cpus(self, host: str) -> int:
        """The number of a host's CPUs, if the host says it."""
        return next((int(count) for _, count in self.told(host, "cpus")), 0)

    def cpu(self, host: str, *names: str) -> Series:
        """CPUs that threads kept busy on a host, and when; of no name those of all of them."""
        wanted = names or ("all",)
        return self._rates([
            (at, sum(seconds for name, seconds in spent.items() if name.startswith(wanted)))
            for at, spent in self.told(host, "cpu")
        ])  # fmt: skip

    # From counts that never fall; where one does its thread has ended.
    def _rates(self, counts: Iterable[tuple[float, float]], unit: float = 1.0) -> Series:
        at, rates = [], []
        last: tuple[float, float] | None = None
        for t, n in (count for count in counts if self.begun - SPAN <= count[0]):
            late = t > self.ended
            if last is None or n < last[1]:
                last = (t, n)
            elif t - last[0] >= (SPAN / 2 if late else SPAN):
                at.append((t + last[0]) / 2)
                rates.append(unit * (n - last[1]) / (t - last[0]))
                last = (t, n)
            if late:
                break
        return np.array(at), np.array(rates)


def time_line(text: str) -> TimeLine:
    """Rounds, standing still, and what followed."""
    move = MoveSeen.of(text)
    memory = move.events(move.origin, "MIGRATION", status="setup")
    # Until memory begins to move; what is written to disks later goes to both.
    copied = [Phase("disks", move.copying[0], memory[0])] if move.copying and memory else []
    phases = [*copied, *move.rounds]
    if move.stopped and move.resumed:
        phases.append(Phase("switch-over", move.stopped, move.resumed))
        if move.ended > move.resumed:
            phases.append(Phase("after the switch-over", move.resumed, move.ended))
    move_phases = tuple(phases) or (Phase("migration", move.begun, move.ended),)
    return TimeLine("migration", move_phases)


def samples(text: str, loads: Mapping[str, Series]) -> list[Sample]:
    """All figures of one migration; times in s, rates in Mbit/s."""
    move = MoveSeen.of(text)
    prepared = min(float(move.about["t"]), move.begun)
    span = Span(prepared, move.begun, move.stopped, move.resumed, move.ended)
    figures = [*_times(move), *_speeds(move), *dips(span, loads)]
    _insist(move, {sample.metric for sample in figures})
    return figures


def arrived(text: str) -> bool:
    """Whether the guest of these lines arrived; without lines nothing moved."""
    return not text or MoveSeen.of(text).arrived


# A driver that gives half would leave the study without a figure, and say nothing.
def _insist(move: MoveSeen, metrics: set[str]) -> None:
    driver = str(move.about.get("driver", "qemu"))
    short = move.ended - move.begun < 2 * SPAN
    missing = [metric for metric in PROMISED.get(driver, USUALLY)
               if metric not in metrics and not (short and metric == "bandwidth")]  # fmt: skip
    if move.arrived and missing:
        raise ResultsError(
            f"{driver} moved {move.about['moves']} from {move.origin} to {move.to}, and gave no "
            f"{', '.join(missing)}",
            said=f"it gave {', '.join(sorted(metrics))}",
            hint="measure the condition again; if it stays so, this driver cannot be used",
        )


def over_time(text: str) -> dict[str, Series]:
    """Mbit/s that came in at the destination, and the CPUs of both sides in percent of one."""
    move = MoveSeen.of(text)
    (left, origin), (came, to) = move.cpu(move.origin), move.cpu(move.to)
    return {
        "bandwidth": move.arriving,
        "cpu of the origin": (left, 100 * origin),
        "cpu of the destination": (came, 100 * to),
    }


def _times(seen: MoveSeen) -> Iterable[Sample]:
    yield Sample.single("arrived share", "share", seen.arrived, kind="share")
    if not seen.arrived:
        return
    yield Sample.single("migration time", "s", seen.ended - seen.begun)
    if seen.stopped and seen.resumed:
        yield Sample.single("switchover time", "s", seen.resumed - seen.stopped)
    if seen.rounds:
        yield Sample.single("rounds", "1", len(seen.rounds))
    if len(seen.rounds) > 1:
        yield Sample.single("second pass", "s", seen.rounds[1].seconds)
    if seen.first_round:
        yield Sample.single("first round", "MiB", seen.first_round / 2**20)
    if seen.said:
        yield Sample.single("downtime by QEMU", "s", seen.said.get("downtime", 0) / 1000)
    if total := seen.said.get("total"):
        yield Sample.single("sent over memory", "share", seen.said["transferred"] / total)


def _speeds(seen: MoveSeen) -> Iterable[Sample]:
    at, rates = seen.arriving
    if not rates.size:
        return
    yield Sample("bandwidth", "Mbit/s", rates)
    if line := seen.about.get("rate_mbit"):
        yield Sample("share of line", "share", rates / line)
    for one in seen.rounds:
        inside = rates[(at >= one.begun) & (at <= one.ended)]
        if inside.size:
            yield Sample(f"{one.name} bandwidth", "Mbit/s", inside)
    for side, host in (("origin", seen.origin), ("destination", seen.to)):
        busy = seen.cpu(host)[1]
        if busy.size:
            yield Sample(f"cpu of the {side}", "CPUs", busy)
    busy, cpus = seen.cpu(seen.to)[1], seen.cpus(seen.to)
    if busy.size and cpus:
        yield Sample("cpu utilization", "share", busy / cpus)
    helping = seen.cpu(seen.origin, *HELPERS)[1]
    if helping.size:
        yield Sample("cpu of the helpers", "CPUs", helping)


# On a link of its own, where there is one.
def _came(net: Mapping[str, Sequence[int]]) -> int:
    names = [name for name in net if name.startswith("crossing")]
    return sum(net[name][0] for name in names or net)


FALLEN, LEAST, RECOVERED = 0.9, 0.5, 0.95
"""Shares of what was reached before: below the first is a dip, the last counts as before.

A load that varies by itself has to fall by more, three of its standard deviations; half is enough.
"""
DEVIATIONS = 3
FEWEST = 3
"""The fewest values before the event; their mean is the load's own rate."""
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Span:
    """An event in seconds since 1970; the guest may have stood still in its midst.

    What is prepared for it takes CPU time from the load, from `prepared` until it has `begun`.
    """

    prepared: float
    begun: float
    stopped: float | None
    resumed: float | None
    ended: float


def dips(span: Span, loads: Mapping[str, Series]) -> list[Sample]:
    """Depth, time to recover, work lost, and the load while memory was copied."""
    return [sample for at, values in loads.values() for sample in _dip(span, at, values)]


def _dip(span: Span, at: Values, values: Values) -> Iterable[Sample]:
    before = values[at < span.prepared]
    if before.size < FEWEST or not before.mean() > 0:
        return
    share = values / before.mean()
    meanwhile = (at >= span.begun) & (at <= span.ended + 1)
    if not meanwhile.any():
        return
    yield Sample.single("load before", "1/s", before.mean())
    yield Sample.single("depth", "share", max(0.0, 1 - float(share[meanwhile].min())))
    copying = (at >= span.begun) & (at <= span.ended) & ~_still(span, at)
    if span.stopped is not None and copying.any():
        varies = DEVIATIONS * float(before.std(ddof=1) / before.mean())
        steady = share[copying] >= max(LEAST, min(FALLEN, 1 - varies))
        yield Sample.single("steady share", "share", steady.mean())
        yield Sample.single("load while copying", "share", share[copying].mean())
    lost = float((before.mean() - values[meanwhile]).sum()) * _measure_step(at[meanwhile])
    yield Sample.single("work lost", "1", max(0.0, lost))
    if span.resumed is not None:
        # None where that never comes.
        for back in at[(at > span.resumed) & (share >= RECOVERED)][:1]:
            yield Sample.single("recovery time", "s", back - span.resumed)


# A value is of the time around its moment, so those next to the standing still belong to it.
def _still(span: Span, at: Values) -> npt.NDArray[np.bool_]:
    stopped = np.inf if span.stopped is None else span.stopped
    resumed = span.ended if span.resumed is None else span.resumed
    beside = _measure_step(at) / 2
    return (at >= stopped - beside) & (at <= resumed + beside)


# Seconds between two values.
def _measure_step(at: Values) -> float:
    return float(np.median(np.diff(at))) if at.size > 1 else 1.0
