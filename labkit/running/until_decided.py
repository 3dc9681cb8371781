"""Blocks until every claim is decided, or until a budget of minutes is spent.

After the first blocks the claims are judged, and again whenever there are about half as many blocks
more. Conditions that no undecided claim speaks of are measured no longer, nor those of claims that
the rest of the budget cannot decide by far: these are given up, which the results keep.
"""

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from labkit.condition import Condition
from labkit.errors import BadInput
from labkit.judging import judge
from labkit.reason import What
from labkit.results import Results
from labkit.runs import looks
from labkit.statistics.percentiles import MOST_BLOCKS
from labkit.study import Study
from labkit.verdict import UNDECIDED, Verdict

WORDS = "until decided"
REPEATS = re.compile(rf"{WORDS}(?: in (?P<minutes>-?\d+(?:\.\d+)?) min(?:utes?)?)?")
MINUTES = 30.0
"""The budget where none is named."""
MOST_MINUTES = 60 * 24 * 7.0
FIRST_BLOCKS = 4
"""Made before the first look: one at three shows little, and costs as much."""
LEAST_STEP, MOST_STEP = 0.25, 0.75
"""The next look is after so large a part of the blocks that there are, at least and at most."""
HOPELESS = 3.0
"""An advice is right within a factor of two or so: what needs more than this is given up."""
SET_UP_SECONDS = 3.0
"""Seconds that a run takes beside its load, assumed until one was made."""


@dataclass(frozen=True)
class Stage:
    """The conditions of the next blocks, and how many of these; none when it is time to stop."""

    conditions: tuple[Condition, ...]
    blocks: int
    given_up: Mapping[str, looks.GivenUp] = field(default_factory=dict)
    """The claims that the rest of the budget cannot decide, and why."""


@dataclass
class Budget:
    """Minutes that may be spent, and what a run takes of them."""

    minutes: float
    begun: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds."""
        return 60 * self.minutes - (time.monotonic() - self.begun)

    def blocks(self, study: Study, results: Results, conditions: int) -> int:
        """Number of further blocks that the budget allows for this number of conditions."""
        return max(int(self.left / (conditions * run_seconds(study, results))), 0)


def asked(repeats: int | str) -> Budget | None:
    """The budget of `until decided in 10 minutes`; None for a number of blocks."""
    if not isinstance(repeats, str):
        return None
    match = REPEATS.fullmatch(repeats.strip())
    if not match:
        problem = f"repeats is a number of blocks or {WORDS!r}, not {repeats[:80]!r}"
        raise BadInput(problem, hint=f"with a budget: {WORDS} in 10 minutes")
    minutes = float(match["minutes"] or MINUTES)
    if not 0 < minutes <= MOST_MINUTES:
        raise BadInput(f"a budget is above 0 and at most {MOST_MINUTES:g} minutes, not {minutes:g}")
    return Budget(minutes)


def run_seconds(study: Study, results: Results) -> float:
    """Seconds that a run takes: as the finished ones took, else as its load says."""
    took = [run.seconds for run in results.finished() if run.seconds]
    return fmean(took) if took else SET_UP_SECONDS + sum(load.seconds for load in study.loads)


def first(study: Study, results: Results, able: Sequence[Condition], budget: Budget) -> Stage:
    """The blocks before the first look; refused if the budget allows none."""
    have, affordable = looks.blocks(results), budget.blocks(study, results, len(able))
    if not have and not affordable:
        seconds = run_seconds(study, results)
        block = f"one of {len(able)} runs of about {seconds:.0f} s"
        takes = f"{block} takes {len(able) * seconds / 60:.1f} min"
        raise BadInput(f"a budget of {budget.minutes:g} min allows no block: {takes}")
    return Stage(tuple(able), max(min(FIRST_BLOCKS - have, affordable), 0))


def following(study: Study, results: Results, before: Stage, budget: Budget) -> Stage:
    """Choose the stage after this look, from the conditions that were measured so far."""
    have, given_up = looks.blocks(results), dict(before.given_up)
    names = {run.condition for run in results.finished()}
    conditions_measured = [c for c in study.conditions if c.name in names]
    hopeful = []
    for verdict in judge(study, results):
        has_doubt = any(r.what is What.SPOILT for r in verdict.reasons)  # which no blocks mend
        if verdict.verdict != UNDECIDED or verdict.claim in given_up or has_doubt:
            continue
        conditions = _of(study, [verdict], before.conditions)
        affordable = budget.blocks(study, results, max(len(conditions), 1))
        # Half of a pair decides nothing, so all conditions of a claim are measured or none is.
        complete = len(conditions) == len(_of(study, [verdict], conditions_measured))
        if conditions and complete and can_hope(verdict.more or 1, affordable):
            hopeful.append(verdict)
        else:
            given_up[verdict.claim] = _given_up(study, results, verdict, len(conditions))
    conditions = _of(study, hopeful, before.conditions)
    affordable = budget.blocks(study, results, max(len(conditions), 1))
    if not affordable:  # for each of them there would be time, and not for all
        given_up |= {v.claim: _given_up(study, results, v, len(conditions)) for v in hopeful}
        return Stage((), 0, given_up)
    step = next_step(have, min((v.more or 1 for v in hopeful), default=0), affordable)
    return Stage(conditions, step if conditions else 0, given_up)


def can_hope(blocks: int, affordable: int) -> bool:
    """Whether what needs this many more blocks is worth the rest of a budget."""
    return affordable > 0 and blocks <= min(HOPELESS * affordable, MOST_BLOCKS)


def next_step(have: int, need: int, affordable: int) -> int:
    """The number of blocks before the next look, if a claim wants this many."""
    low, high = math.ceil(LEAST_STEP * have), math.ceil(MOST_STEP * have)
    return min(max(need, low), high, affordable)


def _of(
    study: Study, verdicts: Sequence[Verdict], among: Sequence[Condition]
) -> tuple[Condition, ...]:
    claims = {claim.id: claim for claim in study.claims}
    of = {c for v in verdicts for c in claims[v.claim].conditions_among(x.name for x in among)}
    return tuple(condition for condition in among if condition.name in of)


def _given_up(study: Study, results: Results, verdict: Verdict, conditions: int) -> looks.GivenUp:
    number = verdict.more or 1
    minutes = number * max(conditions, 1) * run_seconds(study, results) / 60
    need = (
        f"about {number} more block{'s' * (number > 1)}, {minutes:.2g} min" if number <= MOST_BLOCKS
        else f"more than {MOST_BLOCKS} more blocks"
    )  # fmt: skip
    return looks.GivenUp(verdict.blocks, f"not decided for this budget: it needs {need}")
