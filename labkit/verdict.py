"""A verdict on one claim, and the comparisons that it rests on."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from labkit.errors import BadInput, LabkitError
from labkit.statistics import percentiles, spending
from labkit.statistics.estimate import blocks_lacking, estimated, least_of, samples_beyond
from labkit.statistics.holm import RISK as RISK
from labkit.statistics.holm import holm
from labkit.statistics.interval import FAR, Interval, ends, lacking
from labkit.statistics.percentiles import Blocks, Estimate
from labkit.statistics.quantity import Quantity, Statistic
from labkit.statistics.second_opinion import by_student, differs

HOLDS, CONTRADICTED = "holds", "contradicted"
UNDECIDED, NOT_TESTABLE = "undecided", "not testable here"
SAME = "same within the margin"
MARGIN = 0.05
"""The distance too small to matter, unless a lab's noise or a document says otherwise."""
MOST_OF_BAND = 0.25
"""The most that a margin takes of the band that a claim itself calls the same, at each end."""
MOST_MARGIN = 0.2
"""A lab whose noise is larger has nothing to call equal by."""


@dataclass(frozen=True)
class Verdict:
    """The measurements' verdict on one claim; `why` is a sentence with the figures.

    `effect` is the figure that is most in doubt, with its 95 % interval. An end is None where the
    measurements set no limit. `published` is the document's.
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
    percentile: float | None = None
    """Of the study's metric, if `effect` is one condition's over another's."""
    among: int = 0
    """The number of comparisons, this claim's included, that share one risk of 5 % (Holm)."""
    p: float | None = None
    """Of `effect`, as if this were the only comparison and the only look."""
    counted: float | None = None
    """The same p value as it counts among all comparisons, over all looks: clear up to 0.05."""
    looks: tuple[int, ...] = ()
    """The blocks that there were at each look at these results, the last one being this."""
    spent: float | None = None
    """The part of the 5 % risk that these looks have spent."""
    more: int | None = None
    """About how many more blocks would decide it, if it is undecided."""
    student: tuple[float, float] | None = None
    """A second opinion, where it differs by more than half: Student's t of the blocks alone."""
    margin: float | None = None
    """The distance that was too small to matter: 0.05 is 5 % to either side of the limit."""
    given_up: str = ""
    """Reason why a study with a budget stopped before deciding this, and what that would take."""


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
    margin: float = 0.0
    """A figure clearly within this share of the nearest limit is too close to it to matter."""

    @classmethod
    def lower(cls, a: str, b: str, statistic: Statistic = 50, metric: str = "") -> Comparison:
        """`a` is lower than `b`; each is the name of a condition, or a quantity with quotes."""
        if "'" in a + b:
            return cls(Quantity(f"{a} - ({b})", statistic, metric), high=0.0)
        return cls(Quantity(f"'{a}' / '{b}'", statistic, metric), high=1.0, order=True)

    def asked_of(self, measured: Mapping[str, Blocks], kinds: Mapping[str, str]) -> Comparison:
        """Itself, or as a difference where it asks for an order of what is not always above 0.

        `kinds` are of the names whose values are counts, or shares of trials.
        """
        what, names = self.what.of_kinds(kinds), self.what.names if self.order else ()
        if all(least_of(values) > 0 for name in names for values in measured[name].values()):
            return replace(self, what=what)
        return replace(self, what=what.as_difference(), high=0.0, printed=None)

    def near(self, margin: float | None, floors: Mapping[float, float]) -> Comparison:
        """Itself with this margin; without one, with the lab's noise at its percentile, or 5 %."""
        if margin is None:
            at = {q for q in self.what.percentiles.values() if q in floors}
            margin = min(max((floors[q] for q in at), default=MARGIN), MOST_MARGIN)
        check_margin(margin)
        return replace(self, margin=margin)


@dataclass(frozen=True)
class Found:
    """The measurements of one comparison, and whether it is `clear` `among` all that were made."""

    comparison: Comparison
    estimate: Estimate
    blocks: int
    lacking: Mapping[float, tuple[int, int]]
    more: int = 0
    clear: bool = False
    among: int = 1
    counted: float = 1.0
    looks: tuple[int, ...] = ()
    second: Interval | None = None
    """Student's interval of the blocks alone, where it is half as wide again, or less."""
    same: bool = False
    """Whether it clearly lies so near to its limit as not to matter."""

    @classmethod
    def of(cls, c: Comparison, measured: Mapping[str, Blocks]) -> Found:
        """Measure it."""
        estimate = estimated(c.what, measured)
        sides = [measured[name] for name in c.what.names]
        common = len(set.intersection(*(set(side) for side in sides)))
        blocks = common if common >= percentiles.FEWEST_BLOCKS else min(map(len, sides))
        needed = blocks_lacking(c.what, measured)
        lacks = {q: more for q, more in needed.items() if more}
        seen = {q: (more, samples_beyond(c.what, q, measured)) for q, more in lacks.items()}
        more = max([*needed.values(), percentiles.FEWEST_BLOCKS - blocks, 0])
        other = by_student(c.what, measured) if estimate.enough else None
        second = other if differs(estimate.interval(), other) else None
        return cls(c, estimate, blocks, seen, more, second=second)

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
        """-1 below the band, 0 inside, 1 above."""
        value, c = self.estimate.value, self.comparison
        return (value > c.high) - (value < c.low)

    @property
    def good(self) -> bool:
        """Whether the figure is where the claim has it."""
        return (self.side == 0) != self.comparison.outside

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Its 95 % interval; None for an end that the measurements do not bind."""
        i, limits = self.estimate.interval(), (self.comparison.low, self.comparison.high)
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
    def figures(self) -> str:
        """The figure with its interval, as words."""
        c, value, (low, high) = self.comparison.what, self.estimate.value, self.ends
        # Two digits of the interval's width, so that its ends never look like 1 when they are not.
        known = [value, *(end for end in (low, high) if end is not None)]
        width = max(known) - min(known) if len(known) > 1 else abs(value)
        width = max(width, 1e-3 * abs(value), 1e-9)
        digits = 1 - math.floor(math.log10(width))

        # What would look like 0 beside a wide interval has two digits of its own.
        def shown(x: float) -> str:
            first = math.floor(math.log10(abs(x))) if x else 0
            return figure(x, digits if first + digits > 0 else 1 - first)

        lack = lacking(low, high, self.blocks)
        within = "" if low is None and high is None else ends(low, high, shown)
        second = f"Student's t of the blocks {self.second.ends(shown)}" if self.second else ""
        around = "; ".join(part for part in (self.estimate.counts, within, lack, second) if part)
        metric = f" of {c.metric.replace('_', ' ')}" if c.metric else ""
        alone = c.percentiles and not isinstance(c.statistic, str)
        where = f" at {named(float(c.statistic))}" if alone else ""
        return f"{c.shown} = {shown(value)} ({around}){where}{metric}"

    def after(self, level: float) -> Found:
        """With the number of blocks that would make it clear at this level."""
        have = self.estimate.blocks
        have = percentiles.counted(have) if self.comparison.what.percentiles else have

        def decides(more: int) -> bool:
            grown = replace(self, estimate=self.estimate.grown(more, have))
            return min(grown.p, grown.p_same) <= level

        some = range(max(self.more, 1), percentiles.MOST_BLOCKS + 1)
        return replace(self, more=some.start + bisect_left(some, True, key=decides))


def found_of(
    asked: Iterable[Comparison], measured: Mapping[str, Blocks]
) -> tuple[list[Found], dict[Comparison, str]]:
    """The measurements of each; for what divides by nothing, the reason why it has no figure."""
    found: list[Found] = []
    refused: dict[Comparison, str] = {}
    for c in dict.fromkeys(asked):
        try:
            found.append(Found.of(c, measured))
        except LabkitError as odd:
            refused[c] = odd.what
    return found, refused


def together(found: Sequence[Found], looks: Sequence[int] = ()) -> list[Found]:
    """Judge which are clear if all share one risk over all looks; foresee the blocks needed."""
    looks = tuple(looks) or (max((f.blocks for f in found), default=1),)
    tested = [f for f in found if f.estimate.enough]
    counted = holm([spending.counted(f.p, looks) for f in tested])
    by = {f.comparison: p for f, p in zip(tested, counted, strict=True)}
    # Holm's next step would ask this much of the smallest p value that is left.
    left = max(1, sum(p > RISK for p in counted))
    level = spending.levels([*looks, 2 * looks[-1]], RISK / left)[-1]
    judged = [
        replace(f, among=len(tested), counted=by.get(f.comparison, 1.0), looks=looks)
        for f in found
    ]  # fmt: skip
    same = holm([spending.counted(f.p_same, looks, spending.SAME_FIRST) for f in tested])
    alike = dict(zip(by, same, strict=True))
    judged = [
        replace(f, clear=f.counted <= RISK, same=alike.get(f.comparison, 1.0) <= RISK)
        for f in judged
    ]  # fmt: skip
    done = [f.clear or f.same or not f.estimate.enough for f in judged]
    return [f if ready else f.after(level) for f, ready in zip(judged, done, strict=True)]


def check_margin(margin: float | None) -> None:
    """Refuse a margin that nothing can be within, or that everything is; None asks for none."""
    if margin is not None and not 0 < margin <= 1:
        what = f"a margin lies above 0 and is at most 1 (100 %), not {margin:g}"
        raise BadInput(what, hint="0.05 calls the same what differs by less than 5 %")


def one_risk(among: Iterable[int]) -> str:
    """The remark under verdicts that were made together; empty if there was one comparison."""
    together = max(among, default=0)
    if together < 2:
        return ""
    return f"All {together} comparisons share one risk of 5 % of a wrong verdict (Holm)."


def named(percentile: float) -> str:
    """`the median`, `p99.9`."""
    return "the median" if percentile == 50 else f"p{percentile:g}"


def figure(value: float, digits: int = 2) -> str:
    """A number with as many digits as it deserves."""
    return f"{value:.{min(max(digits, 0), 9)}f}" if abs(value) < 10_000 else f"{value:.3g}"


def wanting(waiting: Sequence[Found], shown: Found) -> str:
    """State what is in doubt and what would settle it; far percentiles may also lack samples."""
    lacking = max((f for f in waiting if not f.estimate.enough), key=lambda f: f.more, default=None)
    parts = []
    if shown.estimate.enough:
        parts.append(f"{shown.figures}{_crowd(shown)}: {_blocks(shown.more)}")
    if lacking and (
        not lacking.lacking or lacking.blocks + lacking.more == percentiles.FEWEST_BLOCKS
    ):
        parts.append(
            f"{lacking.blocks} of {percentiles.FEWEST_BLOCKS} blocks: {_blocks(lacking.more)}"
        )
    elif lacking:
        q, (more, beyond) = max(lacking.lacking.items(), key=lambda found: found[1])
        few = f"{named(q)} needs {percentiles.BEYOND} samples beyond it and has {beyond}"
        parts.append(f"{few}: {_blocks(more)} of this size")
    return "; ".join(parts)


def close(shown: Found) -> str:
    """The remark on a figure that is too close to its limit to matter."""
    low, high = shown.band or (math.nan, math.nan)
    return f"{shown.figures}, within {figure(low, 3)} to {figure(high, 3)}: too close to matter"


# What would be clear by itself, and is not.
def _crowd(shown: Found) -> str:
    if shown.p > RISK:
        return ""
    among = f" among {shown.among} comparisons" if shown.among > 1 else ""
    many = len(shown.looks)
    over = f" at look {many}" if many > 1 else " at a first look" if not among else ""
    return f", not clear{among}{over}"


def looked(taken: Iterable[tuple[Sequence[int], float | None]]) -> str:
    """The remark on the looks verdicts took, and what they spent; empty if none was judged."""
    looks, spent = max(((tuple(at), part or 0.0) for at, part in taken), default=((), 0.0))
    if not looks:
        return ""
    often = "once" if len(looks) == 1 else f"{len(looks)} times"
    took = f"that took {100 * spent:.2g} % of the risk of 5 %"
    blocks = "block" if looks[-1] == 1 else "blocks"
    return f"These results were judged {often}, at {_listed(looks)} {blocks}: {took}."


def _listed(looks: Sequence[int]) -> str:
    first = ", ".join(map(str, looks[:-1]))
    return f"{first} and {looks[-1]}" if first else str(looks[-1])


def _blocks(more: int) -> str:
    if more > percentiles.MOST_BLOCKS:
        return f"more than {percentiles.MOST_BLOCKS} more blocks"
    return f"about {more} more block{'s' if more > 1 else ''}"
