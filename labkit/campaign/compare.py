"""Two campaigns compared, point by point: what became worse or better, by measure and by claim.

All comparisons of all points share one risk of 5 % of a false alarm (Holm). From three repetitions
on each side, a repetition is the unit: what differs from session to session then counts as noise.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit import studies
from labkit.campaign.attempts import Attempt
from labkit.campaign.folder import CampaignFolder
from labkit.campaign.points import CampaignPoint
from labkit.claim import Order, judge
from labkit.errors import LabkitError, ResultsError
from labkit.machine.units import more_is_better
from labkit.results import Results
from labkit.statistics.percentiles import FEWEST_BLOCKS, Blocks
from labkit.statistics.quantity import Quantity, Statistic
from labkit.study import Study
from labkit.verdict import CONTRADICTED, HOLDS, MARGIN, NOT_TESTABLE, SAME, UNDECIDED, Verdict

WORSE, BETTER, CHANGE, ALIKE, UNCLEAR = (
    "regression", "improvement", "changed", "the same", "not clearly other",
)  # fmt: skip
PERCENTILES: tuple[Statistic, ...] = (50.0, 99.0)
FEWEST_VALUES = 20
"""Of fewer values in a unit nobody wants to know the slowest in a hundred."""
NAME_IN_TEXT = re.compile(r"'([^']*)'|\"([^\"]*)\"")
Measured = Mapping[str, Blocks]


@dataclass(frozen=True)
class Compared:
    """One figure of one point in both campaigns; `was` and `is_now` are verdicts, for a claim."""

    point: str
    what: str
    outcome: str
    verdict: Verdict
    ratio: bool
    """Whether the effect is new over old; a claim's figure is compared by its difference."""
    claim: str = ""
    was: str = ""
    is_now: str = ""


@dataclass(frozen=True)
class Comparisons:
    """All of two campaigns; `lost` are points and conditions that only the old one has."""

    a: str
    b: str
    each: tuple[Compared, ...]
    lost: tuple[str, ...] = ()
    why_not: tuple[str, ...] = ()
    units: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing became worse, and nothing is missing."""
        return not self.lost and all(one.outcome != WORSE for one in self.each)


@dataclass(frozen=True)
class _Pair:
    """The repetitions of one point in both campaigns."""

    number: int
    name: str
    study: Study
    old: list[Attempt]
    new: list[Attempt]

    @property
    def by_session(self) -> bool:
        """Whether there are enough repetitions to learn how sessions differ."""
        return min(len(self.old), len(self.new)) >= FEWEST_BLOCKS

    def side(self, name: str, side: str) -> str:
        """The name that what was measured has among all that is judged."""
        return f"{name} ({side} {self.number})"


@dataclass(frozen=True)
class _Comparison:
    """One comparison that is asked for: what it is about, and the claim that it is of."""

    pair: _Pair
    what: str
    statistic: Statistic
    new: str
    old: str
    ratio: bool = False
    claim: str = ""

    def order(self, number: int) -> Order:
        return Order(
            str(number), "new is lower than old", "", percentiles=(self.statistic,),
            conditions=(self.new, self.old),
        )  # fmt: skip


def compare(a: CampaignFolder, b: CampaignFolder, margin: float = MARGIN) -> Comparisons:
    """Find what changed from `a` to `b`; changes below `margin` (0.05 is 5 %) do not matter."""
    pairs, lost = _pairs(a, b)
    asked: list[_Comparison] = []
    blocks_of: dict[str, Blocks] = {}
    why_not: list[str] = []
    for pair in pairs:
        try:
            old, new = _measure(pair, pair.old, a, -1), _measure(pair, pair.new, b, 1)
            asked += _ask(pair, old, new)
        except LabkitError as error:
            why_not.append(f"{pair.name}: {error.what}")
            continue
        lost += [f"{pair.name}: {name}" for name in old if name not in new and ": " not in name]
        for side, measured in (("old", old), ("new", new)):
            blocks_of |= {pair.side(name, side): blocks for name, blocks in measured.items()}
    if not asked:
        problem = f"{a.name} and {b.name} have no finished point in common"
        raise ResultsError(problem, said="\n".join(why_not), hint="labkit campaign report NAME")
    verdicts = judge([one.order(n) for n, one in enumerate(asked)], blocks_of)
    each = (_compare(one, verdict, margin) for one, verdict in zip(asked, verdicts, strict=True)
            if verdict.verdict != NOT_TESTABLE)  # fmt: skip
    units = sorted({_unit(comparison.pair) for comparison in asked})
    return Comparisons(a.name, b.name, tuple(each), tuple(lost), tuple(why_not), "; ".join(units))


def _unit(pair: _Pair) -> str:
    if pair.by_session:
        return "a repetition is the unit, so what differs between sessions counts as noise"
    return (
        f"with fewer than {FEWEST_BLOCKS} repetitions a block is the unit, so what differs "
        "between sessions counts as a change"
    )


# The pairs, and what only the old one has. Where each has one lab, that may have another name.
def _pairs(a: CampaignFolder, b: CampaignFolder) -> tuple[list[_Pair], list[str]]:
    old, new = _attempts(a), _attempts(b)
    if len({lab for _, lab in old}) == len({lab for _, lab in new}) == 1:
        old, new = ({(ask, ""): of for (ask, _), of in side.items()} for side in (old, new))
    pairs: list[_Pair] = []
    lost: list[str] = []
    for (question, lab), tries in old.items():
        point = tries[0][0]
        values = f" ({point.said})" if point.said else ""
        name = f"{point.study}{values}{f' on {lab}' if lab else ''}"
        if (question, lab) not in new:
            lost.append(name)
            continue
        before, after = ([tried for _, tried in of] for of in (tries, new[question, lab]))
        pairs.append(_Pair(len(pairs), name, studies.find(point.study), before, after))
    return pairs, lost


def _attempts(
    folder: CampaignFolder,
) -> dict[tuple[str, str], list[tuple[CampaignPoint, Attempt]]]:
    attempts_of: dict[tuple[str, str], list[tuple[CampaignPoint, Attempt]]] = defaultdict(list)
    for point in sorted(folder.points, key=lambda p: (p.study, p.said, p.repetition)):
        if attempt := folder.finished(point):
            attempts_of[point.question, point.place].append((point, attempt))
    return attempts_of


# What was measured on both sides, and is to be compared. Names alone are compared by their ratio,
# anything else by its difference.
def _ask(pair: _Pair, old: Measured, new: Measured) -> Iterator[_Comparison]:
    names = [name for name in old if name in new]
    for name in (name for name in names if ": " not in name):
        blocks = [*old[name].values(), *new[name].values()]
        ratio = all((np.asarray(values) > 0).all() for values in blocks)
        sides = pair.side(name, "new"), pair.side(name, "old")
        for q in _statistics(blocks):
            yield _Comparison(pair, f"{name}, {_statistic(q)}", q, *sides, ratio)
    verdicts = {v["claim"]: v["verdict"] for v in (*pair.old[0].verdicts, *pair.new[0].verdicts)}
    for claim in pair.study.claims:
        if verdicts.get(claim.id, NOT_TESTABLE) == NOT_TESTABLE:
            continue
        if claim.missing({name: old[name] for name in names}):
            continue
        for what in (comparison.what for comparison in claim.comparisons()):
            title = f"{claim.id}: {what.shown}, {_statistic(what.statistic)}"
            sides = _rename(what, pair, "new"), _rename(what, pair, "old")
            yield _Comparison(pair, title, what.statistic, *sides, claim=claim.id)


# Where each run gives one value there is only their mean; a session has several.
def _statistics(blocks: Sequence[Any]) -> tuple[Statistic, ...]:
    fewest = min(np.size(values) for values in blocks)
    if all(np.size(values) == 1 for values in blocks):
        return ("mean",)
    return PERCENTILES if fewest >= FEWEST_VALUES else PERCENTILES[:1]


# A claim's names with their metric, as `Study.measured` calls them, and with their side.
def _rename(quantity: Quantity, pair: _Pair, side: str) -> str:
    def renamed(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if quantity.metric and ": " not in name:
            name = f"{quantity.metric}: {name}"
        return f"'{pair.side(name, side)}'"

    return NAME_IN_TEXT.sub(renamed, quantity.text)


def _statistic(q: Statistic) -> str:
    return str(q) if isinstance(q, str) else "median" if q == 50 else f"p{q:g}"


# Blocks of two sides have nothing to do with each other, so no number is on both.
def _measure(
    pair: _Pair, attempts: Sequence[Attempt], folder: CampaignFolder, sign: int
) -> dict[str, dict[int, Any]]:
    values_by_name: dict[str, dict[int, Any]] = defaultdict(dict)
    for n, attempt in enumerate(attempts, 1):
        results = Results.open(folder.results(attempt))
        for name, blocks in pair.study.measured(results).items():
            if pair.by_session:
                values_by_name[name][sign * n] = np.concatenate([*blocks.values()])
            else:
                values_by_name[name] |= {sign * (n * 10**6 + b): v for b, v in blocks.items()}
    fewest = FEWEST_BLOCKS if pair.by_session else 1
    return {name: blocks for name, blocks in values_by_name.items() if len(blocks) >= fewest}


# A claim's figure is neither good nor bad; that it holds no longer is what somebody should know.
def _compare(asked: _Comparison, verdict: Verdict, margin: float) -> Compared:
    pair, claim, change = asked.pair, asked.claim, _change(verdict, margin, asked.ratio)
    if claim:
        was, is_now = (_usual(attempts, claim) for attempts in (pair.old, pair.new))
        outcomes = {(HOLDS, CONTRADICTED): WORSE, (CONTRADICTED, HOLDS): BETTER}
        outcome = outcomes.get((was, is_now), change) if change == CHANGE else change
        return Compared(pair.name, asked.what, outcome, verdict, False, claim, was, is_now)
    better = more_is_better(pair.study.metric, pair.study.unit)
    if change == CHANGE and better is not None:
        change = BETTER if (verdict.verdict == CONTRADICTED) == better else WORSE
    return Compared(pair.name, asked.what, change, verdict, asked.ratio)


# The verdict that most repetitions came to.
def _usual(attempts: Sequence[Attempt], claim: str) -> str:
    counts = Counter(
        v["verdict"] for attempt in attempts for v in attempt.verdicts if v["claim"] == claim
    )
    (word, count), *_ = counts.most_common(1) or [(UNDECIDED, 0)]
    return str(word) if count * 2 > sum(counts.values()) else UNDECIDED


def _change(verdict: Verdict, margin: float, ratio: bool) -> str:
    if verdict.verdict == SAME:
        return ALIKE
    if verdict.verdict not in (HOLDS, CONTRADICTED):
        return UNCLEAR
    small = ratio and verdict.effect is not None and abs(verdict.effect - 1) < margin
    return ALIKE if small else CHANGE
