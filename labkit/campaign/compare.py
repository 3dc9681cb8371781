"""Two campaigns compared, point by point: what became worse or better, by measure and by claim.

All comparisons of all points share one risk of 5 % of a false alarm (Holm). From three repetitions
on each side, a repetition is the unit: what differs from session to session then counts as noise.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from labkit import studies
from labkit.campaign.asked import CampaignPoint
from labkit.campaign.folder import Attempt, CampaignFolder
from labkit.claim import Order, judge
from labkit.errors import LabkitError, ResultsError, readable
from labkit.machine.units import capital, more_is_better
from labkit.pages.old_and_new import delta, within
from labkit.pages.tables import Table
from labkit.pages.terminal import paragraph
from labkit.results import Results
from labkit.statistics.percentiles import FEWEST_BLOCKS, Blocks
from labkit.statistics.quantity import Quantity, Statistic
from labkit.study import Study
from labkit.verdict import (
    CONTRADICTED,
    HOLDS,
    MARGIN,
    NOT_TESTABLE,
    SAME,
    UNDECIDED,
    Verdict,
    one_risk,
)

WORSE, BETTER, CHANGE = "regression", "improvement", "changed"
ALIKE, UNCLEAR = "the same", "not clearly other"
ORDER = (WORSE, BETTER, CHANGE, UNCLEAR, ALIKE)
HEAD = ("point", "figure", "delta", "interval", "verdict")
PERCENTILES: tuple[Statistic, ...] = (50.0, 99.0)
FEWEST_VALUES = 20
"""Of fewer values in a unit nobody wants to know the slowest in a hundred."""
NAME_IN_TEXT = re.compile(r"'([^']*)'|\"([^\"]*)\"")
Measured = Mapping[str, Blocks]


@dataclass(frozen=True)
class Compared:
    """One figure of one point in both campaigns; of a claim, `old` and `new` are its verdicts."""

    point: str
    what: str
    outcome: str
    verdict: Verdict
    ratio: bool
    """Whether the effect is new over old; a claim's figure is compared by its difference."""
    claim: str = ""
    old: str = ""
    new: str = ""

    def case(self) -> Element:
        """The figure as a case of a test report, which fails where it became worse."""
        verdict = self.verdict
        change = (delta(verdict.effect, self.ratio), within(verdict, self.ratio))
        text = readable(" ".join([f"{self.outcome}:", *change, verdict.why]))
        case = Element("testcase", classname=readable(self.point), name=readable(self.what))
        if self.outcome == WORSE:
            SubElement(case, "failure", message=text)
        else:
            SubElement(case, "system-out").text = text
        return case


@dataclass(frozen=True)
class Comparisons:
    """All of two campaigns; `lost` are points and conditions that only the old one has."""

    a: str
    b: str
    comparisons: tuple[Compared, ...]
    lost: tuple[str, ...] = ()
    why_not: tuple[str, ...] = ()
    units: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing became worse, and nothing is missing."""
        return not self.lost and all(figure.outcome != WORSE for figure in self.comparisons)

    def found(self) -> str:
        """The findings, in a sentence."""
        counts = Counter(figure.outcome for figure in self.comparisons)
        plural = {word: "s" for word in (WORSE, BETTER) if counts[word] > 1}
        outcomes = ", ".join(
            f"{counts[word]} {word}{plural.get(word, '')}" for word in ORDER if counts[word]
        )
        gap = f"; points or conditions of {self.a} missing: {len(self.lost)}" if self.lost else ""
        return f"{self.b} against {self.a}: {len(self.comparisons)} comparisons: {outcomes}{gap}."

    def text(self) -> str:
        """For a terminal: what changed first, and what did not in a number."""
        table = self._table()
        lines = [*(f"missing: {name}" for name in self.lost), *self.why_not, self._risk()]
        parts = [paragraph(self.found()), table.text() if table.rows else "",
                 *map(paragraph, lines)]  # fmt: skip
        return readable("\n\n".join(filter(None, parts)))

    def markdown(self) -> str:
        """For a comment on a change."""
        table = self._table()
        parts = [
            f"**{'Passed' if self.passed else 'Failed'}: {self.found()}**",
            table.markdown() if table.rows else "",
            *(f"- missing: `{name}`" for name in self.lost), *self.why_not, self._risk(),
        ]  # fmt: skip
        return "\n\n".join(filter(None, parts))

    def told(self) -> dict[str, Any]:
        """For a machine to read."""
        return {"found": self.found(), "passed": self.passed, **asdict(self)}

    def junit(self) -> str:
        """Test reports for continuous integration: a suite for each point, a case a figure."""
        root = Element("testsuites", name=f"{self.b} against {self.a}")
        for point, figures in groupby(self.comparisons, key=lambda figure: figure.point):
            cases = [figure.case() for figure in figures]
            failures = sum(case.find("failure") is not None for case in cases)
            suite = SubElement(root, "testsuite", name=readable(point), tests=str(len(cases)),
                               failures=str(failures))  # fmt: skip
            suite.extend(cases)
        for name in self.lost:
            suite = SubElement(root, "testsuite", name=name, tests="1", errors="1")
            case = SubElement(suite, "testcase", classname=name, name="finished")
            SubElement(case, "error", message=f"{self.b} did not measure it")
        return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root, "unicode")}'

    # What changed, the worst first.
    def _table(self) -> Table:
        changes = [c for c in self.comparisons if c.outcome in (WORSE, BETTER, CHANGE)]
        changes.sort(key=lambda figure: ORDER.index(figure.outcome))
        return Table(HEAD, tuple(
            (c.point, c.what, delta(c.verdict.effect, c.ratio), within(c.verdict, c.ratio),
             c.outcome + (f" ({c.old}, now {c.new})" if c.old else ""))
            for c in changes
        ))  # fmt: skip

    def _risk(self) -> str:
        count = len(self.comparisons)
        together = max((figure.verdict.among for figure in self.comparisons), default=0)
        without = count - together
        risk, number = one_risk([together], "others" if without else "comparisons"), ""
        if without and risk:
            lack = "lacks" if without == 1 else "lack"
            number = f"{without} of {count} comparisons {lack} values for a test"
        parts = (self.units, number, risk)
        return " ".join(f"{capital(part.rstrip('.'))}." for part in parts if part)


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
class _Question:
    """One comparison of a pair: what it is about on both sides, and the claim that it is of."""

    pair: _Pair
    what: str
    statistic: Statistic
    old: str
    new: str
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
    questions: list[_Question] = []
    blocks_of: dict[str, Blocks] = {}
    why_not: list[str] = []
    for pair in pairs:
        try:
            old, new = _measure(pair, pair.old, a, -1), _measure(pair, pair.new, b, 1)
            questions += _ask(pair, old, new)
        except LabkitError as error:
            why_not.append(f"{pair.name}: {error.what}")
            continue
        lost += [f"{pair.name}: {name}" for name in old if name not in new and ": " not in name]
        for side, measured in (("old", old), ("new", new)):
            blocks_of |= {pair.side(name, side): blocks for name, blocks in measured.items()}
    if not questions:
        problem = f"{a.name} and {b.name} have no finished point in common"
        raise ResultsError(problem, said="\n".join(why_not), hint="labkit campaign report NAME")
    verdicts = judge([question.order(n) for n, question in enumerate(questions)], blocks_of)
    figures = [_compare(*judged, margin) for judged in zip(questions, verdicts, strict=True)]
    testable = tuple(figure for figure in figures if figure.verdict.verdict != NOT_TESTABLE)
    by_block = (
        f"with fewer than {FEWEST_BLOCKS} repetitions a block is the unit, so what differs "
        "between sessions counts as a change"
    )
    by_repetition = "a repetition is the unit, so what differs between sessions counts as noise"
    units = sorted({by_repetition if q.pair.by_session else by_block for q in questions})
    return Comparisons(a.name, b.name, testable, tuple(lost), tuple(why_not), "; ".join(units))


# The pairs, and what only the old one has. Where each has one lab, that may have another name.
def _pairs(a: CampaignFolder, b: CampaignFolder) -> tuple[list[_Pair], list[str]]:
    old, new = _attempts(a), _attempts(b)
    if len({lab for _, lab in old}) == len({lab for _, lab in new}) == 1:
        old, new = ({(text, ""): of for (text, _), of in side.items()} for side in (old, new))
    pairs: list[_Pair] = []
    lost: list[str] = []
    for (question, lab), (point, attempts) in old.items():
        values = f" ({point.said})" if point.said else ""
        name = f"{point.study}{values}{f' on {lab}' if lab else ''}"
        if (question, lab) in new:
            later = new[question, lab][1]
            pairs.append(_Pair(len(pairs), name, studies.find(point.study), attempts, later))
        else:
            lost.append(name)
    return pairs, lost


def _attempts(
    folder: CampaignFolder,
) -> dict[tuple[str, str], tuple[CampaignPoint, list[Attempt]]]:
    found: dict[tuple[str, str], tuple[CampaignPoint, list[Attempt]]] = {}
    for point in sorted(folder.points, key=lambda p: (p.study, p.said, p.repetition)):
        if attempt := folder.finished(point):
            found.setdefault((point.question, point.place), (point, []))[1].append(attempt)
    return found


# What was measured on both sides, and is to be compared. Names alone are compared by their ratio,
# anything else by its difference.
def _ask(pair: _Pair, old: Measured, new: Measured) -> Iterator[_Question]:
    both = {name: old[name] for name in old if name in new}
    for name in (name for name in both if ": " not in name):
        blocks = [*old[name].values(), *new[name].values()]
        ratio = all((np.asarray(values) > 0).all() for values in blocks)
        sides = pair.side(name, "old"), pair.side(name, "new")
        for q in _statistics(blocks):
            yield _Question(pair, f"{name}, {_statistic(q)}", q, *sides, ratio)
    verdicts = {v["claim"]: v["verdict"] for v in (*pair.old[0].verdicts, *pair.new[0].verdicts)}
    for claim in pair.study.claims:
        if verdicts.get(claim.id, NOT_TESTABLE) == NOT_TESTABLE or claim.missing(both):
            continue
        for what in (comparison.what for comparison in claim.comparisons()):
            title = f"{claim.id}: {what.shown}, {_statistic(what.statistic)}"
            sides = _rename(what, pair, "old"), _rename(what, pair, "new")
            yield _Question(pair, title, what.statistic, *sides, claim=claim.id)


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
def _compare(question: _Question, verdict: Verdict, margin: float) -> Compared:
    pair, claim, ratio = question.pair, question.claim, question.ratio
    outcome, old, new = _change(verdict, margin, ratio), "", ""
    better = more_is_better(pair.study.metric, pair.study.unit)
    if claim:
        old, new = (_usual(attempts, claim) for attempts in (pair.old, pair.new))
        if outcome == CHANGE:
            fates = {(HOLDS, CONTRADICTED): WORSE, (CONTRADICTED, HOLDS): BETTER}
            outcome = fates.get((old, new), CHANGE)
    elif outcome == CHANGE and better is not None:
        outcome = BETTER if (verdict.verdict == CONTRADICTED) == better else WORSE
    return Compared(pair.name, question.what, outcome, verdict, ratio, claim, old, new)


# The verdict that most repetitions came to.
def _usual(attempts: Sequence[Attempt], claim: str) -> str:
    verdicts = (verdict for attempt in attempts for verdict in attempt.verdicts)
    counts = Counter(v["verdict"] for v in verdicts if v["claim"] == claim)
    (word, count), *_ = counts.most_common(1) or [(UNDECIDED, 0)]
    return str(word) if count * 2 > sum(counts.values()) else UNDECIDED


def _change(verdict: Verdict, margin: float, ratio: bool) -> str:
    if verdict.verdict == SAME:
        return ALIKE
    if verdict.verdict not in (HOLDS, CONTRADICTED):
        return UNCLEAR
    small = ratio and verdict.effect is not None and abs(verdict.effect - 1) < margin
    return ALIKE if small else CHANGE
