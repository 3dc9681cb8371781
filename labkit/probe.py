"""A probe: what a host counts anyway, read before and after a stretch of work."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from labkit.host import Host
from labkit.workload import Sample


@dataclass(frozen=True)
class Probe(ABC):
    """Its two texts are kept with the run; what happened between them is read from them alone."""

    @abstractmethod
    def look(self, host: Host) -> str:
        """The host's counters so far, as it printed them."""

    @staticmethod
    @abstractmethod
    def parse(before: str, after: str) -> list[Sample]:
        """The host's counts between two looks."""
