"""The loads of a study whose figures a claim is about."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from labkit.claim import Claim
from labkit.errors import LabkitError
from labkit.results import Results
from labkit.statistics.measurand import measurands, plain
from labkit.study import Study
from labkit.workload import Workload
from labkit.workloads import _pairs as pairs


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
        metrics_named = {
            name.metric or plain(self.study.metric) for name in measurands(claim.names())
        }
        metrics = self._metrics
        return (
            tuple(load for load in loads if metrics.get(load.name, metrics_named) & metrics_named)
            or loads
        )

    # What does not tell its metrics shows them in its runs.
    @cached_property
    def _metrics(self) -> Mapping[str, set[str]]:
        metrics = {load.name: {*map(plain, load.measures)} for load in self.study.loads}
        for load in (load for load in self.study.loads if not load.measures):
            for run in self.results.finished():
                with suppress(LabkitError):
                    metrics[load.name] |= {plain(s.metric) for s in pairs.samples(load, run)}
        return {name: names for name, names in metrics.items() if names}
