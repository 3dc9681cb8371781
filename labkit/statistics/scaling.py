"""How something grows with load: speed-up, fits with intervals, the knee, the load under a limit.

Repeats of one load are kept apart, for their scatter is what the intervals are made of. Limits come
from the profile of the fit: the values that a parameter can be held at before the rest fits clearly
worse (F test). That needs no bell shape and ends properly at 0, where a standard error does not.

The Universal Scalability Law (N. Gunther, "Guerrilla Capacity Planning", 2007) says

    throughput(n) = rate * n / (1 + contention * (n - 1) + coherency * n * (n - 1))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from labkit.errors import BadInput
from labkit.statistics.distribution import Values
from labkit.statistics.percentiles import Interval

FEWEST_LOADS = 3
ENDLESS = 100
"""A peak at more than so many times the largest load is none."""
TRIED = 100


@dataclass(frozen=True)
class Curve:
    """Rising loads, and for each the values that its repeats gave."""

    loads: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, measured: Mapping[float, Sequence[float]], fewest: int = FEWEST_LOADS) -> Curve:
        """Load -> values of its repeats, the loads from the smallest to the largest."""
        loads = tuple(float(load) for load in measured)
        values = tuple(tuple(float(value) for value in repeats) for repeats in measured.values())
        if len(loads) < fewest:
            raise BadInput(f"{len(loads)} loads are too few for this; {fewest} are enough")
        if any(b <= a for a, b in pairwise(loads)):
            raise BadInput("the loads must rise", hint="sort them, and name each once")
        for load, repeats in zip(loads, values, strict=True):
            if not repeats:
                raise BadInput(f"load {load:g} has no value")
            if not all(0 < number < math.inf for number in (load, *repeats)):
                raise BadInput(f"load {load:g}: loads and values are above 0 and finite")
        return cls(loads, values)

    @property
    def points(self) -> tuple[Values, Values]:
        """Every single value, beside its load."""
        sizes = [len(repeats) for repeats in self.values]
        return np.repeat(self.loads, sizes), np.concatenate([np.array(v) for v in self.values])


@dataclass(frozen=True)
class SpeedUp:
    """How many times the smallest load's value a load gives; `efficiency` 1 is proportional."""

    load: float
    times: Interval
    efficiency: float


@dataclass(frozen=True)
class StraightLine:
    """value = start + slope * load."""

    start: Interval
    slope: Interval
    r_squared: float


@dataclass(frozen=True)
class ScalabilityLaw:
    """Its three parameters, and the load of its peak, which is endless without coherency cost."""

    rate: Interval
    contention: Interval
    coherency: Interval
    peak: Interval
    r_squared: float

    def at(self, load: float) -> float:
        """The throughput at a load."""
        law = (math.log(self.rate.value), self.contention.value, self.coherency.value)
        return float(np.exp(_log_law(np.array([load]), *law)[0]))


@dataclass(frozen=True)
class Knee:
    """Where two lines meet; `found` when they fit clearly better than one (`p`)."""

    load: Interval
    before: float
    after: float
    p: float

    @property
    def found(self) -> bool:
        """Whether there is a knee at all."""
        return self.p <= 0.05

    @property
    def plateau(self) -> bool:
        """Whether what follows the knee rises at less than a tenth of the rate before it."""
        return self.found and self.after < 0.1 * self.before


def speed_up(measured: Mapping[float, Sequence[float]]) -> list[SpeedUp]:
    """Each load against the smallest; repeats that were made in the same block cancel its luck."""
    curve = Curve.of(measured, fewest=2)
    first = np.log(curve.values[0])
    found = []
    for load, repeats in zip(curve.loads, curve.values, strict=True):
        times = _log_ratio(np.log(repeats), first)
        found.append(SpeedUp(load, times, times.value * curve.loads[0] / load))
    return found


def line(measured: Mapping[float, Sequence[float]]) -> StraightLine:
    """The straight line of least squares, with Student's intervals."""
    from scipy.stats import linregress, t

    loads, values = Curve.of(measured).points
    fit = linregress(loads, values)
    far = float(t.ppf(0.975, loads.size - 2))
    enough = loads.size > FEWEST_LOADS
    start, slope = (
        Interval(float(v), float(v - far * e), float(v + far * e), enough)
        for v, e in ((fit.intercept, fit.intercept_stderr), (fit.slope, fit.stderr))
    )
    return StraightLine(start, slope, float(fit.rvalue**2))


def scalability_law(measured: Mapping[float, Sequence[float]]) -> ScalabilityLaw:
    """The law that fits best by relative error, from four loads or more."""
    loads, values = Curve.of(measured, fewest=4).points
    seen = np.log(values)

    def free(rate: float, contention: float, coherency: float) -> Values:
        return _log_law(loads, rate, contention, coherency) - seen

    def peaked(peak: float, rate: float, contention: float) -> Values:
        return free(rate, contention, max(1 - contention, 0) / peak**2)

    start = (float(seen[0] - math.log(loads[0])), 0.05, 1e-3)
    lowest, highest = (-math.inf, 0.0, 0.0), (math.inf, 1.0, 1.0)
    best, rest = _least(free, start, lowest, highest)
    limit = _worst_rest(rest, loads.size, 3)
    intervals = [_profile(free, best, at, limit, lowest, highest) for at in range(3)]
    value, low, high = (math.exp(x) for x in (best[0], intervals[0].low, intervals[0].high))
    rate = Interval(value, low, high, True)
    peak = _peak(peaked, best, limit, loads[-1])
    whole = float(np.sum((seen - seen.mean()) ** 2))
    return ScalabilityLaw(
        rate, intervals[1], intervals[2], peak, 1 - rest / whole if whole else 1.0
    )


def knee(measured: Mapping[float, Sequence[float]]) -> Knee:
    """Two lines that meet, from five loads or more (segmented regression, R. Davies 1987).

    As where they meet is chosen to fit best, their advantage counts with three degrees of freedom.
    """
    from scipy.stats import f

    curve = Curve.of(measured, fewest=5)
    loads, values = curve.points
    # Two loads at least on either side, or one end would be a line through anything.
    tried = np.linspace(curve.loads[1], curve.loads[-2], TRIED)
    rests = np.array([_bent(loads, values, bend)[1] for bend in tried])
    at = int(np.argmin(rests))
    (_, before, change), rest = _bent(loads, values, tried[at])
    _, straight = _bent(loads, values, None)
    freedom = max(loads.size - 4, 1)
    scale = max(rest, 1e-12 * float(values @ values)) / freedom
    p = float(f.sf((straight - rest) / 3 / scale, 3, freedom))
    inside = tried[rests <= rest + scale * float(f.ppf(0.95, 1, freedom))]
    place = Interval(float(tried[at]), float(inside.min()), float(inside.max()), loads.size > 5)
    return Knee(place, float(before), float(before + change), p)


def most_under(limit: float, measured: Mapping[float, Interval]) -> Interval:
    """The load at which a value that rises with load, such as p99, comes to a limit.

    Between two loads the logarithm of the value is taken to be straight. The low end is where the
    upper limits of the values cross it first, the high end where their lower limits do. Without a
    crossing an end is 0 or the largest load, and the answer is not `enough`: measure beyond it.
    """
    loads = Curve.of({load: (i.value,) for load, i in measured.items()}, fewest=2).loads
    if not 0 < limit < math.inf:
        raise BadInput(f"a limit is above 0 and finite, not {limit!r}")
    found = list(measured.values())
    if any(not 0 < i.low <= i.value <= i.high < math.inf for i in found):
        raise BadInput("the values need intervals above 0")
    middle = _crossing(loads, [i.value for i in found], limit)
    low = _crossing(loads, [i.high for i in found], limit)
    high = _crossing(loads, [i.low for i in found], limit)
    crossed = low > 0 and high < math.inf
    enough = crossed and all(i.enough for i in found)
    low, middle, high = (min(x, loads[-1]) for x in (low, middle, high))
    return Interval(middle, low, high, enough)


def _crossing(loads: Sequence[float], values: Sequence[float], limit: float) -> float:
    # 0: over the limit from the start; infinite: never over it.
    over = [value > limit for value in values]
    if not any(over):
        return math.inf
    at = over.index(True)
    if at == 0:
        return 0.0
    low, high = math.log(values[at - 1]), math.log(values[at])
    share = (math.log(limit) - low) / (high - low)
    return loads[at - 1] + share * (loads[at] - loads[at - 1])


def _log_ratio(over: Values, under: Values) -> Interval:
    # Student's interval of a ratio of geometric means; paired when both have as many repeats.
    from scipy.stats import t

    value = float(over.mean() - under.mean())
    freedom: float
    if over.size == under.size > 1:
        freedom, error = over.size - 1, float((over - under).std(ddof=1)) / math.sqrt(over.size)
    elif min(over.size, under.size) > 1:
        parts = [float(x.var(ddof=1)) / x.size for x in (over, under)]
        error = math.sqrt(sum(parts))
        welch = sum(p**2 / (x.size - 1) for p, x in zip(parts, (over, under), strict=True))
        freedom = sum(parts) ** 2 / welch if welch else over.size + under.size - 2
    else:
        return Interval(math.exp(value), 0.0, math.inf, False)
    far = float(t.ppf(0.975, freedom)) * error
    return Interval(math.exp(value), math.exp(value - far), math.exp(value + far), over.size > 2)


def _log_law(loads: Values, rate: float, contention: float, coherency: float) -> Values:
    slowed = contention * (loads - 1) + coherency * loads * (loads - 1)
    found: Values = rate + np.log(loads) - np.log1p(np.maximum(slowed, -0.999))
    return found


Residuals = Callable[..., Values]


def _least(
    residuals: Residuals, start: Sequence[float], low: Sequence[float], high: Sequence[float]
) -> tuple[Values, float]:
    from scipy.optimize import least_squares

    inside = np.clip(start, np.array(low) + 1e-9, np.array(high) - 1e-9)

    def all_at_once(free: Values) -> Values:
        return residuals(*free)

    fit = least_squares(all_at_once, inside, bounds=(low, high), xtol=1e-12, ftol=1e-12)
    found: Values = np.asarray(fit.x, np.float64)
    return found, 2 * float(fit.cost)


def _worst_rest(rest: float, points: int, parameters: int) -> float:
    from scipy.stats import f

    freedom = points - parameters
    return max(rest, 1e-18) * (1 + float(f.ppf(0.95, 1, freedom)) / freedom)


def _profile(
    residuals: Residuals, best: Values, at: int, limit: float,
    low: Sequence[float], high: Sequence[float],
) -> Interval:  # fmt: skip
    others = [n for n in range(best.size) if n != at]

    def rest(held: float) -> float:
        def some(*free: float) -> Values:
            whole = best.copy()
            whole[others], whole[at] = free, held
            return residuals(*whole)

        bounds = [low[n] for n in others], [high[n] for n in others]
        return _least(some, best[others].tolist(), *bounds)[1] - limit

    value = float(best[at])
    step = max(abs(value), 1e-4) / 10
    return Interval(
        value, _edge(rest, value, -step, low[at]), _edge(rest, value, step, high[at]), True
    )


def _peak(peaked: Residuals, best: Values, limit: float, largest: float) -> Interval:
    rate, contention, coherency = best
    value = math.sqrt(max(1 - contention, 0) / max(coherency, 1e-18))
    if value > ENDLESS * largest:
        value = math.inf

    def rest(peak: float) -> float:
        start, low, high = (rate, contention), (-math.inf, 0.0), (math.inf, 1.0)
        return _least(lambda *free: peaked(peak, *free), start, low, high)[1] - limit

    far = ENDLESS * largest
    begin = min(value, far)
    low = _edge(rest, begin, -begin / 10, 1e-3)
    high = math.inf if rest(far) <= 0 else _edge(rest, begin, begin / 10, far)
    return Interval(value, low, high, math.isfinite(high))


def _edge(rest: Callable[[float], float], value: float, step: float, bound: float) -> float:
    # Where the fit becomes clearly worse, in growing steps to one side; the bound if it never does.
    from scipy.optimize import brentq

    inside = value
    for _ in range(60):
        outside = value + step
        if (outside - bound) * step >= 0:
            outside = bound
        if rest(outside) > 0:
            return float(brentq(rest, inside, outside, rtol=1e-4)) if rest(inside) <= 0 else inside
        if outside == bound:
            return bound
        inside, step = outside, 1.6 * step
    return bound


def _bent(loads: Values, values: Values, bend: float | None) -> tuple[Values, float]:
    columns = [np.ones(loads.size), loads]
    if bend is not None:
        columns.append(np.maximum(loads - bend, 0))
    matrix = np.column_stack(columns)
    found: Values = np.asarray(np.linalg.lstsq(matrix, values, rcond=None)[0], np.float64)
    return found, float(np.sum((values - matrix @ found) ** 2))
