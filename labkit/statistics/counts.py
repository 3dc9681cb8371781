"""Counts, and shares of trials: what they show is exact, whether or not they vary.

Three of three show that more than 29 % succeed, and no more than that. A share has the binomial
interval of Clopper and Pearson (1934), a count the Poisson interval of Garwood (1936). A figure of
several takes the limits of each, added as squares (Zou and Donner 2008). Where blocks vary by more
than such numbers do, Student's error of their means counts beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from labkit.errors import BadInput
from labkit.statistics.interval import Interval
from labkit.statistics.percentiles import FEWEST_BLOCKS, NORMAL, SMALLEST, Blocks, Estimate, spread
from labkit.statistics.pooled import Values
from labkit.statistics.quantity import Quantity, Term

COUNT, SHARE = "count", "share"
KINDS: Mapping[str, tuple[float, float]] = {COUNT: (0.0, math.inf), SHARE: (0.0, 1.0)}
"""The kinds of such metrics, and between what each figure of them lies."""
VARIATION_RISK = 0.05
"""Blocks vary by more than chance if chance alone would do so this seldom."""
RISKS = np.geomspace(1e-15, 0.5, 300)
"""The risks between which the p value of a figure of several is interpolated."""
FARTHEST = 1e300


@dataclass(frozen=True)
class Counted:
    """The sum of all values, and of how many trials or runs it is."""

    kind: str
    total: float
    of: float

    @property
    def value(self) -> float:
        """The share, or the count of a run."""
        return self.total / self.of

    def end(self, risks: Values, *, high: bool) -> Values:
        """The limits that the true figure exceeds, on that side, with these risks."""
        from scipy.special import betaincinv, gammaincinv

        k, n = self.total + high, self.of
        at = 1 - risks if high else risks
        if k == 0 or k > n * KINDS[self.kind][1]:
            return np.full(risks.size, float(k > 0))
        if self.kind == COUNT:
            return np.asarray(gammaincinv(k, at) / n, np.float64)
        return np.asarray(betaincinv(k, n - k + 1, at), np.float64)

    def tail(self, limit: float, *, high: bool) -> float:
        """The chance of as few as were seen, or as many, if the limit were the true figure."""
        from scipy.special import betainc, gammainc

        k, n, ceiling = self.total + high, self.of, KINDS[self.kind][1]
        at = min(max(limit, 0.0), ceiling)
        if k == 0 or k > n * ceiling:
            return float(limit <= ceiling) if high else 1.0
        if self.kind == COUNT:
            as_many = float(gammainc(k, n * at)) if math.isfinite(at) else 1.0
        else:
            as_many = float(betainc(k, n - k + 1, at))
        return 1 - as_many if high else as_many


@dataclass(frozen=True)
class Exact(Estimate):
    """A figure of counts or shares; its p values and intervals are from their own distributions."""

    what: Quantity = field(kw_only=True)
    counted: Mapping[Term, Counted] = field(kw_only=True)
    varied: Estimate | None = None
    """By the means of blocks, if these vary by more than chance."""

    @property
    def counts(self) -> str:
        """The numbers that it is of: `3 of 4`, or `7 in 3 runs`."""
        if not self.what.alone:
            return ""
        (figure,) = self.counted.values()
        if figure.kind == SHARE:
            return f"{figure.total:g} of {figure.of:g}"
        return f"{figure.total:g} in {figure.of:g} runs"

    def interval(self, confidence: float = 0.95) -> Interval:
        """The two-sided interval of that confidence."""
        risk = np.array([(1 - confidence) / 2])
        low, high = (float(self._ends(risk, high=high)[0]) for high in (False, True))
        if self.varied:
            wider = self.varied.interval(confidence)
            low, high = min(low, wider.low), max(high, wider.high)
        return Interval(self.value, low, high, self.enough)

    def below(self, limit: float) -> float:
        """The one-sided p value against "it is not below `limit`"."""
        return max(self._risk(limit, high=True), self.varied.below(limit) if self.varied else 0.0)

    def above(self, limit: float) -> float:
        """The one-sided p value against "it is not above `limit`"."""
        return max(self._risk(limit, high=False), self.varied.above(limit) if self.varied else 0.0)

    def grown(self, number: int, have: int) -> Exact:
        """The same value as it is foreseen when `number` blocks are added to `have`."""
        by = 1 + number / have
        counts = {t: replace(c, total=c.total * by, of=c.of * by) for t, c in self.counted.items()}
        variation = self.varied.grown(number, have) if self.varied else None
        return replace(self, counted=counts, varied=variation)

    # The ends that are exceeded with these risks; each figure's own end moves it, all else held.
    def _ends(self, risks: Values, *, high: bool) -> Values:
        values = {term: figure.value for term, figure in self.counted.items()}
        off = np.zeros(risks.size)
        for term, figure in self.counted.items():
            shifts = [self.what.all_of({**values, term: figure.end(risks, high=side)}) - self.value
                      for side in (False, True)]  # fmt: skip
            off = np.hypot(off, np.maximum(*shifts) if high else np.minimum(*shifts))
        off = np.where(np.isfinite(off), off, FARTHEST)
        return np.clip(self.value + off * (1 if high else -1), *self.range)

    # The least risk at which the interval leaves the limit out.
    def _risk(self, limit: float, *, high: bool) -> float:
        if self.what.alone:
            return next(iter(self.counted.values())).tail(limit, high=high)
        order = slice(None, None, -1 if high else 1)
        ends = np.nan_to_num(self._ends(RISKS, high=high), posinf=FARTHEST, neginf=-FARTHEST)
        return math.exp(float(np.interp(limit, ends[order], np.log(RISKS)[order])))


def exact(quantity: Quantity, sides: Mapping[str, Blocks]) -> Exact:
    """The figure of counts and shares, of all blocks of each condition."""
    runs = {term: [*sides[term[0]].values()] for term in quantity.terms()}
    counts = {term: _count(quantity, term, values) for term, values in runs.items()}
    value = quantity.of(lambda term: counts[term].value)
    ceilings = {term[0]: KINDS[figure.kind][1] for term, figure in counts.items()}
    blocks = min(map(len, runs.values()))
    figure = Exact(value, value, SMALLEST, SMALLEST, max(blocks - 1, 1), blocks,
                  blocks >= FEWEST_BLOCKS, False, quantity.range_of(0.0, ceilings),
                  what=quantity, counted=counts)  # fmt: skip
    low, high = figure.interval().low, figure.interval().high
    figure = replace(figure, down=(value - low) / NORMAL, up=(high - value) / NORMAL)
    return replace(figure, varied=_vary(figure, runs))


def _count(quantity: Quantity, term: Term, runs: list[Values]) -> Counted:
    kind, values = str(term[1]), np.concatenate(runs)
    if kind not in KINDS:
        raise BadInput(f"{quantity.shown} mixes counts or shares of trials with other figures")
    low, high = KINDS[kind]
    if (values < low).any() or (values > high).any() or (values != np.round(values)).any():
        legal = "0 or 1" if kind == SHARE else "a whole number"
        raise BadInput(f"{quantity.shown}: each value of a {kind} is {legal}")
    return Counted(kind, float(values.sum()), float(values.size))


# By Student's t of the blocks' means, if the blocks of any term vary too much for chance.
def _vary(figure: Exact, runs: Mapping[Term, list[Values]]) -> Estimate | None:
    figures_of = figure.counted
    if figure.blocks < FEWEST_BLOCKS or not any(map(_varies, figures_of.values(), runs.values())):
        return None
    errors = []
    for term, values in runs.items():
        held = {t: counts.value for t, counts in figures_of.items()}
        means = (float(block.mean()) for block in values)
        figures = [float(figure.what.all_of({**held, term: mean})) for mean in means]
        errors.append(spread(figures) if np.isfinite(figures).all() else math.inf)
    error = max(math.hypot(*errors), SMALLEST)
    return Estimate(figure.value, figure.value, error, error, figure.freedom,
                    figure.blocks, figure.enough, False, figure.range)  # fmt: skip


def _varies(count: Counted, runs: list[Values]) -> bool:
    from scipy.special import chdtrc

    p, sizes = count.value, np.array([run.size for run in runs])
    expectation = p * (1 - p if count.kind == SHARE else 1) * sizes
    if not expectation.min() > 0 or (count.kind == SHARE and sizes.max() == 1):
        return False
    away = np.array([run.sum() for run in runs]) - p * sizes
    return float(chdtrc(len(runs) - 1, float((away**2 / expectation).sum()))) < VARIATION_RISK
