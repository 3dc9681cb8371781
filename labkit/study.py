"""A study: conditions, a workload, claims; and the loop that measures them."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labkit import noise_floor
from labkit.changes.in_force import PERIOD_SECONDS, in_force
from labkit.changes.plan import Plan
from labkit.changes.plan import plan as make_plan
from labkit.claim import Claim, judge
from labkit.claims.printed import figures
from labkit.condition import Condition as Condition
from labkit.errors import BadInput, ResultsError, Unknown
from labkit.gates import watch
from labkit.gates.counter import counting
from labkit.lab import Lab
from labkit.noise_floor import Noise
from labkit.results import Results, Run
from labkit.running.visit import Step, Visit
from labkit.running.visit import row as row
from labkit.runs.progress import Tell
from labkit.setting import Setting
from labkit.statistics import steady
from labkit.statistics.percentiles import PERCENTILES as PERCENTILES
from labkit.statistics.percentiles import enough
from labkit.verdict import Verdict
from labkit.workload import Sample, Workload
from labkit.workloads import _pairs as pairs

MOST_REPEATS = 10_000


@dataclass(frozen=True)
class Study:
    """What is asked, and how it is measured and judged."""

    name: str
    title: str
    question: str
    source: str
    workload: Workload
    conditions: tuple[Condition, ...]
    claims: tuple[Claim, ...]
    metric: str
    unit: str
    also: tuple[Workload, ...] = ()
    """What runs after the workload in each run, for its metrics beside."""
    quick: Mapping[str, int] = field(default_factory=dict)
    """Parameters of a short run: enough to see it work, too few to judge the tail."""
    topology: str = ""
    """What a lab in a box is made of for this study; empty for the usual pair."""
    untold: Mapping[str, str] = field(default_factory=dict)
    """Metrics and points that no emulated lab can measure, and why not.

    So for a condition that it can measure, but that is not there what the document means by it.
    """

    @property
    def loads(self) -> tuple[Workload, ...]:
        """All that runs in each run."""
        return (self.workload, *self.also)

    def asked(self, where: str, seed: int) -> dict[str, Any]:
        """What a run of this study asks for, apart from the lab."""
        load = {"name": type(self.workload).__name__, **asdict(self.workload)}
        names = [condition.name for condition in self.conditions]
        also = [{"name": type(one).__name__, **asdict(one)} for one in self.also]
        return {
            "study": self.name, "where": where, "seed": seed, "workload": load, "conditions": names,
            **({"also": also} if also else {}),
        }  # fmt: skip

    def condition(self, name: str | None) -> Condition:
        """The condition of a name; a study of one condition needs none."""
        known = {condition.name: condition for condition in self.conditions}
        if name is None and len(known) == 1:
            return self.conditions[0]
        if name is None:
            raise BadInput(f"which condition of {self.name}?", hint=f"known: {', '.join(known)}")
        if name not in known:
            raise Unknown(f"condition of {self.name}", name, known)
        return known[name]

    def plan(self, lab: Lab, condition: str | None = None) -> Plan:
        """What the conditions, or one of them, would change on this lab; nothing is touched."""
        return make_plan(self.settings(lab, condition), lab.hosts)

    def settings(self, lab: Lab, condition: str | None = None) -> list[Setting]:
        """All settings of the conditions, or of one, that this lab has the hosts for."""
        conditions = [self.condition(condition)] if condition else self.conditions
        asked = [one for condition in conditions for one in condition.asked(lab)]
        return [one for one in dict.fromkeys(asked) if one.role in lab.hosts]

    def refusals(self, lab: Lab, plan: Plan | None = None) -> dict[str, str]:
        """The conditions that this lab cannot do, and why."""
        plan = plan or self.plan(lab)
        each = [(c, load) for c in self.conditions for load in self.loads]
        there = [(c, load) for c, load in each if not c.lacks_host(lab, load)]
        absent = pairs.absent((c.load(load), c.pairs(lab, load)) for c, load in there)
        whys: dict[str, str] = {}
        for c, load in each:
            whys[c.name] = whys.get(c.name, "") or c.refusal(lab, load, plan, absent)
        return {name: why for name, why in whys.items() if why}

    def able(self, lab: Lab, refused: Mapping[str, str]) -> list[Condition]:
        """The other conditions; where there are none, nothing is worth a start."""
        able = [condition for condition in self.conditions if condition.name not in refused]
        if not able:
            whys = "".join(f"\n  {name}: {why}" for name, why in refused.items())
            raise BadInput(
                f"{lab.name} can do no condition of {self.name}{whys}",
                hint='a run of another lab: --where recorded; in a notebook where = "recorded"',
            )
        return able

    def run(
        self,
        lab: Lab,
        results: Results,
        *,
        repeats: int = 5,
        width: float | None = None,
        most: int = 20,
        tell: Tell = lambda _: None,
        stop: threading.Event | None = None,
        reread_seconds: float = PERIOD_SECONDS,
    ) -> Results:
        """Measure what `results` lacks, in shuffled blocks; what is finished is not run again.

        With a `width`, such as 0.1, blocks are added until the 95 % interval of each condition's
        median is that wide or less from end to end, beside its value; `most` blocks in all.
        Settings are read before, after, and every `reread_seconds` during each run; one in which
        somebody else changed them is kept as invalid, and made again. So is one that something on
        its hosts has spoiled (`gated`); what stays so is left out, and the study goes on.
        """
        check_repeats(repeats)
        if width is not None:
            enough({}, 50, width, most)  # refuses a width that cannot be meant before anything runs
        with (
            in_force(lab.hosts, self.name, period=reread_seconds) as changes,
            counting() as counters,
        ):
            refused = self.refusals(lab, changes.learn(self.settings(lab)))
            able = self.able(lab, refused)
            seed = int(results.asked["seed"])
            loop = Visit(
                self.loads, lab, results, tell, stop or threading.Event(), changes, counters
            )
            blocks = repeats
            loop.through(self._order(able, blocks, seed))
            while width is not None and (more := self._lacking(results, width, most, blocks)):
                blocks += more
                loop.through(self._order(able, blocks, seed))
        if not results.finished():
            whys = "\n".join(watch.left_out(results).values())
            helped = "what cannot be helped on these hosts can be named: `tolerates` of a lab file"
            raise ResultsError(f"no run of {self.name} could be used", said=f"{whys}\n{helped}")
        return results

    # So many more than these blocks; 0 when there are enough. Some may lack a valid run.
    def _lacking(self, results: Results, width: float, most: int, blocks: int) -> int:
        measured = self.blocks(results)
        return min(enough(measured, 50, width, most), most - blocks) if measured else 0

    # Each block holds every condition once, in an order of its own: drift of the lab hits all.
    def _order(self, able: list[Condition], repeats: int, seed: int) -> list[Step]:
        steps: list[Step] = []
        for block in range(1, repeats + 1):
            shuffled = list(able)
            random.Random(f"{seed}/{block}").shuffle(shuffled)
            steps += [Step(block, len(steps) + i, c) for i, c in enumerate(shuffled, 1)]
        return steps

    def blocks(self, results: Results) -> dict[str, dict[int, npt.NDArray[np.float64]]]:
        """All values by condition and block, read from the raw text of the finished runs."""
        values: dict[str, dict[int, npt.NDArray[np.float64]]] = defaultdict(dict)
        for run in results.finished():
            values[run.condition][run.block] = self.sample(run).values
        return {c.name: values[c.name] for c in self.conditions if c.name in values}

    def sample(self, run: Run) -> Sample:
        """The study's metric in one run, read from its raw text."""
        parsed = {s.metric: s for s in self.samples(run)}
        return parsed[self.metric]

    def samples(self, run: Run) -> list[Sample]:
        """All metrics of one run, read from its raw text."""
        return [sample for load in self.loads for sample in pairs.samples(load, run)]

    def measured(self, results: Results) -> dict[str, dict[int, npt.NDArray[np.float64]]]:
        """As `blocks`, and all other metrics too, as `ready_time: VM-Default`."""
        values: dict[str, dict[int, npt.NDArray[np.float64]]] = defaultdict(dict)
        for run in results.finished():
            for sample in self.samples(run):
                other = "" if sample.metric == self.metric else sample.metric.replace(" ", "_")
                name = f"{other}: {run.condition}" if other else run.condition
                values[name][run.block] = sample.values
        return dict(values)

    def judge(self, results: Results) -> list[Verdict]:
        """A verdict on each claim; what could not be measured says why."""
        refused = {**results.asked.get("refused", {}), **watch.left_out(results)}
        emulated = results.asked.get("lab", {}).get("tier", "hosts") != "hosts"
        untold = self.untold if emulated else {}
        measured = {name: b for name, b in self.measured(results).items() if name not in untold}
        verdicts = judge(self.claims, measured, emulated=emulated)
        whys = {**refused, **untold}
        noise = self.noise(results)
        other = [c.name for c in self.conditions if c.name in untold]
        told = [_other_here(_explained(verdict, whys), other) for verdict in verdicts]
        return [_in_noise(verdict, noise) for verdict in told]

    def noise(self, results: Results) -> Noise | None:
        """What `labkit noise` has found on the lab of these results; None if it was never asked."""
        return noise_floor.kept(self, str(results.asked.get("lab", {}).get("name", "")))

    def remarks(self, results: Results) -> list[str]:
        """What a reader of these results should know of them, a sentence each."""
        closed = [
            f"{load.name} waits for each answer before it asks again (a closed loop): while "
            "something stalls nothing is asked, so far percentiles look better than they are"
            for load in self.loads if load.loop == "closed"
        ]  # fmt: skip
        return [*watch.remarks(results), *steady.told(self.blocks(results)), *closed]

    def published(self) -> list[dict[str, str]]:
        """The document's own numbers, each named after the condition here that it belongs to."""
        names = {condition.name for condition in self.conditions}
        at_points = ((one, f"{one.condition} [{one.x_name}={one.x}]") for one in figures(self.name))
        return [
            {**asdict(one), "condition": at if at in names else one.condition}
            for one, at in at_points
        ]


def check_repeats(repeats: int) -> None:
    """Refuse a number of blocks that cannot be meant."""
    if not 1 <= repeats <= MOST_REPEATS:
        hint = "each condition is measured so often; the notebooks take 3 to 5"
        raise BadInput(f"repeats must be 1 to {MOST_REPEATS}, not {repeats}", hint=hint)


# A condition that was measured, but is not what the document means by it.
def _other_here(verdict: Verdict, names: Sequence[str]) -> Verdict:
    why = verdict.why
    for name in names:
        why = why.replace(f"not measured: {name}: ", f"{name} is not the document's here: ")
    return replace(verdict, why=why)


def _in_noise(verdict: Verdict, noise: Noise | None) -> Verdict:
    if noise is None or verdict.percentile is None or not verdict.effect:
        return verdict
    remark = noise.remark(verdict.percentile, verdict.effect)
    return replace(verdict, why=f"{verdict.why}; {remark}") if remark else verdict


def _explained(verdict: Verdict, refused: Mapping[str, str]) -> Verdict:
    names: dict[str, list[str]] = {}
    for name, why in refused.items():
        if name in verdict.why:
            names.setdefault(why, []).append(name)
    if verdict.verdict != "not testable here" or not names:
        return verdict
    whys = "; ".join(f"{', '.join(those)}: {why}" for why, those in names.items())
    head, rest = "not measured: ", verdict.why
    for name in sorted(sum(names.values(), [head]), key=len, reverse=True):
        rest = rest.replace(name, "")
    every = not rest.strip(", ")  # each that was not measured has its reason
    return replace(verdict, why=head + whys if every else f"{verdict.why} ({whys})")
