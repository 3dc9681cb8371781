"""What stored runs measured, read again from their raw text: by metric, condition and block."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from labkit import imports, studies
from labkit.errors import ResultsError
from labkit.results import Results, Run
from labkit.workload import Sample

Measured = dict[str, dict[int, npt.NDArray[np.float64]]]


def samples(results: Results, run: Run) -> list[Sample]:
    """Everything that one run measured."""
    if results.study == imports.STUDY:
        return [s for name in run.raw for s in imports.find(_format(results)).read(run.text(name))]
    return studies.find(results.study).samples(run)


def main_metric(results: Results) -> str:
    """The metric that a study is about; of imported results the first one."""
    if results.study != imports.STUDY:
        return studies.find(results.study).metric
    for run in results.finished():
        return samples(results, run)[0].metric
    raise ResultsError(f"{results.path} has no finished run")


def of_metric(results: Results, metric: str) -> Measured:
    """Condition -> block -> values of one metric, of the finished runs."""
    values: Measured = defaultdict(dict)
    for run in results.finished():
        for sample in samples(results, run):
            if sample.metric == metric:
                values[run.condition][run.block] = sample.values
    return dict(values)


def _format(results: Results) -> str:
    return str(results.asked.get("workload", {}).get("name", ""))
