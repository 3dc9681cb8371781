"""Flent, its data files (`.flent.gz` or `.flent`): every value of every series.

A data file has each series twice: interpolated, in the unit that it names, and raw, as the tool
printed it. Raw is seconds for an HTTP request, but transactions a second for a round trip of
netperf. The file does not say what was done to the raw ones, so both are compared. 31.6 ms and 31.6
a second look alike; there the version of the format decides.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from labkit.errors import ResultsError
from labkit.imports._reading import at, insist, json_of, number, sample
from labkit.workload import Sample

Numbers = npt.NDArray[np.float64]

CHANGES: tuple[Callable[[Numbers], Numbers], ...] = (
    lambda raw: raw,
    lambda raw: raw * 1e3,
    lambda raw: 1e3 / raw[raw != 0],
    lambda raw: raw / 1e6,
    lambda raw: raw / 1e3,
    lambda raw: np.diff(raw),
)
"""Flent's changes to raw values: none, s to ms, a rate to ms, bits or kbits to Mbits, steps."""
ONE_UNIT = 4
"""From this version of the format on, raw values should be in the unit of the others."""
LEVELS = (10, 25, 50, 75, 90)
AS_NEAR = 0.25


def read(text: str) -> list[Sample]:
    """Each series with its raw values, if the file has them, and the mean by the tool."""
    document = json_of(text, "Flent")
    series, raw = at(document, "results"), document.get("raw_values") or {}
    units = at(document, "metadata").get("SERIES_META") or {}
    if not all(isinstance(part, dict) for part in (series, raw, units)):
        raise ResultsError("the output of Flent has no series")
    has_one_unit = number(document.get("version", 1), "the version") >= ONE_UNIT
    samples = []
    for name, steps in series.items():
        values = _of_series(_values(steps, name), _values(raw.get(name) or [], name), has_one_unit)
        if values.size:
            about = units.get(name)
            about = about if isinstance(about, dict) else {}
            unit = str(about.get("UNITS") or "")
            samples.append(sample(name, unit, values))
            # Values of a throughput are of unequal times, so that their mean is not that of all.
            if has_one_unit and (mean := about.get("MEAN_VALUE")) is not None:
                samples.append(
                    sample(f"{name} mean", unit, number(mean, f"the mean of {name[:80]}"))
                )
    return insist(samples, "Flent")


def _values(points: Any, name: str) -> Numbers:
    if not isinstance(points, list):
        raise ResultsError(f"the series {name[:80]!r} of Flent is not a list")
    numbers = [point.get("val") if isinstance(point, dict) else point for point in points]
    values = [number(value, f"a value of {name[:80]!r}") for value in numbers if value is not None]
    return np.array(values, np.float64)


def _of_series(steps: Numbers, raw: Numbers, has_one_unit: bool) -> Numbers:
    if not (steps.size and raw.size):
        return raw if raw.size else steps
    if has_one_unit and _apart(steps, raw) <= AS_NEAR:
        return raw
    candidates = [values for change in CHANGES if (values := change(raw)).size]
    apart, nearest = min(((_apart(steps, series), n) for n, series in enumerate(candidates)))
    return candidates[nearest] if apart <= AS_NEAR else steps


# Interpolation moves percentiles by little; a wrong unit does so by much.
def _apart(steps: Numbers, raw: Numbers) -> float:
    a, b = np.percentile(steps, LEVELS), np.percentile(raw, LEVELS)
    size = float(np.sum(np.abs(a) + np.abs(b)))
    return float(np.sum(np.abs(a - b))) / size if size else 0.0
