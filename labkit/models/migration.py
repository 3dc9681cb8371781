"""A live migration as a formula: rounds over memory, then a moment of standing still.

A guest writes at random into a working set of W bytes, D bytes of pages a second. So in t seconds
W (1 - exp(-D t / W)) bytes become dirty. Each round sends what the one before left dirty. Pre-copy
goes over when the rest fits into the downtime that is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from labkit.errors import BadInput, Unknown
from labkit.statistics.percentiles import student

VARIANTS = ("pre-copy", "throttle", "post-copy")
MOST_ROUNDS = 200
FIRST_THROTTLE, MORE_THROTTLE, MOST_THROTTLE = 0.2, 0.1, 0.99
"""The slowdown of a guest by QEMU's auto-converge: at first, with each round, and at most."""
FAIR = 0.5
"""Of what is sent, the share that may become dirty meanwhile before a guest is slowed down."""
WORDS = ("efficiency", "capacity", "stop")


@dataclass(frozen=True)
class Migrating:
    """A guest and the link that it moves over: bytes, bytes a second, and seconds."""

    memory: float
    """Bytes that the first round sends: pages that hold nothing are hardly sent."""
    line: float
    dirty: float = 0.0
    """Bytes of the pages that the guest writes a second."""
    working_set: float = 0.0
    downtime: float = 0.3
    """Seconds that it may stand still."""
    stop: float = 0.02
    """Seconds that standing still takes beside sending: devices, and the way there and back."""
    efficiency: float = 0.95
    """The share of the line that memory fills."""
    capacity: float = math.inf
    """The most that the hosts can send, however fast the line."""
    variant: str = "pre-copy"
    deadline: float = 600.0

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise Unknown("variant of a migration", self.variant, VARIANTS)
        if not (self.memory > 0 and self.line > 0 and self.dirty >= 0 <= self.working_set):
            raise BadInput("a migration has memory and a line, and no rate below 0")

    @property
    def rate(self) -> float:
        """Bytes a second that memory really goes at."""
        return min(self.efficiency * self.line, self.capacity)

    def dirtied(self, seconds: float, brake: float = 0.0) -> float:
        """Bytes that are dirty after so long; each page counts once."""
        number, bytes_written = self.working_set, self.dirty * (1 - brake) * seconds
        return number * -math.expm1(-bytes_written / number) if number else 0.0

    def planned(self) -> Planned:
        """The predicted course of the migration."""
        rounds, remainder, brake = [self.memory / self.rate], 0.0, 0.0
        while len(rounds) < MOST_ROUNDS:
            remainder = self.dirtied(rounds[-1], brake)
            if self.variant == "post-copy" or remainder <= self.rate * self.downtime:
                break
            if sum(rounds) > self.deadline:
                return Planned(tuple(rounds), remainder / self.rate + self.stop, 0.0, False, brake)
            if self.variant == "throttle" and remainder > FAIR * self.rate * rounds[-1]:
                next_brake = brake + MORE_THROTTLE if brake else FIRST_THROTTLE
                brake = min(MOST_THROTTLE, next_brake)
            rounds.append(remainder / self.rate)
        last = remainder / self.rate
        if self.variant == "post-copy":
            return Planned(tuple(rounds), self.stop, last, True, brake)
        fits = remainder <= self.rate * self.downtime
        return Planned(tuple(rounds), last + self.stop, 0.0, fits, brake)


@dataclass(frozen=True)
class Planned:
    """Seconds of each round, of standing still, and of fetching what is missing afterwards."""

    rounds: tuple[float, ...]
    stopped: float
    after: float
    converged: bool
    """Whether the rest fits into the downtime; else `stopped` is what it would take."""
    slowed: float
    """The share of its speed that the guest had lost in the end."""

    @property
    def total(self) -> float:
        """Seconds from the first byte to the last."""
        return sum(self.rounds) + self.stopped + self.after


@dataclass(frozen=True)
class Observed:
    """One measured migration: its known figures, how long it took, and how long it stood still."""

    asked: Migrating
    total: float
    stopped: float
    rounds: int
    label: str = ""


@dataclass(frozen=True)
class FittedMigration:
    """The parameters that suit the measured migrations best, each with its 95 % interval."""

    values: Mapping[str, float]
    low: Mapping[str, float]
    high: Mapping[str, float]
    observed: tuple[Observed, ...]

    def applied(self, migrating: Migrating) -> Migrating:
        """A migration with these parameters."""
        return _with(migrating, self.values)

    def rows(self) -> list[dict[str, float | str]]:
        """The differences between model and runs: seconds of both."""
        pairs = [(run, self.applied(run.asked).planned()) for run in self.observed]
        return [
            {"run": run.label, "measured (s)": round(run.total, 2),
             "model (s)": round(plan.total, 2), "rounds": run.rounds,
             "of the model": len(plan.rounds),
             "stopped (s)": round(run.stopped, 3), "by the model": round(plan.stopped, 3)}
            for run, plan in pairs
        ]  # fmt: skip


def fitted(runs: Sequence[Observed]) -> FittedMigration:
    """Fit efficiency, capacity and the cost of stopping, on logarithms of the times.

    Capacity is bound by runs only where a line was faster; its interval is open otherwise.
    """
    from scipy.optimize import least_squares

    if len(runs) <= len(WORDS):
        raise BadInput(f"{len(runs)} migrations are too few to fit {len(WORDS)} parameters")
    first = runs[0].asked
    fastest = max(point.asked.line for point in runs)
    start = np.log([0.8, 0.5 * fastest, max(first.stop, 1e-3)])
    bounds = (start - np.log([20, 1000, 1000]), start + np.log([1.4, 1000, 1000]))

    def away(logs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        values = dict(zip(WORDS, np.exp(logs).tolist(), strict=True))
        plans = [_with(point.asked, values).planned() for point in runs]
        total = [math.log(p.total / point.total) for p, point in zip(plans, runs, strict=True)]
        # Standing still is short and noisy, and weighs less.
        stop = [0.2 * math.log(max(p.stopped, 1e-4) / max(point.stopped, 1e-4))
                for p, point in zip(plans, runs, strict=True)]  # fmt: skip
        return np.array([*total, *stop])

    solution = least_squares(away, start, bounds=bounds)
    slopes: npt.NDArray[np.float64] = np.asarray(solution.jac, dtype=np.float64)
    freedom = max(1, 2 * len(runs) - len(WORDS))
    spread = np.linalg.pinv(slopes.T @ slopes) * 2 * float(solution.cost) / freedom
    wide = student(freedom) * np.sqrt(np.diag(spread))
    wide[np.abs(slopes).sum(axis=0) < 1e-9] = np.inf
    at = np.asarray(solution.x, dtype=np.float64)
    ends = [
        dict(zip(WORDS, np.exp(point).tolist(), strict=True))
        for point in (at, at - wide, at + wide)
    ]
    return FittedMigration(ends[0], ends[1], ends[2], tuple(runs))


def _with(migrating: Migrating, values: Mapping[str, float]) -> Migrating:
    efficiency, capacity, stop = (values[word] for word in WORDS)
    return replace(migrating, efficiency=efficiency, capacity=capacity, stop=stop)
