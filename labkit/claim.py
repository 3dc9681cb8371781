"""Claims of a document, in our words, and the verdicts that measured blocks allow on them.

A claim is about shape (who is lower, by what factor), never about absolute figures: those belong to
the document's hardware. All comparisons that are judged together share one 5 % risk of a wrong
verdict (Holm). So looking at more of them never makes a chance finding count.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import ClassVar

import numpy.typing as npt

from labkit.errors import BadInput
from labkit.reason import Reason, What
from labkit.statistics.comparison import (
    MARGIN,
    RISK,
    SAME,
    Comparison,
    Found,
    check_margin,
    found_of,
    together,
)
from labkit.statistics.measurand import measurands
from labkit.statistics.percentiles import Blocks
from labkit.statistics.pooled import as_blocks
from labkit.statistics.quantity import Quantity, Statistic, check_statistic
from labkit.statistics.spending import History, spent
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE, UNDECIDED, Verdict, wanting


@dataclass(frozen=True)
class Claim(ABC):
    """One testable statement of a document; `source` is its figure, `place` our file and line.

    `hardware` says why its figure is the document's own: it is then judged on real hosts only.
    `dispute` says where a document contradicts this, and what was made of that; `prints` is what it
    prints of it, in words. `margin` is what it calls too close to matter, if it does: 0.1 is 10 %.
    """

    form: ClassVar[str]

    id: str
    statement: str
    source: str
    metric: str = field(default="", kw_only=True)
    hardware: str = field(default="", kw_only=True)
    dispute: str = field(default="", kw_only=True)
    prints: str = field(default="", kw_only=True)
    margin: float | None = field(default=None, kw_only=True)
    place: str = field(default="", kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        if fault := self._fault():
            raise BadInput(f"claim {self.id}: {fault}")

    # Says why nobody can mean it; empty if one can.
    def _fault(self) -> str:
        return ""

    @abstractmethod
    def comparisons(self) -> list[Comparison]:
        """The comparisons needed to judge it."""

    def names(self) -> list[str]:
        """The conditions that it speaks of, as the keys of the measurements."""
        return list(dict.fromkeys(name for c in self.comparisons() for name in c.what.names))

    def conditions_among(self, names: Iterable[str]) -> list[str]:
        """The conditions that it speaks of, at whatever point, of these."""
        own_names = measurands(self.names())
        return [condition for condition in names if any(n.is_of(condition) for n in own_names)]

    def decide(self, findings: Sequence[Found]) -> Verdict:
        """Holds if every comparison clearly comes out as claimed; contradicted if any does not."""
        if wrong := [f for f in findings if f.clear and not f.good]:
            finding = min(wrong, key=lambda f: f.p)
            return self._verdict(CONTRADICTED, [self._reason(finding)], finding)
        clear, clearly = sum(f.clear for f in findings), (self._clearly,)
        so_far = [Reason(What.AS_CLAIMED, clearly, count=clear, of=len(findings))] if clear else []
        if waiting := [f for f in findings if not f.clear and not f.same]:
            finding = max(waiting, key=lambda f: (f.estimate.enough, f.more))
            return self._verdict(UNDECIDED, [*so_far, *wanting(waiting, finding)], finding)
        if alike := [f for f in findings if not f.clear]:
            finding = max(alike, key=lambda f: f.p_same)
            low, high = finding.band or (math.nan, math.nan)
            close = Reason(What.CLOSE, effect=finding.effect, low=low, high=high)
            return self._verdict(SAME, [*so_far, close], finding)
        finding = max(findings, key=lambda f: f.p)
        sight = self._reason(finding)
        if len(findings) > 1:
            sight = replace(sight, of=len(findings), about=(self._many,))
        return self._verdict(HOLDS, [sight], finding)

    def judge(self, measured: Mapping[str, Blocks]) -> Verdict:
        """The verdict on this claim alone."""
        return judge([self], measured)[0]

    def missing(self, measured: Mapping[str, Blocks]) -> list[str]:
        """The conditions that it speaks of and that were not measured."""
        return [name for name in self.names() if not measured.get(name)]

    def not_testable(self, *reasons: Reason) -> Verdict:
        """The verdict on a claim that these measurements say nothing about."""
        return self._verdict(NOT_TESTABLE, reasons, None)

    _clearly: ClassVar[str] = "clearly as claimed"
    _many: ClassVar[str] = "comparisons, all as claimed"

    def _reason(self, finding: Found) -> Reason:
        c = finding.comparison
        low, high = (None if math.isinf(limit) else limit for limit in (c.low, c.high))
        return Reason(What.SEEN, effect=finding.effect, low=low, high=high, side=finding.side)

    def _verdict(self, verdict: str, reasons: Sequence[Reason], finding: Found | None) -> Verdict:
        about = self.id, self.statement, self.form, verdict
        if finding is None:
            return Verdict(*about, tuple(reasons), source=self.source)
        effect, history = finding.effect, finding.history
        alone = finding.comparison.what.ratio and not finding.comparison.what.metric
        if history.at not in (0, finding.blocks):
            reasons = [*reasons, Reason(What.DECIDED, count=history.at)]
        return Verdict(
            *about, tuple(reasons), effect.value, effect.low, effect.high, effect.printed,
            finding.blocks, self.source, effect.percentile if alone else None, finding.among,
            finding.p, finding.counted, history.looks,
            spent(RISK, history.looks[0], history.looks[-1]) if history.looks else None,
            finding.more if verdict == UNDECIDED else None, finding.comparison.margin or None,
            each=effect.each,
        )  # fmt: skip


@dataclass(frozen=True)
class Order(Claim):
    """The conditions rise in this order at each percentile; the first is the lowest.

    `chains` are several orders at once. A member may be a quantity: `'VM [n=8]' / 'VM'`.
    """

    form: ClassVar[str] = "order"

    percentiles: tuple[Statistic, ...] = (50,)
    conditions: tuple[str, ...] = ()
    published: Mapping[str, Mapping[float, float]] = field(default_factory=dict, hash=False)
    """Condition -> percentile -> the document's figure, where it prints one."""
    chains: tuple[tuple[str, ...], ...] = ()

    _clearly: ClassVar[str] = "clearly in order"
    _many: ClassVar[str] = "pairs, all in order"

    def _fault(self) -> str:
        is_order = self.percentiles and self._orders and min(len({*c}) for c in self._orders) > 1
        is_word = isinstance(self.conditions, str)
        return "" if is_order and not is_word else "an order needs two conditions and a percentile"

    def comparisons(self) -> list[Comparison]:
        """Neighbours of the order, at each percentile."""
        return [
            replace(Comparison.lower(a, b, q, self.metric), printed=self._document_ratio(a, b, q))
            for q in self.percentiles for chain in self._orders for a, b in pairwise(chain)
        ]  # fmt: skip

    @property
    def _orders(self) -> list[tuple[str, ...]]:
        return [*([self.conditions] if self.conditions else []), *self.chains]

    def _document_ratio(self, a: str, b: str, q: Statistic) -> float | None:
        if isinstance(q, str):
            return None
        over, under = (self.published.get(name, {}).get(q) for name in (a, b))
        return over / under if over and under else None

    def _reason(self, finding: Found) -> Reason:
        return Reason(What.SEEN if finding.good else What.REVERSED, effect=finding.effect)


@dataclass(frozen=True)
class Ratio(Claim):
    """`over` / `under` is the document's ratio, within a factor: its hardware is not ours."""

    form: ClassVar[str] = "ratio"

    percentile: Statistic = 50
    over: str = ""
    under: str = ""
    published: float = 1.0
    within: float = 1.25

    def _fault(self) -> str:
        if not (self.over and self.under):
            return "a ratio needs two conditions, over and under"
        is_ratio = self.published > 0 and self.within > 1
        return "" if is_ratio else "published is above 0, and within a factor above 1"

    def comparisons(self) -> list[Comparison]:
        """The one ratio, against its band."""
        quantity = Quantity(f"'{self.over}' / '{self.under}'", self.percentile, self.metric)
        band = self.published / self.within, self.published * self.within
        return [Comparison(quantity, *band, printed=self.published)]


@dataclass(frozen=True)
class Bound(Claim):
    """Each of these quantities lies between `low` and `high`; one end may be open."""

    form: ClassVar[str] = "bound"

    what: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    published: float | None = None
    percentile: Statistic = 50

    def _fault(self) -> str:
        is_bound = self.what and self.low < self.high
        return "" if is_bound else "a bound needs a quantity, and low below high"

    def comparisons(self) -> list[Comparison]:
        """Each quantity against the band."""
        quantities = (Quantity(text, self.percentile, self.metric) for text in self.what)
        return [Comparison(q, self.low, self.high, printed=self.published) for q in quantities]


KINDS = ("linear", "plateau", "rising", "falling", "flat", "lowest", "highest", "differs")


@dataclass(frozen=True)
class Shape(Claim):
    """Course of a figure along `points` (x -> condition or quantity), each step within a factor.

    linear: in proportion to x. plateau: flat from x = `at` on, and risen before. lowest, highest:
    at x = `at`. rising, falling, flat: from first to last. differs: the last from the first.
    `each`: it goes so for each of these words in place of EACH.
    """

    form: ClassVar[str] = "shape"

    kind: str = ""
    points: Mapping[float, str] = field(default_factory=dict, hash=False)
    at: float | None = None
    within: float = 1.1
    percentile: Statistic = 50
    each: tuple[str, ...] = ()

    def _fault(self) -> str:
        if self.kind not in KINDS or len(self.points) < 2 or self.within <= 1:
            return f"a shape is one of {', '.join(KINDS)}, of two points"
        if self.kind in ("plateau", "lowest", "highest") and self.at not in self.points:
            return f"{self.kind} at {self.at}, which is not one of its points"
        return ""

    def comparisons(self) -> list[Comparison]:
        """The steps between points that the shape speaks of."""
        if self.each:
            courses = (
                replace(self, each=(), points={x: text.replace("EACH", word)
                                               for x, text in self.points.items()})
                for word in self.each
            )  # fmt: skip
            return [step for course in courses for step in course.comparisons()]
        xs = sorted(self.points)
        first, at = xs[0], self.at if self.at is not None else xs[0]
        near = {"low": 1 / self.within, "high": self.within}
        match self.kind:
            case "rising" | "falling":
                pairs = pairwise(xs if self.kind == "rising" else xs[::-1])
                return [self._step(a, b, high=1.0) for a, b in pairs]
            case "lowest" | "highest":
                ends = {"high" if self.kind == "lowest" else "low": 1.0}
                return [self._step(at, x, **ends) for x in xs if x != at]
            case "plateau":
                flat = [self._step(x, at, **near) for x in xs if x > at]
                return [*flat, *([self._step(at, first, low=self.within)] if first < at else [])]
            case "differs":
                return [replace(self._step(xs[-1], first, **near), outside=True)]
        by = {x: x / first if self.kind == "linear" else 1.0 for x in xs[1:]}
        return [self._step(x, first, by=times, **near) for x, times in by.items()]

    def _step(
        self, x: float, under: float, low: float = -math.inf, high: float = math.inf, by: float = 1
    ) -> Comparison:
        a, b = (t if "'" in t else f"'{t}'" for t in (self.points[x], self.points[under]))
        a, b = (t if t.count("'") == 2 and t[0] == t[-1] == "'" else f"({t})" for t in (a, b))
        quantity = Quantity(f"{a} / {b}", self.percentile, self.metric)
        return Comparison(quantity, low * by, high * by)


@dataclass(frozen=True)
class NotHere(Claim):
    """A claim that cannot be put to the test, and why not."""

    form: ClassVar[str] = "not here"

    why: str = ""
    conditions: tuple[str, ...] = ()

    def comparisons(self) -> list[Comparison]:
        """None."""
        return []

    def names(self) -> list[str]:
        """The conditions that the document compares, though nothing can be compared here."""
        return list(self.conditions)


def judge(
    claims: Iterable[Claim], measured: Mapping[str, Blocks], *, emulated: bool = False,
    decided: Mapping[str, str] | None = None, looks: Sequence[int] = (),
    before: Mapping[str, History] | None = None, margin: float | None = None,
    floors: Mapping[float, float] | None = None, kinds: Mapping[str, str] | None = None,
) -> list[Verdict]:  # fmt: skip
    """One verdict per claim, in the same order; every comparison of all of them is counted.

    `decided` are claims whose outcome something else decides, and what. `looks` are the blocks that
    there were at each look at these results; without them this is the first. What differs by less
    than `margin` is the same; without one the claim's own counts, else the lab's noise at that
    percentile (`floors`), else 5 %. `kinds` of names are `count` and `share`. What was decided
    `before`, at earlier looks, stays so.
    """
    check_margin(margin)
    claims = list(claims)
    doubts = {claim.id: _untestable(claim, measured, emulated, decided or {}) for claim in claims}
    tests = {
        claim.id: [
            comparison.keyed(claim.margin).asked_of(measured, kinds or {})
            .near(margin or claim.margin, floors or {})
            for comparison in claim.comparisons()
        ]
        for claim in claims if not doubts[claim.id]
    }  # fmt: skip
    findings, refusals = found_of(chain(*tests.values()), measured)
    findings_of = {f.comparison: f for f in together(findings, looks, before)}
    verdicts = []
    for claim in claims:
        own = tests.get(claim.id, [])
        odd = [Reason(What.DECLARED, said=refusals[c]) for c in own if c in refusals]
        if reasons := doubts[claim.id] or odd[:1]:
            verdicts.append(claim.not_testable(*reasons))
            continue
        histories = {c.key: findings_of[c].history for c in own}
        verdict = claim.decide([findings_of[c] for c in own])
        verdicts.append(replace(verdict, comparisons=histories))
    return verdicts


def compare(
    a: npt.ArrayLike | Blocks, b: npt.ArrayLike | Blocks, percentile: Statistic = 50,
    names: tuple[str, str] = ("a", "b"), *, looks: Sequence[int] = (), margin: float = MARGIN,
) -> Verdict:  # fmt: skip
    """Is `a` lower than `b` at this statistic? holds: lower; contradicted: higher; undecided.

    They are the same within the margin if they clearly differ by less than that share.
    Give values in the order they were measured, or, better, block number -> values of each.
    `looks` are the blocks at which you looked before, so that all looks share one risk.
    """
    check_statistic(percentile)
    if len(set(names)) != 2:
        raise BadInput(f"two sets of samples have two names, not {', '.join(names)}")
    order = Order("compare", f"{names[0]} is lower than {names[1]}", "", (percentile,), names)
    # Stretches of single runs do not belong together, so no number may occur in both.
    one, other = names
    blocks_of = {one: as_blocks(a, -1000, one), other: as_blocks(b, -2000, other)}
    count = max(len(blocks) for blocks in blocks_of.values())
    all_looks = [*looks, count] if looks and looks[-1] != count else looks
    verdict = judge([order], blocks_of, looks=all_looks, margin=margin)[0]
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return verdict
    return replace(verdict, reasons=(*verdict.reasons, Reason(What.SINGLE_RUNS)), blocks=1)


def _untestable(
    claim: Claim, blocks_of: Mapping[str, Blocks], emulated: bool, deciders: Mapping[str, str]
) -> list[Reason]:
    if isinstance(claim, NotHere):
        return [Reason(What.DECLARED, said=claim.why)]
    if missing := claim.missing(blocks_of):
        return [Reason(What.NOT_MEASURED, tuple(missing))]
    if claim.hardware and emulated:
        return [Reason(What.HARDWARE, said=claim.hardware)]
    return [Reason(What.DECLARED, said=deciders[claim.id])] if deciders.get(claim.id) else []
