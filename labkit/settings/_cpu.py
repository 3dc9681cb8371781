"""CPUs that several kinds of thing may be given: which, how much of them, and for what share."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.settings._ways import OnHost, cpu_list, number, whole


@dataclass(frozen=True)
class OnCpus(OnHost):
    """Something that runs on a list of CPUs."""

    cpus: str

    def __post_init__(self) -> None:
        super().__post_init__()
        cpu_list(self.cpus)

    @property
    def wanted(self) -> str:
        """The list of CPUs."""
        return cpu_list(self.cpus)


@dataclass(frozen=True)
class CpuTime(OnHost):
    """The most CPU time that something gets, in CPUs."""

    cpus: float

    def __post_init__(self) -> None:
        super().__post_init__()
        number("the limit", self.cpus, 0.01, 4096, "CPUs")

    @property
    def wanted(self) -> str:
        """In CPUs."""
        return f"{self.cpus:g}"


@dataclass(frozen=True)
class CpuShares(OnHost):
    """Something's part of a CPU that others want too."""

    shares: int

    def __post_init__(self) -> None:
        super().__post_init__()
        # The kernel takes any number and makes it fit without a word.
        whole("CPU shares", self.shares, 2, 262_144)

    @property
    def wanted(self) -> str:
        """The number."""
        return str(self.shares)
