"""Two campaigns compared, point by point: what became worse or better, by measure and by claim.

All comparisons of all points share one risk of 5 % of a false alarm (Holm). From three repetitions
on each side, a repetition is the unit: what differs from session to session then counts as noise.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    def regressions(self) -> list[Compared]:
        """The figures that clearly became worse."""
        return [comparison for comparison in self.each if comparison.outcome == WORSE]

    @property
    def passed(self) -> bool:
        """Whether nothing became worse, and nothing is missing."""
        return not self.regressions and not self.lost


@dataclass(frozen=True)
class _Comparison:
    """One comparison that is asked for: what it is about, and the claim that it is of."""

    order: Order
    what: str
    ratio: bool
    claim: str


@dataclass
class _Pair:
    """The repetitions of one point in both campaigns."""

    number: int
    name: str
    study: Study
    old: list[Attempt]
    new: list[Attempt]
    folders: tuple[CampaignFolder, CampaignFolder]
    asked: list[_Comparison] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Conditions that only the old one has measured."""

    @property
    def by_session(self) -> bool:
        """Whether there are enough repetitions to learn how sessions differ."""
        return min(len(self.old), len(self.new)) >= FEWEST_BLOCKS


def compare(a: CampaignFolder, b: CampaignFolder, margin: float = MARGIN) -> Comparisons:
    """Find what changed from `a` to `b`; changes below `margin` (0.05 is 5 %) do not matter."""
    pairs, absent = _pairs(a, b)
    blocks_of: dict[str, Blocks] = {}
    why_not: list[str] = []
    for pair in pairs:
        try:
            blocks_of |= _ask(pair)
        except LabkitError as error:
            why_not.append(f"{pair.name}: {error.what}")
    orders = [asked_comparison.order for pair in pairs for asked_comparison in pair.asked]
    if not orders:
        problem = f"{a.name} and {b.name} have no finished point in common"
        raise ResultsError(problem, said="\n".join(why_not), hint="labkit campaign report NAME")
    verdicts = {verdict.claim: verdict for verdict in judge(orders, blocks_of)}
    comparisons = [comparison for pair in pairs for comparison in _compare(pair, verdicts, margin)]
    absent = (*absent, *(f"{pair.name}: {name}" for pair in pairs for name in pair.lost))
    units = {_unit(pair) for pair in pairs if pair.asked}
    return Comparisons(
        a.name, b.name, tuple(comparisons), absent, tuple(why_not), "; ".join(sorted(units))
    )


def _unit(pair: _Pair) -> str:
    if pair.by_session:
        return "a repetition is the unit, so what differs between sessions counts as noise"
    return (
        f"with fewer than {FEWEST_BLOCKS} repetitions a block is the unit, so what differs "
        "between sessions counts as a change"
    )


def _pairs(a: CampaignFolder, b: CampaignFolder) -> tuple[list[_Pair], tuple[str, ...]]:
    old, new = _attempts(a), _attempts(b)
    if len({lab for _, lab in old}) == len({lab for _, lab in new}) == 1:
        old, new = (
            {(ask, ""): attempts for (ask, _), attempts in finished.items()}
            for finished in (old, new)
        )
    keys = [key for key in old if key in new]
    pairs = [
        _Pair(n, _describe(old[key][0][0], key[1]), studies.find(old[key][0][0].study),
              [attempt for _, attempt in old[key]], [attempt for _, attempt in new[key]], (a, b))
        for n, key in enumerate(keys)
    ]  # fmt: skip
    absent = tuple(_describe(old[key][0][0], key[1]) for key in old if key not in new)
    return pairs, absent


def _attempts(
    folder: CampaignFolder,
) -> dict[tuple[str, str], list[tuple[CampaignPoint, Attempt]]]:
    attempts_of: dict[tuple[str, str], list[tuple[CampaignPoint, Attempt]]] = defaultdict(list)
    for point in sorted(
        folder.points, key=lambda one_point: (one_point.study, one_point.said, one_point.repetition)
    ):
        if attempt := folder.finished(point):
            attempts_of[point.question, point.place].append((point, attempt))
    return dict(attempts_of)


def _describe(point: CampaignPoint, lab: str) -> str:
    values = f" ({point.said})" if point.said else ""
    return f"{point.study}{values}{f' on {lab}' if lab else ''}"


# What was measured on both sides, under names of their own, and what is to be compared of it.
def _ask(pair: _Pair) -> dict[str, Blocks]:
    old = _measure(pair, pair.old, pair.folders[0], -1)
    new = _measure(pair, pair.new, pair.folders[1], 1)
    names = [name for name in old if name in new]
    pair.lost += [name for name in old if name not in new and ": " not in name]
    for name in (name for name in names if ": " not in name):
        blocks_all = [*old[name].values(), *new[name].values()]
        ratio = all((np.asarray(values) > 0).all() for values in blocks_all)
        for q in _statistics(pair, blocks_all):
            _add(pair, f"'{name}'", q, f"{name}, {_statistic(q)}", ratio)
    verdicts = {v["claim"]: v["verdict"] for v in (*pair.old[0].verdicts, *pair.new[0].verdicts)}
    for claim in pair.study.claims:
        if verdicts.get(claim.id, NOT_TESTABLE) == NOT_TESTABLE or claim.missing(
            _select(old, names)
        ):
            continue
        for comparison in claim.comparisons():
            text = _key_names(comparison.what)
            title = f"{claim.id}: {comparison.what.shown}, {_statistic(comparison.what.statistic)}"
            _add(pair, text, comparison.what.statistic, title, claim=claim.id)
    return {
        _side_name(name, pair.number, side): blocks
        for side, measured in (("old", old), ("new", new)) for name, blocks in measured.items()
    }  # fmt: skip


def _select(blocks_of: Measured, names: Sequence[str]) -> Measured:
    return {name: blocks_of[name] for name in names}


# Names alone are compared by their ratio, anything else by its difference.
def _add(
    pair: _Pair, text: str, q: Statistic, title: str, ratio: bool = False, claim: str = ""
) -> None:
    new, old = (_rename(text, pair.number, side) for side in ("new", "old"))
    if not claim:
        new, old = new.strip("'"), old.strip("'")
    name = f"{pair.number}/{len(pair.asked)}"
    order = Order(name, "new is lower than old", "", percentiles=(q,), conditions=(new, old))
    pair.asked.append(_Comparison(order, title, ratio, claim))


# Where each run gives one value there is only their mean; a session has several.
def _statistics(pair: _Pair, blocks: Sequence[Any]) -> tuple[Statistic, ...]:
    if all(np.size(values) == 1 for values in blocks):
        return ("mean",)
    fewest = min(np.size(values) for values in blocks)
    return PERCENTILES if fewest >= FEWEST_VALUES else PERCENTILES[:1]


# A claim's names with their metric, as `Study.measured` calls them.
def _key_names(quantity: Quantity) -> str:
    def key(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return (
            f"'{quantity.metric}: {name}'" if quantity.metric and ": " not in name else f"'{name}'"
        )

    return NAME_IN_TEXT.sub(key, quantity.text)


def _rename(text: str, number: int, side: str) -> str:
    return NAME_IN_TEXT.sub(
        lambda match: f"'{_side_name(match[1] or match[2], number, side)}'", text
    )


def _side_name(name: str, number: int, side: str) -> str:
    return f"{name} ({side} {number})"


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
                values_by_name[name] |= {
                    sign * (n * 10**6 + b): values for b, values in blocks.items()
                }
    fewest = FEWEST_BLOCKS if pair.by_session else 1
    return {name: blocks for name, blocks in values_by_name.items() if len(blocks) >= fewest}


def _compare(pair: _Pair, verdicts: Mapping[str, Verdict], margin: float) -> Iterator[Compared]:
    better = more_is_better(pair.study.metric, pair.study.unit)
    for comparison in pair.asked:
        verdict = verdicts[comparison.order.id]
        if verdict.verdict == NOT_TESTABLE:
            continue
        change = _change(verdict, margin, comparison.ratio)
        if not comparison.claim:
            outcome = _of_measure(change, verdict, better)
            yield Compared(pair.name, comparison.what, outcome, verdict, comparison.ratio)
            continue
        before, after = (_usual(attempts, comparison.claim) for attempts in (pair.old, pair.new))
        outcome = _of_claim(change, before, after)
        yield Compared(
            pair.name, comparison.what, outcome, verdict, False, comparison.claim, before, after
        )


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


def _of_measure(change: str, verdict: Verdict, better: bool | None) -> str:
    if change != CHANGE or better is None:
        return change
    return BETTER if (verdict.verdict == CONTRADICTED) == better else WORSE


# A claim's figure is neither good nor bad; that it holds no longer is what somebody should know.
def _of_claim(change: str, before: str, after: str) -> str:
    if change == CHANGE and (before, after) == (HOLDS, CONTRADICTED):
        return WORSE
    if change == CHANGE and (before, after) == (CONTRADICTED, HOLDS):
        return BETTER
    return change
