"""Claims of a document, in our words, and the verdicts that measured blocks allow on them.

A claim is about shape (who is lower, by what factor), never about absolute figures: those belong to
the document's hardware. All comparisons that are judged together share one 5 % risk of a wrong
verdict (Holm), so looking at more of them never makes a chance finding count.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar

import numpy.typing as npt

from labkit import stats
from labkit.errors import BadInput
from labkit.stats import Blocks

HOLDS, CONTRADICTED = "holds", "contradicted"
UNDECIDED, NOT_TESTABLE = "undecided", "not testable here"
RISK = 0.05


@dataclass(frozen=True)
class Verdict:
    """What the measurements say about one claim; `why` is a sentence with the figures.

    `effect` is the ratio that is most in doubt with its 95 % interval, `published` the document's.
    """

    claim: str
    statement: str
    form: str
    verdict: str
    why: str
    effect: float | None
    low: float | None
    high: float | None
    published: float | None
    blocks: int
    source: str


@dataclass(frozen=True)
class Comparison:
    """Is `over` / `under` at this percentile below, inside or above the band `low` to `high`?"""

    over: str
    under: str
    percentile: float
    low: float = 1.0
    high: float = 1.0


@dataclass(frozen=True)
class Found:
    """What was measured of one comparison, and whether it is `clear` `among` all that were made."""

    comparison: Comparison
    estimate: stats.Estimate
    blocks: int
    beyond: int
    more: int
    clear: bool = False
    among: int = 1

    @property
    def p(self) -> float:
        """Two-sided p value against the side of the band on which the ratio is seen."""
        low, high, e = self.comparison.low, self.comparison.high, self.estimate
        inside = max(e.above(low), e.below(high))
        return min(1.0, 2 * min(inside, e.below(low), e.above(high)))

    @property
    def side(self) -> int:
        """-1 below the band, 0 inside, 1 above."""
        ratio, c = self.estimate.value, self.comparison
        return (ratio > c.high) - (ratio < c.low)

    @property
    def figures(self) -> str:
        """The ratio with its interval, as words."""
        c, i = self.comparison, self.estimate.interval()
        # Two digits of the interval's width, so that its ends never look like 1 when they are not.
        digits = 1 - math.floor(math.log10(max(i.high - i.low, 1e-3 * i.value)))
        value, low, high = (_figure(x, digits) for x in (i.value, i.low, i.high))
        return f"{c.over} / {c.under} = {value} ({low} to {high}) at {named(c.percentile)}"


@dataclass(frozen=True)
class Claim(ABC):
    """One testable statement of a document, in our words; `source` is the figure or section."""

    form: ClassVar[str]

    id: str
    statement: str
    source: str

    @abstractmethod
    def comparisons(self) -> list[Comparison]:
        """What has to be compared to judge it."""

    @abstractmethod
    def decide(self, found: Sequence[Found]) -> Verdict:
        """The verdict, once all comparisons of it have been made."""

    def judge(self, measured: Mapping[str, Blocks]) -> Verdict:
        """The verdict on this claim alone."""
        return judge([self], measured)[0]

    def missing(self, measured: Mapping[str, Blocks]) -> list[str]:
        """The conditions that it speaks of and that were not measured."""
        asked = [name for c in self.comparisons() for name in (c.over, c.under)]
        return [name for name in dict.fromkeys(asked) if not measured.get(name)]

    def not_testable(self, why: str) -> Verdict:
        """The verdict on a claim that these measurements say nothing about."""
        return self._verdict(NOT_TESTABLE, why, None, None)

    def _verdict(
        self, verdict: str, why: str, found: Found | None, published: float | None
    ) -> Verdict:
        about = self.id, self.statement, self.form, verdict, why
        if found is None:
            return Verdict(*about, None, None, None, published, 0, self.source)
        i = found.estimate.interval()
        return Verdict(*about, i.value, i.low, i.high, published, found.blocks, self.source)


@dataclass(frozen=True)
class Order(Claim):
    """The conditions rise in this order at each percentile; the first is the lowest."""

    form: ClassVar[str] = "order"

    percentiles: tuple[float, ...] = (50,)
    conditions: tuple[str, ...] = ()
    published: Mapping[str, Mapping[float, float]] = field(default_factory=dict, hash=False)
    """Condition -> percentile -> the document's figure, where it prints one."""

    def __post_init__(self) -> None:
        if len(set(self.conditions)) < 2 or not self.percentiles:
            raise BadInput(f"claim {self.id}: an order needs two conditions and a percentile")

    def comparisons(self) -> list[Comparison]:
        """Neighbours of the order, at each percentile."""
        pairs = list(pairwise(self.conditions))
        return [Comparison(lower, higher, q) for q in self.percentiles for lower, higher in pairs]

    def decide(self, found: Sequence[Found]) -> Verdict:
        """Holds if every pair is clear; contradicted if any is clearly the other way round."""
        if reverse := [f for f in found if f.clear and f.side > 0]:
            shown = min(reverse, key=lambda f: f.p)
            return self._on(CONTRADICTED, f"the other way round: {shown.figures}", shown)
        if waiting := [f for f in found if not f.clear]:
            shown = max(waiting, key=lambda f: (f.estimate.enough, f.more))
            clear = len(found) - len(waiting)
            so_far = f"{clear} of {len(found)} pairs are clearly in order; " if clear else ""
            return self._on(UNDECIDED, so_far + _wanting(waiting, shown), shown)
        shown = max(found, key=lambda f: f.p)
        many = f"; the least clear of {len(found)} pairs, all in order" if len(found) > 1 else ""
        return self._on(HOLDS, shown.figures + many, shown)

    def _on(self, verdict: str, why: str, shown: Found) -> Verdict:
        c = shown.comparison
        over, under = (self.published.get(n, {}).get(c.percentile) for n in (c.over, c.under))
        return self._verdict(verdict, why, shown, over / under if over and under else None)


@dataclass(frozen=True)
class Ratio(Claim):
    """`over` / `under` is the document's ratio, within a factor: its hardware is not ours."""

    form: ClassVar[str] = "ratio"

    percentile: float = 50
    over: str = ""
    under: str = ""
    published: float = 1.0
    within: float = 1.25

    def __post_init__(self) -> None:
        if not (self.over and self.under and self.published > 0 and self.within > 1):
            raise BadInput(f"claim {self.id}: a ratio needs two conditions, and a factor above 1")

    @property
    def band(self) -> tuple[float, float]:
        """The ratios that count as the document's."""
        return self.published / self.within, self.published * self.within

    def comparisons(self) -> list[Comparison]:
        """The one ratio, against its band."""
        return [Comparison(self.over, self.under, self.percentile, *self.band)]

    def decide(self, found: Sequence[Found]) -> Verdict:
        """Holds if the ratio is clearly inside the band, contradicted if clearly outside."""
        (shown,) = found
        if not shown.clear:
            return self._verdict(UNDECIDED, _wanting(found, shown), shown, self.published)
        digits = 2 if self.published > 0.2 else 3
        low, high, printed = (_figure(x, digits) for x in (*self.band, self.published))
        where = "outside" if shown.side else "inside"
        why = f"{shown.figures}, {where} {low} to {high} around the document's {printed}"
        return self._verdict(CONTRADICTED if shown.side else HOLDS, why, shown, self.published)


@dataclass(frozen=True)
class NotHere(Claim):
    """A claim that this lab cannot put to the test, and why not."""

    form: ClassVar[str] = "not here"

    why: str = ""

    def comparisons(self) -> list[Comparison]:
        """None."""
        return []

    def decide(self, found: Sequence[Found]) -> Verdict:
        """Always `not testable here`."""
        return self.not_testable(self.why)


def judge(claims: Iterable[Claim], measured: Mapping[str, Blocks]) -> list[Verdict]:
    """One verdict per claim, in the same order; every comparison of all of them is counted."""
    claims = list(claims)
    lacking = [claim.missing(measured) for claim in claims]
    testable = [claim for claim, missing in zip(claims, lacking, strict=True) if not missing]
    asked = dict.fromkeys(c for claim in testable for c in claim.comparisons())
    found = {f.comparison: f for f in _together([_find(c, measured) for c in asked], measured)}
    return [
        claim.not_testable(f"not measured: {', '.join(missing)}")
        if missing
        else claim.decide([found[c] for c in claim.comparisons()])
        for claim, missing in zip(claims, lacking, strict=True)
    ]


def compare(
    a: npt.ArrayLike | Blocks,
    b: npt.ArrayLike | Blocks,
    percentile: float = 50,
    names: tuple[str, str] = ("a", "b"),
) -> Verdict:
    """Is `a` lower than `b` at this percentile? holds: lower; contradicted: higher; undecided.

    Give values in the order they were measured, or, better, block number -> values of each.
    """
    order = Order("compare", f"{names[0]} is lower than {names[1]}", "", (percentile,), names)
    single = not (isinstance(a, Mapping) and isinstance(b, Mapping))
    # Stretches of single runs do not belong together, so no number may occur in both.
    measured = {names[0]: _as_blocks(a, first=-1000), names[1]: _as_blocks(b, first=-2000)}
    verdict = order.judge(measured)
    if not single:
        return verdict
    caution = "from single runs cut into stretches, so how runs differ is not in it"
    return replace(verdict, why=f"{verdict.why}; {caution}", blocks=1)


def named(percentile: float) -> str:
    """`the median`, `p99.9`."""
    return "the median" if percentile == 50 else f"p{percentile:g}"


def _find(c: Comparison, measured: Mapping[str, Blocks]) -> Found:
    a, b = measured[c.over], measured[c.under]
    common = len(set(a) & set(b))
    blocks = common if common >= stats.FEWEST_BLOCKS else min(len(a), len(b))
    sizes = [sum(values.size for values in side.values()) for side in (a, b)]
    return Found(
        c,
        stats.ratio_estimate(a, b, c.percentile),
        blocks,
        min(stats.beyond(c.percentile, size) for size in sizes),
        max(stats.samples_needed(side, c.percentile) for side in (a, b)),
    )


def _together(found: list[Found], measured: Mapping[str, Blocks]) -> list[Found]:
    tested = [f for f in found if f.estimate.enough]
    adjusted = stats.holm([f.p for f in tested])
    clear = {f.comparison: p <= RISK for f, p in zip(tested, adjusted, strict=True)}
    # Holm's next step would ask this much of the smallest p value that is left.
    level = RISK / max(1, list(clear.values()).count(False))
    counted = [replace(f, among=len(tested), clear=clear.get(f.comparison, False)) for f in found]
    return [f if f.clear or not f.estimate.enough else _more(f, measured, level) for f in counted]


def _more(f: Found, measured: Mapping[str, Blocks], level: float) -> Found:
    c = f.comparison
    a, b = measured[c.over], measured[c.under]
    more = stats.blocks_needed(a, b, c.percentile, low=c.low, high=c.high, level=level)
    return replace(f, more=more)


def _wanting(waiting: Sequence[Found], shown: Found) -> str:
    # What is in doubt and what would settle it; far percentiles may also lack samples.
    lacking = max((f for f in waiting if not f.estimate.enough), key=lambda f: f.more, default=None)
    parts = []
    if shown.estimate.enough:
        crowd = f", not clear among {shown.among} comparisons" if shown.p <= RISK else ""
        parts.append(f"{shown.figures}{crowd}: {_blocks(shown.more)}")
    if lacking and lacking.blocks + lacking.more == stats.FEWEST_BLOCKS:
        parts.append(f"{lacking.blocks} of {stats.FEWEST_BLOCKS} blocks: {_blocks(lacking.more)}")
    elif lacking:
        where = named(lacking.comparison.percentile)
        few = f"{where} needs {stats.BEYOND} samples beyond it and has {lacking.beyond}"
        parts.append(f"{few}: {_blocks(lacking.more)} of this size")
    return "; ".join(parts)


def _blocks(more: int) -> str:
    if more > stats.MOST_BLOCKS:
        return f"more than {stats.MOST_BLOCKS} more blocks"
    return f"about {more} more block{'s' if more > 1 else ''}"


def _figure(ratio: float, digits: int = 2) -> str:
    return f"{ratio:.{max(digits, 0)}f}" if ratio < 10_000 else f"{ratio:.1e}"


def _as_blocks(values: npt.ArrayLike | Blocks, first: int) -> Blocks:
    if isinstance(values, Mapping):
        return values
    return dict(enumerate(stats.pieces(values), start=first))
