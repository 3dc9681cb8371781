"""Results read once: every run parsed one time, for all that a judgement asks of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from labkit.results import Results, Run
from labkit.statistics.measurand import Measurand
from labkit.study import Measured, Study
from labkit.workload import Sample


@dataclass(frozen=True)
class Reading:
    """A study in the sizes that were measured, and its results with their runs in memory."""

    study: Study
    results: Results

    @classmethod
    def of(cls, study: Study, results: Results) -> Reading:
        """Read these results."""
        return cls(study.sized(**results.asked.get("sizes", {})), results.read_once())

    @cached_property
    def samples(self) -> list[tuple[Run, list[Sample]]]:
        """Each run that can be judged, with all that it measured."""
        return self.study.read(self.results)

    @cached_property
    def measured(self) -> Measured:
        """All values by name and block."""
        return self.study.by_name(self.samples)

    @cached_property
    def blocks(self) -> Measured:
        """The values of the study's own metric by condition and block."""
        return self.study.main(self.samples)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The names whose values are a `count`, or the `share` of trials."""
        return self.study.kinds_of(self.samples)

    @cached_property
    def units(self) -> dict[str, str]:
        """The units of all values by name."""
        main = self.study.metric
        return {
            str(Measurand.measured(sample.metric, run.condition, main)): sample.unit
            for run, samples in self.samples for sample in samples
        }  # fmt: skip
