"""The loads of a study whose figures a claim is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from labkit.claim import Claim
from labkit.claims.judged_study import JudgedStudy
from labkit.errors import LabkitError
from labkit.results import Results
from labkit.workload import Workload
from labkit.workloads import _pairs as pairs


@dataclass(frozen=True)
class Loads:
    """The loads of a study, and the metrics that each gave in these results."""

    study: JudgedStudy
    results: Results

    def of(self, claim: Claim) -> tuple[Workload, ...]:
        """The loads whose metrics the claim names; all of them where none is known."""
        loads = self.study.loads
        if len(loads) == 1:
            return loads
        main = self.study.metric.replace(" ", "_")
        named = {name.rpartition(": ")[0] or main for name in claim.names()}
        metrics = self._metrics
        return tuple(load for load in loads if metrics.get(load.name, named) & named) or loads

    # A metric at a point, such as `bandwidth [op=Copy]`, is that of the point.
    @cached_property
    def _metrics(self) -> Mapping[str, set[str]]:
        metrics: dict[str, set[str]] = {}
        for run in self.results.finished():
            for load in self.study.loads:
                try:
                    samples = pairs.samples(load, run)
                except LabkitError:
                    continue
                heads = {sample.metric.partition(" [")[0].replace(" ", "_") for sample in samples}
                metrics.setdefault(load.name, set()).update(heads)
        return metrics
