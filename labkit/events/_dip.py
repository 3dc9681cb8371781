"""The effect of an event on a load: how far it fell, for how long, and when it was as before."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labkit.workload import Sample, Series

FALLEN, LEAST, RECOVERED = 0.9, 0.5, 0.95
"""Shares of what was reached before: below the first is a dip, the last counts as before.

A load that varies by itself has to fall by more, three of its standard deviations; half is enough.
"""
DEVIATIONS = 3
FEWEST = 3
"""The fewest values before the event; their mean is the load's own rate."""
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Span:
    """An event in seconds since 1970; the guest may have stood still in its midst.

    What is prepared for it takes CPU time from the load, from `prepared` until it has `begun`.
    """

    prepared: float
    begun: float
    stopped: float | None
    resumed: float | None
    ended: float


def samples(span: Span, loads: Mapping[str, Series]) -> list[Sample]:
    """Depth, time to recover, work lost, and the load while memory was copied."""
    return [sample for at, values in loads.values() for sample in _of(span, at, values)]


def _of(span: Span, at: Values, values: Values) -> Iterable[Sample]:
    before = values[at < span.prepared]
    if before.size < FEWEST or not before.mean() > 0:
        return
    share = values / before.mean()
    meanwhile = (at >= span.begun) & (at <= span.ended + 1)
    if not meanwhile.any():
        return
    yield Sample.single("load before", "1/s", before.mean())
    yield Sample.single("depth", "share", max(0.0, 1 - float(share[meanwhile].min())))
    copying = (at >= span.begun) & (at <= span.ended) & ~_still(span, at)
    if span.stopped is not None and copying.any():
        yield Sample.single("steady share", "share", (share[copying] >= _fallen(before)).mean())
        yield Sample.single("load while copying", "share", share[copying].mean())
    lost = float((before.mean() - values[meanwhile]).sum()) * _measure_step(at[meanwhile])
    yield Sample.single("work lost", "1", max(0.0, lost))
    if span.resumed is not None and (back := _recovered(span.resumed, at, share)) is not None:
        yield Sample.single("recovery time", "s", back)


def _fallen(before: Values) -> float:
    spread = float(before.std(ddof=1) / before.mean())
    return max(LEAST, min(FALLEN, 1 - DEVIATIONS * spread))


# A value is of the time around its moment, so those next to the standing still belong to it.
def _still(span: Span, at: Values) -> npt.NDArray[np.bool_]:
    stopped = np.inf if span.stopped is None else span.stopped
    resumed = span.ended if span.resumed is None else span.resumed
    beside = _measure_step(at) / 2
    return (at >= stopped - beside) & (at <= resumed + beside)


# Seconds between two values.
def _measure_step(at: Values) -> float:
    return float(np.median(np.diff(at))) if at.size > 1 else 1.0


# From where it goes on to the first value that is as before; none where that never comes.
def _recovered(resumed: float, at: Values, share: Values) -> float | None:
    good = at[(at > resumed) & (share >= RECOVERED)]
    return float(good[0] - resumed) if good.size else None
