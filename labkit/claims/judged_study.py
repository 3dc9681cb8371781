"""The facts about a study that are needed to judge its claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from labkit.claim import Claim
from labkit.noise_floor import Read
from labkit.results import Results
from labkit.workload import Workload

Measured = Mapping[str, Mapping[int, npt.NDArray[np.float64]]]
"""Values by name and block."""


class JudgedCondition(Protocol):
    """A condition that claims speak of."""

    @property
    def name(self) -> str:
        """By which claims call it."""

    @property
    def expects(self) -> tuple[str, ...]:
        """Gates that it trips by design."""

    def players(self, role: str) -> tuple[str, ...]:
        """The lab's roles that play this role of the workload."""


class JudgedStudy(Read, Protocol):
    """A study, which reads its own results."""

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims to judge."""

    @property
    def conditions(self) -> Sequence[JudgedCondition]:
        """The conditions that were measured."""

    @property
    def workload(self) -> Workload:
        """The workload that was run."""

    @property
    def loads(self) -> tuple[Workload, ...]:
        """All that runs in each run."""

    @property
    def metric(self) -> str:
        """The metric of claims that name none."""

    @property
    def unit(self) -> str:
        """The unit of its metric."""

    @property
    def untold(self) -> Mapping[str, str]:
        """Things that no emulated lab can measure, claims that one would decide, and why."""

    @property
    def unmeasured(self) -> Mapping[str, str]:
        """Things that no lab measures, and why not."""

    @property
    def lines(self) -> Mapping[str, float]:
        """By condition the rate of the document's line."""

    @property
    def least_cpus(self) -> Mapping[str, int]:
        """By claim, the CPUs without which servers cannot decide it."""

    @property
    def apart(self) -> Mapping[str, str]:
        """Claims that a client on the server's CPUs would decide by that, and how."""

    def blocks(self, results: Results) -> Measured:
        """All values of its metric, by condition."""

    def kinds(self, results: Results) -> Mapping[str, str]:
        """The names of `measured` whose values are counts, or shares of trials."""

    def measured(self, results: Results) -> Measured:
        """The values of `blocks`, and of all other metrics and points."""
