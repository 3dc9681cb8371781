"""The figures of tiles: what each number of them did, and how many answer in time."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from labkit.errors import ResultsError
from labkit.tile.users import MAIL, SHOP, SOCIAL
from labkit.workload import Sample
from labkit.workloads._sections import parted
from labkit.workloads.disk_array import READ_MS, READS, WRITE_MS, WRITES

LOADS = (SHOP, MAIL, SOCIAL)
APPLICATIONS = 0.8
"""Their share of a score; the rest is that of infrastructure operations."""
QUANTILE = 95
PARTS = ("before", "users", "copies", "after")
COLUMNS = WRITE_MS + 1
"""Counters of the volume that are read."""
LEAST, MOST_NUMBER = 1e-6, 1e15


@dataclass(frozen=True)
class TileStretch:
    """The work of one number of tiles."""

    tiles: int
    seconds: float
    nominal: Mapping[str, float]
    took: Mapping[str, list[list[float]]]
    copies: int
    copied: float
    """Seconds from the beginning of the first copy to the end of the last one."""
    disk: npt.NDArray[np.float64]

    @classmethod
    def of(cls, parts: Mapping[str, str], number: int) -> Self:
        """The work that the parts of a number tell."""
        try:
            users = json.loads(parts[f"users {number}"])
            rows = [line.split() for line in parts[f"copies {number}"].splitlines()]
            spans = [(_number(start), _number(end)) for _, start, end in rows]
            before, after = (parts[f"{at} {number}"].splitlines() for at in ("before", "after"))
            lacks_disk = {before[1], after[1]} != {"0"}
            counts = [[*map(_number, lines[0].split())] for lines in (before, after)]
            took = {load: [[*map(_number, tile)] for tile in users["took"][load]]
                    for load in LOADS}  # fmt: skip
            nominal = {load: _number(users["nominal"][load], LEAST) for load in LOADS}
            tiles, seconds = int(_number(users["tiles"])), _number(users["seconds"], LEAST)
        except (KeyError, TypeError, ValueError, IndexError) as odd:
            raise ResultsError(f"tiles: stretch {number} cannot be read", said=str(odd)) from None
        if lacks_disk:
            raise ResultsError(f"tiles: the array lost a disk in stretch {number}")
        idle = [load for load in LOADS if len(took[load]) != tiles or not any(took[load])]
        if idle or not spans:
            names = ", ".join(idle) or "copies of disks"
            raise ResultsError(f"tiles: too few answers came in stretch {number}: {names}",
                               hint="measure for longer: duration")  # fmt: skip
        disk = np.array([b - a for a, b in zip(*counts, strict=False)])[:COLUMNS]
        copy_seconds = spans[-1][1] - spans[0][0]
        if len(disk) < COLUMNS or disk.min() < 0 or copy_seconds <= 0:
            raise ResultsError(f"tiles: a counter went back in stretch {number}")
        return cls(tiles, seconds, nominal, took, len(spans), copy_seconds, disk)

    def values(self, load: str) -> npt.NDArray[np.float64]:
        """The ms that each answer took, of all tiles."""
        return np.concatenate([np.array(tile, float) for tile in self.took[load]])

    def slow(self, load: str) -> float:
        """The percentile that is limited."""
        return float(np.percentile(self.values(load), QUANTILE))

    def score(self, pause: float) -> float:
        """The sum of what tiles did of the nominal, and the infrastructure's part."""
        work = np.array([[len(tile) / self.seconds / self.nominal[load] for tile in self.took[load]]
                         for load in LOADS])  # fmt: skip
        tiles = float(np.prod(work, axis=0) ** (1 / len(LOADS)) @ np.ones(self.tiles))
        return APPLICATIONS * tiles + (1 - APPLICATIONS) * self.operations * pause

    @property
    def operations(self) -> float:
        """Copies of guests' disks a second."""
        return self.copies / self.copied

    def samples(self, pause: float) -> Iterator[Sample]:
        """Its figures, at its point."""
        at = f"tiles={self.tiles}"
        yield Sample.single(f"score [{at}]", "1", self.score(pause))
        for load in LOADS:
            values = self.values(load)
            yield Sample(f"app latency [{at}, load={load}]", "ms", values)
            rate = len(values) / self.seconds
            yield Sample.single(f"app throughput [{at}, load={load}]", "1/s", rate)
        for name, count, took in (("read", READS, READ_MS), ("write", WRITES, WRITE_MS)):
            if self.disk[count]:
                mean = self.disk[took] / self.disk[count]
                yield Sample.single(f"guest {name} latency [{at}]", "ms", mean)
        yield Sample.single(f"infrastructure [{at}]", "1/min", 60 * self.operations)


@dataclass(frozen=True)
class TileRun:
    """All numbers of tiles of one run."""

    limit: float
    pause: float
    stretches: Sequence[TileStretch]

    @classmethod
    def read(cls, text: str) -> Self:
        """The run that a text tells, or the reason why it tells none."""
        parts = parted(text, "kept", "users 1")
        numbers = range(1, 1 + (len(parts) - 1) // len(PARTS))
        names = {"kept", *(f"{part} {number}" for number in numbers for part in PARTS)}
        if odd := sorted(names ^ parts.keys()):
            raise ResultsError("tiles: part of the output is not recognized", said=odd[0])
        try:
            limits = json.loads(parts["kept"])
            limit, pause = _number(limits["limit"], 0.99), _number(limits["pause"], LEAST)
        except (KeyError, TypeError, ValueError) as odd:
            raise ResultsError("tiles: its limits cannot be read", said=str(odd)) from None
        stretches = [TileStretch.of(parts, number) for number in numbers]
        if any(smaller.tiles >= larger.tiles for smaller, larger in pairwise(stretches)):
            raise ResultsError("tiles: their numbers do not grow")
        return cls(limit, pause, stretches)

    def holds(self, tiles: int) -> bool:
        """Whether this number of tiles, and all smaller ones, answered within the limits."""
        first = self.stretches[0]
        return all(
            stretch.slow(load) <= self.limit * first.slow(load)
            for stretch in self.stretches if stretch.tiles <= tiles for load in LOADS
        )  # fmt: skip


def _number(text: Any, above: float = -1) -> float:
    number = float(text)
    if not above < number < MOST_NUMBER:
        raise ValueError(f"{text} is out of range")
    return number
