"""Doubts about a verdict, from the runs it rests on: a late generator, invalid runs.

And the loads of a study whose figures a claim is about.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from labkit.claim import Claim
from labkit.errors import LabkitError
from labkit.gates import generator
from labkit.gates.gate import BUSY_CLIENT
from labkit.reason import Reason, What
from labkit.results import Results, Run
from labkit.statistics.measurand import Measurand, measurands, plain
from labkit.study import Reading, Study
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE, SAME, UNDECIDED, Verdict
from labkit.workload import Workload
from labkit.workloads import _pairs as pairs

SPOILS = {
    generator.GATE: "the load generator sent late",
    BUSY_CLIENT: "the client had no CPU time left",
}
"""Gates on what asks, and what each says of the figures."""
LATENCIES = ("us", "ms")
"""Units of metrics that a late or busy client makes longer by its own waiting."""
SPOILT = 0.5
"""The share of a condition's runs from which on what asks decides its latency."""
LEAST_LOSS = 0.01
"""The share that one condition at least has to lose, or its rate is no limit of anything."""
TOO_SLOW = "99 % or more arrived in every condition: only a higher rate tells them apart"


@dataclass(frozen=True)
class Doubts:
    """Reasons to doubt the runs of some results; `borne` are gates tolerated by name."""

    results: Results
    borne: Mapping[str, Collection[str]]
    """By condition."""
    unsteady: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By condition how many runs had not settled, and of how many."""

    def on(
        self, verdict: Verdict, names: Collection[str], latency: bool, loads: Sequence[Workload]
    ) -> Verdict:
        """The verdict with its doubts; a latency that what asks decides is undecided.

        `names` are its conditions, and `loads` what its figures are of.
        """
        if verdict.verdict == NOT_TESTABLE:
            return verdict
        runs = [run for run in self.results.readable()[0] if run.condition in names]
        good = [(run, self._find_spoils(run, loads)) for run in runs if run.state == "finished"]
        counts = {name: sum(name in spoils for _, spoils in good) for name in SPOILS}
        remarks = [Reason(What.SPOILS, said=SPOILS[name], count=n, of=len(good))
                   for name, n in counts.items() if n]  # fmt: skip
        if bad := sum(run.state == "invalid" for run in runs):
            remarks.append(Reason(What.INVALID, count=bad))
        remarks += [Reason(What.CHANGING, (name,), count=n, of=of)
                    for name, (n, of) in self.unsteady.items() if name in names]  # fmt: skip
        if latency and (spoilt := _spoilt(good)):
            is_decided = verdict.verdict in (HOLDS, CONTRADICTED, SAME)
            reasons = (spoilt, *verdict.reasons) if is_decided else verdict.reasons
            verdict = replace(verdict, verdict=UNDECIDED, reasons=reasons, more=None)
        return verdict.also(*remarks)

    def _find_spoils(self, run: Run, loads: Sequence[Workload]) -> frozenset[str]:
        gates = generator.gates_of(run, loads, self.results.asked).values()
        makes_load = any(generator.ROLE in load.roles for load in loads)
        borne = self.borne.get(run.condition, ())
        return frozenset(
            name for name in SPOILS
            if makes_load and name not in borne and any(name in names for names in gates)
        )  # fmt: skip


def _spoilt(good: Sequence[tuple[Run, frozenset[str]]]) -> Reason | None:
    by: dict[str, list[frozenset[str]]] = {}
    for run, spoils in good:
        by.setdefault(run.condition, []).append(spoils)
    for name, reason in SPOILS.items():
        conditions = [
            c for c, runs in by.items() if sum(name in s for s in runs) >= SPOILT * len(runs)
        ]
        if conditions:
            return Reason(What.SPOILT, tuple(conditions), reason)
    return None


def unhurried(reading: Reading) -> dict[str, str]:
    """The claims on a rate that was chosen too low to be a limit, by id, and that this is why."""
    main = plain(reading.study.metric)
    rates = {rate for load in reading.study.loads for rate, loss in [load.rate_and_loss]
             if rate and _most_lost(reading, loss) <= LEAST_LOSS}  # fmt: skip
    return {claim.id: TOO_SLOW for claim in reading.study.claims if (claim.metric or main) in rates}


# In the condition that loses most, in its middle block.
def _most_lost(reading: Reading, loss: str) -> float:
    shares = [np.median([np.mean(values) for values in blocks.values()])
              for name, blocks in reading.measured.items()
              if Measurand.of(name).metric == loss]  # fmt: skip
    return float(max(shares, default=1.0))


@dataclass(frozen=True)
class Loads:
    """The loads of a study, and the metrics that each gave in these results."""

    study: Study
    results: Results

    def of(self, claim: Claim) -> tuple[Workload, ...]:
        """The loads whose metrics the claim names; all of them where none is known."""
        loads = self.study.loads
        if len(loads) == 1:
            return loads
        named = {name.metric or plain(self.study.metric) for name in measurands(claim.names())}
        metrics = self._metrics
        return tuple(load for load in loads if metrics.get(load.name, named) & named) or loads

    # What does not tell its metrics shows them in its runs.
    @cached_property
    def _metrics(self) -> Mapping[str, set[str]]:
        metrics = {load.name: {*map(plain, load.measures)} for load in self.study.loads}
        for load in (load for load in self.study.loads if not load.measures):
            for run in self.results.finished():
                with suppress(LabkitError):
                    metrics[load.name] |= {plain(s.metric) for s in pairs.samples(load, run)}
        return {name: names for name, names in metrics.items() if names}
