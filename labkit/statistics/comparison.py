"""A comparison of a figure with its limits: what was found, and what is clear among all."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from labkit.errors import BadInput, LabkitError
from labkit.statistics import percentiles, spending
from labkit.statistics.estimate import blocks_lacking, estimated, least_of
from labkit.statistics.interval import FAR
from labkit.statistics.percentiles import Blocks, Estimate
from labkit.statistics.quantity import Quantity, Statistic
from labkit.statistics.spending import RISK as RISK
from labkit.statistics.spending import History, holm

SAME = "same within the margin"
SIDES = ("below", "inside", "above")
NEVER = History()
MARGIN = 0.05
"""The distance too small to matter, unless a lab's noise or a document says otherwise."""
MOST_OF_BAND = 0.25
"""The most that a margin takes of the band that a claim itself calls the same, at each end."""
MOST_MARGIN = 0.2
"""A lab whose noise is larger has nothing to call equal by."""


@dataclass(frozen=True)
class Comparison:
    """Is this quantity below, inside or above the band `low` to `high`?

    Inside is as claimed, unless the claim says that it lies `outside`; `printed` is the document's.
    """

    what: Quantity
    low: float = -math.inf
    high: float = math.inf
    outside: bool = False
    printed: float | None = None
    order: bool = False
    key: str = ""
    """The name that its looks are kept under: the quantity, and its limits."""
    margin: float = 0.0
    """A figure clearly within this share of the nearest limit is too close to it to matter."""

    @classmethod
    def lower(cls, a: str, b: str, statistic: Statistic = 50, metric: str = "") -> Comparison:
        """`a` is lower than `b`; each is the name of a condition, or a quantity with quotes."""
        if "'" in a + b:
            return cls(Quantity(f"{a} - ({b})", statistic, metric), high=0.0)
        return cls(Quantity(f"'{a}' / '{b}'", statistic, metric), high=1.0, order=True)

    def keyed(self, margin: float | None) -> Comparison:
        """Itself, with its key; with margins of two claims there are two."""
        of = f"{self.what.text} {self.what.metric} {self.what.statistic}"
        band = f"{'outside' if self.outside else 'inside'} {self.low:g} to {self.high:g}"
        return replace(self, key=f"{of}: {band}{f', {margin:g}' if margin else ''}")

    def asked_of(self, blocks_of: Mapping[str, Blocks], kinds: Mapping[str, str]) -> Comparison:
        """Itself, or as a difference where it asks for an order of what is not always above 0.

        `kinds` are of the names whose values are counts, or shares of trials.
        """
        quantity, names = self.what.of_kinds(kinds), self.what.names if self.order else ()
        if all(least_of(blocks_of[name]) > 0 for name in names):
            return replace(self, what=quantity)
        return replace(self, what=quantity.as_difference(), high=0.0, printed=None)

    def near(self, margin: float | None, floors: Mapping[float, float]) -> Comparison:
        """Itself with this margin; without one, with the lab's noise at its percentile, or 5 %."""
        if margin is None:
            at = {q for q in self.what.percentiles.values() if q in floors}
            margin = min(max((floors[q] for q in at), default=MARGIN), MOST_MARGIN)
        check_margin(margin)
        return replace(self, margin=margin)


@dataclass(frozen=True)
class Effect:
    """A figure with its interval; an end is None where the measurements set no limit."""

    what: str
    """The quantity, as a reader sees it: `VM / Native`."""
    value: float
    low: float | None
    high: float | None
    blocks: int
    printed: float | None = None
    """The document's figure."""
    metric: str = ""
    percentile: float | None = None
    counts: str = ""
    """The numbers that it is of, if they are few: `3 of 4`."""
    coarse: bool = False
    """Whether steps of a clock bias it by more than its error knows."""
    each: tuple[float, ...] = ()
    """The figure in each block, where these are too few for an interval that teaches anything."""

    @property
    def equal(self) -> bool:
        """Whether all blocks came to the same, so that its interval has no width."""
        low, high = (min(self.each), max(self.each)) if self.each else (self.low, self.high)
        return low is not None and high is not None and math.isclose(low, high, rel_tol=1e-6)


@dataclass(frozen=True)
class Found:
    """The measurements of one comparison, `among` how many, and what it has crossed."""

    comparison: Comparison
    estimate: Estimate
    blocks: int
    lacking: Mapping[float, tuple[int, int]]
    """Percentile -> the blocks that it lacks, and the fewest samples of any side beyond it."""
    more: int = 0
    among: int = 1
    counted: float = 1.0
    history: History = NEVER

    @classmethod
    def of(cls, c: Comparison, blocks_of: Mapping[str, Blocks]) -> Found:
        """Measure it."""
        estimate = estimated(c.what, blocks_of)
        sides = [blocks_of[name] for name in c.what.names]
        common = len(set.intersection(*(set(side) for side in sides)))
        blocks = common if common >= percentiles.FEWEST_BLOCKS else min(map(len, sides))
        lacks = {q: number for q, number in blocks_lacking(c.what, blocks_of).items() if number}
        counts = [(q, percentiles.count(blocks_of[n])) for n, q in c.what.percentiles.items()]
        has = {q: min(percentiles.beyond(q, n) for at, n in counts if at == q) for q in lacks}
        more = max([*lacks.values(), percentiles.FEWEST_BLOCKS - blocks, 0])
        return cls(c, estimate, blocks, {q: (lacks[q], has[q]) for q in lacks}, more)

    @property
    def p(self) -> float:
        """Two-sided p value against the side of the band on which the figure is seen."""
        low, high, e = self.comparison.low, self.comparison.high, self.estimate
        inside = max(e.above(low), e.below(high))
        # Of three places the figure is in one, so two ends share a risk only where they meet.
        sides = 1 if math.isfinite(low) and math.isfinite(high) else 2
        return min(1.0, sides * inside, 2 * e.below(low), 2 * e.above(high))

    @property
    def band(self) -> tuple[float, float] | None:
        """The range too close to the nearest limit to matter; None if there is none."""
        c, e = self.comparison, self.estimate
        limits = [limit for limit in (c.low, c.high) if math.isfinite(limit)]
        if not limits or not c.margin or c.outside:
            return None
        at = min(limits, key=lambda limit: abs(e.scaled(e.value) - e.scaled(limit)))
        # Half of a claim's own band is the most: what is inside of that is never the same as both
        # its ends.
        if e.logarithmic and at > 0:
            power = e.scale / e.value if math.isfinite(e.scale) else 1.0
            by = min((1 + c.margin) ** power, (max(limits) / min(limits)) ** MOST_OF_BAND
                     if len(limits) == 2 and min(limits) > 0 else math.inf)  # fmt: skip
            return at / by, at * by
        reach = c.margin * (e.scale if math.isfinite(e.scale) else abs(at))
        if len(limits) == 2:
            reach = min(reach, MOST_OF_BAND * (limits[1] - limits[0]))
        return at - reach, at + reach

    @property
    def p_same(self) -> float:
        """Of two one-sided tests against "it lies outside of `band`" (Schuirmann 1987)."""
        if self.band is None:
            return 1.0
        low, high = self.band
        return max(self.estimate.above(low), self.estimate.below(high))

    @property
    def side(self) -> int:
        """-1 below the band, 0 inside, 1 above; where it is clear, as it was then."""
        if self.clear:
            return SIDES.index(self.history.crossed) - 1
        value, c = self.estimate.value, self.comparison
        return (value > c.high) - (value < c.low)

    @property
    def clear(self) -> bool:
        """Whether it is clearly on one side of its limits, among all comparisons and looks."""
        return self.history.crossed in SIDES

    @property
    def same(self) -> bool:
        """Whether it clearly lies so near to its limit as not to matter."""
        return self.history.crossed == SAME

    @property
    def confidence(self) -> float:
        """The confidence of its interval at this look; together those of all looks keep 95 %."""
        looks = self.history.looks
        return 1 - (spending.levels(looks)[-1] if looks else RISK)

    @property
    def good(self) -> bool:
        """Whether the figure is where the claim has it."""
        return (self.side == 0) != self.comparison.outside

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Its interval of 95 % over all looks; None for an end that measurements do not bind."""
        if self.estimate.each:
            return None, None
        i = self.estimate.interval(self.confidence)
        limits = self.comparison.low, self.comparison.high
        # However far an end may be, one that keeps a limit out is what a verdict rests on.
        far = FAR * self.estimate.scale  # beside what it is made of
        low = None if i.low < -far else i.least
        high = None if i.high > far else i.most
        if any(-math.inf < x <= i.low for x in limits):
            low = i.low
        if any(i.high <= x < math.inf for x in limits):
            high = i.high
        return low, high

    @property
    def effect(self) -> Effect:
        """The figure with its interval, as a value."""
        c, (low, high) = self.comparison, self.ends
        levels = {q for _, q in c.what.terms() if not isinstance(q, str)}
        percentile = levels.pop() if len(levels) == 1 else None
        return Effect(
            c.what.shown, self.estimate.value, low, high, self.blocks, c.printed,
            c.what.unsaid_metric, percentile, self.estimate.counts, self.estimate.coarse,
            self.estimate.each,
        )  # fmt: skip

    def after(self, risk: float) -> Found:
        """With the number of blocks that would make it clear, with this risk over all looks."""
        level = spending.levels([*self.history.looks, 2 * self.history.looks[-1]], risk)[-1]
        have = self.estimate.blocks
        have = percentiles.counted(have) if self.comparison.what.percentiles else have

        def decides(number: int) -> bool:
            forecast = replace(self, estimate=self.estimate.grown(number, have))
            return min(forecast.p, forecast.p_same) <= level

        blocks = range(max(self.more, 1), percentiles.MOST_BLOCKS + 1)
        return replace(self, more=blocks.start + bisect_left(blocks, True, key=decides))


Counts = Mapping[Comparison, float]


def found_of(
    comparisons: Iterable[Comparison], blocks_of: Mapping[str, Blocks]
) -> tuple[list[Found], dict[Comparison, str]]:
    """The measurements of each; for what divides by nothing, the reason why it has no figure."""
    findings: list[Found] = []
    refusals: dict[Comparison, str] = {}
    for c in dict.fromkeys(comparisons):
        try:
            findings.append(Found.of(c, blocks_of))
        except LabkitError as error:
            refusals[c] = error.what
    return findings, refusals


def together(
    findings: Sequence[Found],
    looks: Sequence[int] = (),
    before: Mapping[str, History] | None = None,
) -> list[Found]:
    """Judge what is clear if all share one risk, each over its own looks; foresee the blocks.

    `looks` are those at comparisons that `before` does not know. This one is added. What was
    decided before stays so, and leaves its share of the risk to the others (Maurer and Bretz 2013).
    """
    findings_begun = [_begin(f, looks, before or {}) for f in findings]
    tests = [f for f in findings_begun if f.estimate.enough]
    open_tests = [f for f in tests if not f.clear]
    apart = _holm(open_tests, lambda f: f.p, spending.FIRST)
    alike = _holm([f for f in tests if not f.same], lambda f: f.p_same, spending.SAME_FIRST)
    judged = [_crossing(replace(f, among=len(tests)), apart, alike) for f in findings_begun]
    # Holm's next step would ask this much of the smallest p value that is left.
    share = RISK / max(1, sum(p > RISK for p in apart.values()))
    return [f if f.history.crossed or not f.estimate.enough else f.after(share) for f in judged]


# Of figures that are not known well enough nothing can be decided, so that looks cost nothing.
def _begin(f: Found, looks: Sequence[int], before: Mapping[str, History]) -> Found:
    history = before.get(f.comparison.key)
    if not f.estimate.enough:
        return replace(f, history=history or NEVER)
    history = history or History(tuple(n for n in looks if n <= f.blocks))
    return replace(f, history=replace(history, looks=history.with_look(f.blocks)))


def _holm(measurements: Sequence[Found], p: Callable[[Found], float], first: float) -> Counts:
    risks = holm([spending.counted(p(f), f.history.looks, first) for f in measurements])
    return {f.comparison: risk for f, risk in zip(measurements, risks, strict=True)}


def _crossing(f: Found, apart: Counts, alike: Counts) -> Found:
    risk = f.history.counted if f.clear else apart.get(f.comparison, 1.0)
    side = ""
    if not f.history.crossed and risk <= RISK:
        side = SIDES[f.side + 1]
    elif not f.history.crossed and alike.get(f.comparison, 1.0) <= RISK:
        side = SAME
    crossing = replace(f.history, crossed=side, at=f.blocks, counted=risk)
    return replace(f, counted=risk, history=crossing if side else f.history)


def check_margin(margin: float | None) -> None:
    """Refuse a margin that nothing can be within, or that everything is; None asks for none."""
    if margin is not None and not 0 < margin <= 1:
        problem = f"a margin lies above 0 and is at most 1 (100 %), not {margin:g}"
        raise BadInput(problem, hint="0.05 calls the same what differs by less than 5 %")


def named(percentile: float) -> str:
    """`the median`, `p99.9`."""
    return "the median" if percentile == 50 else f"p{percentile:g}"


def figure(value: float, digits: int = 2) -> str:
    """A number with as many digits as it deserves."""
    if abs(value) >= 10_000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.{min(max(digits, 0), 9)}f}"
