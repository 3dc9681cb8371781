"""Capacity of a machine: CPUs, memory, last-level caches, disk. Sizes of workloads fit it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from labkit.errors import HostError
from labkit.host import Host
from labkit.machine.cpus import cpus_of
from labkit.machine.scripts import beside

# A container's own limit counts where it is lower than what the machine has.
LOOK = beside(__file__, "capacity_look.sh")
LINE = re.compile(r"(cpus|nodes|total|free|limit|disk) (\d+)")
CACHE = re.compile(r"cache (\d+) (\d+)([KMG]?) (\S+)")
SCRATCH = ("/run/labkit/scratch", "/var/tmp")
"""Places of the disk: on a host of a box, and on every other host."""
UNITS = {"": 1 / 1024, "K": 1, "M": 1024, "G": 1 << 20}


@dataclass(frozen=True)
class Capacity:
    """Of one machine as a program on it sees it; sizes are in KiB, 0 where it does not say."""

    cpus: int
    memory: int
    """In all, or as much as its control group may have."""
    free: int
    cache: int = 0
    """Of all last-level caches that its CPUs share, together."""
    disk: int = 0
    folder: str = ""
    """Folder in which that space is free."""
    huge: str = ""
    """The choices for transparent huge pages, the one in force in brackets."""
    nodes: int = 0
    """NUMA nodes of its machine."""

    @classmethod
    def of(cls, text: str) -> Capacity:
        """Read what LOOK printed."""
        numbers = {name: int(number) for name, number in LINE.findall(text)}
        if missing := [name for name in ("cpus", "total", "free") if name not in numbers]:
            raise HostError(f"a host does not say its {', '.join(missing)}", said=text[:200])
        limit = numbers.get("limit", 0) >> 10 or numbers["total"]
        words = {name: re.search(rf"^{name} (.*)$", text, re.M) for name in ("huge", "folder")}
        huge, folder = (word[1] if word else "" for word in words.values())
        return cls(
            numbers["cpus"], min(numbers["total"], limit), min(numbers["free"], limit), _last(text),
            numbers.get("disk", 0), folder, huge, numbers.get("nodes", 0),
        )  # fmt: skip


def capacity(host: Host) -> Capacity:
    """Ask a host; `disk` is what is free in the first folder of SCRATCH that it has."""
    return Capacity.of(host.check("sh", "-c", LOOK, "capacity", *SCRATCH))


def smallest(capacities: Collection[Capacity]) -> Capacity:
    """The capacity that all of them have; of caches, the most of any."""
    fewest = {name: min(vars(place)[name] for place in capacities)
              for name in ("cpus", "memory", "free", "disk")}  # fmt: skip
    return Capacity(**fewest, cache=max(place.cache for place in capacities))


# Each cache is listed once for every CPU that shares it; those of other hosts' CPUs are no concern.
def _last(text: str) -> int:
    match = re.search(r"^may (\S+)$", text, re.MULTILINE)
    may = {*cpus_of(match[1])} if match else set()
    caches = {
        (int(level), cpus): float(size) * UNITS[unit]
        for level, size, unit, cpus in CACHE.findall(text)
        if not may or may & {*cpus_of(cpus)}
    }
    last = max((level for level, _ in caches), default=0)
    return int(sum(size for (level, _), size in caches.items() if level == last))
