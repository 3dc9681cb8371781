"""A study: conditions, a workload, claims; and the loop that measures them."""

from __future__ import annotations

import csv
import json
import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from labkit import pairs
from labkit.change import PERIOD_SECONDS, InForce, in_force
from labkit.claim import Claim, judge
from labkit.errors import BadInput, LabkitError, SettingRefused, Stopped, Unknown
from labkit.host import Host
from labkit.lab import Lab
from labkit.plan import Plan
from labkit.plan import plan as make_plan
from labkit.results import HOME, Results, Run
from labkit.setting import Setting
from labkit.stats import enough, percentile
from labkit.verdict import Verdict
from labkit.workload import Sample, Workload

TRIES = 2
"""How often a run is made when somebody else changes its settings meanwhile."""
PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)


@dataclass(frozen=True)
class Condition:
    """One way to run the workload: `means` is the document's, `here` what this lab does for it.

    `settings` are required; `optional` ones are made where the host can take them. `roles` says
    which role of the lab plays a role of the workload, where the names differ; of several names,
    each makes a pair with the others, and all pairs are under the load at once.
    """

    name: str
    means: str
    here: str
    settings: tuple[Setting, ...] = ()
    optional: tuple[Setting, ...] = ()
    roles: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)

    def pairs(self, lab: Lab, workload: Workload) -> dict[str, dict[str, Host]]:
        """The hosts that the workload runs between, by what plays its last role."""
        played = {role: self._players(role) for role in workload.roles}
        several = max(map(len, played.values()))
        each = [{role: p[n % len(p)] for role, p in played.items()} for n in range(several)]
        last = workload.roles[-1]
        return {one[last]: {role: lab.host(p) for role, p in one.items()} for one in each}

    def _players(self, role: str) -> tuple[str, ...]:
        players = self.roles.get(role, role)
        return (players,) if isinstance(players, str) else players

    def asked(self, lab: Lab) -> list[Setting]:
        """The settings that concern this lab, in order."""
        return [*(one for one in self.optional if one.role in lab.hosts), *self.settings]

    def refusal(self, lab: Lab, workload: Workload, plan: Plan) -> str:
        """Why this lab cannot do this condition; empty when it can."""
        try:
            together = self.pairs(lab, workload)
            for setting in self.settings:
                lab.host(setting.role)
        except Unknown as missing:
            return f"the lab has no host for it ({missing.what})"
        whys = {step.setting: step.why for step in plan.steps}
        why = next((whys[setting] for setting in self.settings if whys[setting]), "")
        return why or pairs.missing_tool(workload, together)


@dataclass(frozen=True)
class Progress:
    """Where a study stands; `done` of `of` runs are kept."""

    step: str
    condition: str
    block: int
    done: int
    of: int
    seconds_left: float

    @property
    def share(self) -> float:
        """The share of the runs that are kept, 0 to 1."""
        return self.done / self.of if self.of else 1.0


Tell = Callable[[Progress], None]
WATCHED = "LABKIT_PROGRESS"
"""Names a file that each Progress is appended to, so that another process can show it."""


def to_file(progress: Progress, results: Results) -> None:
    """Append to the file that $LABKIT_PROGRESS names, if it does."""
    if name := os.environ.get(WATCHED):
        line = {"results": str(results.path), "progress": asdict(progress)}
        with open(name, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


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
    """Metrics and points that no emulated lab can measure, and why not."""

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
        whys = {
            c.name: next(filter(None, (c.refusal(lab, load, plan) for load in self.loads)), "")
            for c in self.conditions
        }
        return {name: why for name, why in whys.items() if why}

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
        somebody else changed them is kept as invalid, and made again.
        """
        if repeats < 1:
            raise BadInput(f"repeats must be 1 or more, not {repeats}")
        if width is not None:
            enough({}, 50, width, most)  # refuses a width that cannot be meant before anything runs
        with in_force(lab.hosts, self.name, period=reread_seconds) as changes:
            refused = self.refusals(lab, changes.learn(self.settings(lab)))
            able = [condition for condition in self.conditions if condition.name not in refused]
            if not able:
                raise BadInput(
                    f"{lab.name} can do no condition of {self.name}",
                    said="\n".join(refused.values()),
                )
            seed = int(results.asked["seed"])
            loop = _Loop(self, lab, results, tell, stop or threading.Event(), changes)
            loop.through(self._order(able, repeats, seed))
            while width is not None and (more := self._lacking(able, results, width, most)):
                loop.through(self._order(able, more, seed))
        return results

    # The number of blocks to go on to; 0 when there are enough.
    def _lacking(self, able: list[Condition], results: Results, width: float, most: int) -> int:
        measured = self.blocks(results)
        asked = {condition.name: measured[condition.name] for condition in able}
        more = enough(asked, 50, width, most)
        return more and more + min(len(blocks) for blocks in asked.values())

    # Each block holds every condition once, in an order of its own: drift of the lab hits all.
    def _order(self, able: list[Condition], repeats: int, seed: int) -> list[_Step]:
        steps: list[_Step] = []
        for block in range(1, repeats + 1):
            shuffled = list(able)
            random.Random(f"{seed}/{block}").shuffle(shuffled)
            steps += [_Step(block, len(steps) + i, c) for i, c in enumerate(shuffled, 1)]
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
        return [s for load in self.loads for s in pairs.parse(load, run.text(f"{load.name}.txt"))]

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
        refused = results.asked.get("refused", {})
        emulated = results.asked.get("lab", {}).get("tier", "hosts") != "hosts"
        verdicts = judge(self.claims, self.measured(results), emulated=emulated)
        whys = {**refused, **(self.untold if emulated else {})}
        return [_explained(verdict, whys) for verdict in verdicts]

    def published(self) -> list[dict[str, str]]:
        """The document's own numbers."""
        file = HOME / "data" / "published" / f"{self.name}.csv"
        with file.open(encoding="utf-8", newline="") as lines:
            return list(csv.DictReader(lines))


@dataclass(frozen=True)
class _Step:
    block: int
    order: int
    condition: Condition


@dataclass
class _Loop:
    """One pass over the steps; knows how long a run takes by the ones before."""

    study: Study
    lab: Lab
    results: Results
    tell: Tell
    stop: threading.Event
    changes: InForce
    done: int = 0
    spent: list[float] = field(default_factory=list)

    def through(self, steps: list[_Step]) -> None:
        kept = {(run.condition, run.block) for run in self.results.finished()}
        todo = [step for step in steps if (step.condition.name, step.block) not in kept]
        self.done = len(steps) - len(todo)
        if todo:
            self.changes.take(self.changes.possible_roles())
        for step in todo:
            if self.stop.is_set():
                raise Stopped(
                    f"stopped after {self.done} of {len(steps)} runs; settings are put back",
                    hint="run it again to measure only what is missing",
                )
            self.spent.append(self._valid(step, len(steps)).seconds)
            self.done += 1
        self._say("finished", steps[-1], len(steps))

    # Somebody who changes our settings once may have been a person; twice, it is a program.
    def _valid(self, step: _Step, of: int) -> Run:
        for _ in range(TRIES):
            if (run := self._one(step, of)).state == "finished":
                return run
        raise SettingRefused(
            f"{step.condition.name} was not measured: {TRIES} runs were invalid", said=run.why,
            hint="is something else on that host managing the same setting?",
        )  # fmt: skip

    def _one(self, step: _Step, of: int) -> Run:
        changes = self.changes
        settings = [s for s in step.condition.asked(self.lab) if not changes.steps[s].why]
        wanted = {setting.thing: setting.wanted for setting in settings}
        begun, started = time.monotonic(), datetime.now(UTC).isoformat(timespec="milliseconds")
        run = Run(
            step.condition.name, step.block, step.order, "finished", "", wanted, started=started,
            reread_seconds=changes.period,
        )  # fmt: skip
        raw: dict[str, str] = {}
        try:
            self._say("setting up", step, of)
            changes.move_to(settings)
            changes.check(settings)
            self._say("measuring", step, of)
            seen = len(changes.drifts)
            measured = self._measure(step.condition, raw)
            drifts = [*changes.drifted(settings), *changes.drifts[seen:]]
            rows = tuple(
                row(sample)
                for load in self.study.loads
                for sample in pairs.parse(load, raw[f"{load.name}.txt"])
            )
        except LabkitError as failed:
            took = time.monotonic() - begun
            self.results.keep(replace(run, state="failed", why=str(failed), seconds=took), raw)
            raise
        whole = replace(
            run,
            state="invalid" if drifts else "finished",
            why="\n".join(map(str, drifts)),
            before=changes.before,
            seconds=time.monotonic() - begun,
            measured_seconds=measured,
            rows=rows,
        )
        return self.results.keep(whole, raw)

    # What was said before a failure is kept with it.
    def _measure(self, condition: Condition, raw: dict[str, str]) -> float:
        begun = time.monotonic()
        for load in self.study.loads:
            raw[f"{load.name}.txt"] = pairs.run(load, condition.pairs(self.lab, load))
        return time.monotonic() - begun

    def _say(self, step: str, at: _Step, of: int) -> None:
        expected = 3 + sum(load.seconds for load in self.study.loads)
        each = float(np.mean(self.spent)) if self.spent else expected
        left = (of - self.done) * each if step != "finished" else 0.0
        progress = Progress(step, at.condition.name, at.block, self.done, of, left)
        to_file(progress, self.results)
        self.tell(progress)


def row(sample: Sample) -> dict[str, Any]:
    """What is kept of a sample beside its raw text: percentiles, and how many there were."""
    values = {f"p{q:g}": round(percentile(sample.values, q), 3) for q in PERCENTILES}
    return {
        "metric": sample.metric, "unit": sample.unit, "n": len(sample.values), "lost": sample.lost,
        **values, "max": round(float(sample.values.max()), 3),
    }  # fmt: skip


def _explained(verdict: Verdict, refused: Mapping[str, str]) -> Verdict:
    whys = [f"{name}: {why}" for name, why in refused.items() if name in verdict.why]
    if verdict.verdict != "not testable here" or not whys:
        return verdict
    return replace(verdict, why=f"{verdict.why} ({'; '.join(whys)})")
