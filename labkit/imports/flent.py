"""Flent, its data files (`.flent.gz` or `.flent`): every value of every series."""

from __future__ import annotations

from typing import Any

from labkit.errors import ResultsError
from labkit.imports._reading import at, insist, json_of, number, sample
from labkit.workload import Sample


def read(text: str) -> list[Sample]:
    """Each series as a metric; the raw values where there are some, for others are interpolated."""
    whole = json_of(text, "Flent")
    series, raw = at(whole, "results"), whole.get("raw_values") or {}
    units = at(whole, "metadata").get("SERIES_META") or {}
    if not (isinstance(series, dict) and isinstance(raw, dict)):
        raise ResultsError("the output of Flent has no series")
    found = []
    for name, steps in series.items():
        values = _values(raw.get(name) or steps, name)
        if values:
            found.append(sample(name, str((units.get(name) or {}).get("UNITS", "")), values))
    return insist(found, "Flent")


def _values(points: Any, name: str) -> list[float]:
    if not isinstance(points, list):
        raise ResultsError(f"the series {name[:80]!r} of Flent is no list")
    seen = [point.get("val") if isinstance(point, dict) else point for point in points]
    return [number(value, f"a value of {name[:80]!r}") for value in seen if value is not None]
