"""esxtop's batch mode (`esxtop -b`), and the same CSV of perfmon: each counter is a metric."""

import numpy as np

from labkit.imports._reading import insist, sample
from labkit.telemetry import counters
from labkit.workload import Sample


def read(text: str) -> list[Sample]:
    r"""One value per moment and counter; a counter that never had a number is left out.

    A metric is named as the counter, such as `\\host\Physical Cpu(_Total)\% Util Time`, which says
    its unit too. Of several counters of one name, the second is `... #2`.
    """
    columns = counters.of_text(text)
    samples = []
    for name, values in zip(counters.numbered(columns.names), columns.values.T, strict=True):
        numbers = values[np.isfinite(values)]
        if numbers.size:
            samples.append(sample(name, "", numbers))
    return insist(samples, "esxtop")


def left_out(text: str) -> str:
    """The words about a last line that was cut off."""
    return "" if text.endswith("\n") else counters.of_text(text).cut
