"""Doubts about a verdict, from the runs it rests on: a late generator, drift, invalid runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from labkit.gates import generator
from labkit.gates.gate import BUSY_CLIENT
from labkit.reason import Reason, What
from labkit.results import Results, Run
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE, SAME, UNDECIDED, Verdict
from labkit.workload import Workload

SPOILS = {
    generator.GATE: "the load generator sent late",
    BUSY_CLIENT: "the client had no CPU time left",
}
"""Gates on what asks, and what each says of the figures."""
LATENCIES = ("us", "ms")
"""Units of metrics that a late or busy client makes longer by its own waiting."""
SPOILT = 0.5
"""The share of a condition's runs from which on what asks decides its latency."""


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
