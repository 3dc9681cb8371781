"""The loop of a study: shuffled blocks of its conditions, until there are enough."""

import random
import threading
from dataclasses import replace

from labkit.changes.in_force import PERIOD_SECONDS, in_force
from labkit.condition import Condition
from labkit.errors import BadInput, ResultsError
from labkit.gates import watch
from labkit.gates.counter import counting
from labkit.lab import Lab
from labkit.results import Results
from labkit.running import possible, until_decided
from labkit.running.visit import PlannedRun, Visit
from labkit.runs import looks
from labkit.runs.progress import Progress, Tell
from labkit.study import Study, insist_study

MOST_REPEATS = 10_000


def run(
    study: Study,
    lab: Lab,
    results: Results,
    *,
    repeats: int | str = 5,
    tell: Tell = lambda _: None,
    stop: threading.Event | None = None,
    reread_seconds: float = PERIOD_SECONDS,
) -> Results:
    """Measure what `results` lacks, in shuffled blocks; finished runs are not repeated.

    With `repeats` "until decided in 10 minutes" blocks are added until every claim is decided, or
    the budget is spent. Settings are read before, during (every `reread_seconds`) and after each
    run. A run in which somebody else changed them is kept as invalid, and repeated; so is one that
    failed a gate.
    """
    insist_study(study)
    check_repeats(repeats)
    budget = until_decided.asked(repeats)
    with in_force(lab.hosts, study.name, period=reread_seconds) as changes, counting() as counters:
        refusals = possible.refusals(study, lab, changes.learn(possible.settings(study, lab)))
        able = possible.able(study, lab, refusals)
        stop = stop or threading.Event()
        visit = Visit(study.loads, lab, results, tell, stop, changes, counters)
        if budget is not None:
            _until_decided(visit, study, able, budget)
        else:
            visit.through(_order(able, int(repeats), int(results.asked["seed"])))
    if not results.finished():
        reasons = "\n".join(watch.left_out(results).values())
        problem = f"no run of {study.name} could be used"
        raise ResultsError(problem, said=reasons, hint=watch.HELP)
    return results


# The numbers of runs go on where they are, as a later stage has fewer conditions.
def _until_decided(
    visit: Visit, study: Study, able: list[Condition], budget: until_decided.Budget
) -> None:
    results, seed = visit.results, int(visit.results.asked["seed"])
    stage = until_decided.first(study, results, able, budget)
    while stage.conditions:
        runs = results.finished()
        after = max((run.block for run in runs), default=0)
        steps = _order(list(stage.conditions), stage.blocks, seed, after)
        number = max((run.order for run in results.runs()), default=0)
        steps = [replace(step, order=step.order + number) for step in steps]
        if steps:
            visit.through(steps)
        stage = until_decided.following(study, results, stage, budget)
        looks.give_up(results, stage.given_up)
    for claim, given_up in stage.given_up.items():
        remark = f"{claim} is {given_up.why}"
        visit.tell(Progress("finished", "", 0, visit.done, visit.done, 0.0, remark))


def check_repeats(repeats: int | str) -> None:
    """Refuse a number of blocks that makes no sense."""
    if until_decided.asked(repeats) or isinstance(repeats, str):
        return
    if not 1 <= repeats <= MOST_REPEATS:
        hint = "repeats is the number of runs of each condition; the notebooks use 3 to 5"
        raise BadInput(f"repeats must be 1 to {MOST_REPEATS}, not {repeats}", hint=hint)


# Each block holds every condition once, in an order of its own: drift of the lab hits all.
def _order(able: list[Condition], repeats: int, seed: int, after: int = 0) -> list[PlannedRun]:
    steps: list[PlannedRun] = []
    for block in range(after + 1, after + repeats + 1):
        conditions = list(able)
        random.Random(f"{seed}/{block}").shuffle(conditions)
        steps += [PlannedRun(block, len(steps) + i, c) for i, c in enumerate(conditions, 1)]
    return steps
