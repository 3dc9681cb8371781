"""The loads of a study whose figures a claim is about."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from labkit.claim import Claim
from labkit.errors import LabkitError
from labkit.judging.reading import Reading
from labkit.results import Results
from labkit.statistics.measurand import Measurand, measurands, plain
from labkit.study import Study
from labkit.workload import Workload
from labkit.workloads import _pairs as pairs

LEAST_LOSS = 0.01
"""The share that one condition at least has to lose, or its rate is no limit of anything."""
TOO_SLOW = "99 % or more arrived in every condition: only a higher rate tells them apart"


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
