"""Doubts about a verdict, from the runs it rests on: a saturated generator, drift, invalid runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from labkit.results import Results, Run
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE, SAME, UNDECIDED, Verdict

GATE = "load generator"
SATURATED = "the load generator was saturated"
LATENCIES = ("us", "ms")
"""Units of metrics that a busy generator makes longer by its own waiting."""
SPOILT = 0.5
"""The share of a condition's runs from which on the generator decides its latency."""


@dataclass(frozen=True)
class Doubts:
    """Reasons to doubt the runs of some results; `borne` are gates tolerated by name."""

    results: Results
    borne: Mapping[str, Collection[str]]
    """By condition."""
    drifting: Sequence[str] = ()
    """Sentences on runs that had not settled, each begun by its condition."""

    def on(self, verdict: Verdict, names: Collection[str], latency: bool) -> Verdict:
        """The verdict with its doubts; one on a latency that a generator decides is undecided."""
        if verdict.verdict == NOT_TESTABLE:
            return verdict
        runs = [run for run in self._runs if run.condition in names]
        told = [*self._saturated(runs), *self._invalid(runs), *self._drifting(names)]
        if latency and (spoilt := self._spoilt(runs)):
            why = f"{SATURATED} in most runs of {', '.join(spoilt)}; else: {verdict.why}"
            decided = verdict.verdict in (HOLDS, CONTRADICTED, SAME)
            verdict = replace(
                verdict, verdict=UNDECIDED, why=why if decided else verdict.why, more=None
            )
        return replace(verdict, why="; ".join([verdict.why, *told])) if told else verdict

    # Each claim asks for them.
    @cached_property
    def _runs(self) -> list[Run]:
        return self.results.readable()[0]

    def _busy(self, run: Run) -> bool:
        seen = any(GATE in found for found in run.gates.values())
        return seen and GATE not in self.borne.get(run.condition, ())

    def _spoilt(self, runs: Sequence[Run]) -> list[str]:
        good = [run for run in runs if run.state == "finished"]
        names = dict.fromkeys(run.condition for run in good)
        each = {name: [self._busy(run) for run in good if run.condition == name] for name in names}
        return [name for name, busy in each.items() if sum(busy) >= SPOILT * len(busy)]

    def _saturated(self, runs: Sequence[Run]) -> list[str]:
        good = [run for run in runs if run.state == "finished"]
        busy = sum(map(self._busy, good))
        return [f"{SATURATED} in {busy} of {len(good)} runs"] if busy else []

    def _invalid(self, runs: Sequence[Run]) -> list[str]:
        bad = sum(run.state == "invalid" for run in runs)
        return [f"{bad} invalid run{'s' * (bad > 1)} made again or left out"] if bad else []

    def _drifting(self, names: Collection[str]) -> list[str]:
        return [one for one in self.drifting if one.partition(": ")[0] in names]
