"""Dials for one uplink: move shares, a reservation and a limit, and see who gets what of the line.

The loop, its journal and its buttons are those of the other dials.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import altair as alt
import numpy as np

from labkit.charts.bars import KINDS, shared_line
from labkit.pages.dial_panel import Dialling, DialPanel, Dials, Values, complete
from labkit.setting import Setting
from labkit.settings.egress import NetIoControl, Traffic
from labkit.studies.netioc_v6 import FLOW, LIMIT, LINE, RESERVED, SENDING
from labkit.workload import Sample, Workload
from labkit.workloads.uplink import BULK, MIGRATION, STORAGE, Uplink

SHARES: Dials = {
    "shares of storage": ("100", "1", "25", "50"),
    "shares of bulk": ("25", "1", "50", "100"),
    "shares of a migration": ("75", "1", "25", "100"),
    "storage has reserved": ("nothing", f"{RESERVED} Mbit/s"),
    "a migration may have": ("what it gets", f"{LIMIT} Mbit/s"),
}
"""The first positions are those of the study."""


@dataclass
class Sharing(Dialling):
    """All kinds of traffic at once, again and again, under the shares that are wanted now."""

    dials: ClassVar[Dials] = SHARES
    needs: ClassVar[tuple[str, ...]] = ("client", "server")

    workload: Workload = field(default_factory=lambda: Uplink(duration=1, writes=8, storage_mbit=0))
    roles: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def settings(position: Mapping[str, str], apart: bool = True) -> list[Setting]:
        """The queues that positions of SHARES mean."""
        storage, bulk, migration, reservation, limit = complete(SHARES, position).values()
        kinds = (
            Traffic(STORAGE, int(storage), RESERVED * (reservation != "nothing")),
            Traffic(BULK, int(bulk)),
            Traffic(MIGRATION, int(migration), limit_mbit=LIMIT * (limit != "what it gets")),
        )
        return [*SENDING, NetIoControl(LINE, (FLOW, *kinds))]

    @staticmethod
    def figures(samples: list[Sample]) -> Values:
        """Mbit/s of each kind."""
        rates = {sample.metric: float(sample.values.mean()) for sample in samples}
        return np.array([rates["throughput"], *(rates[f"{kind} throughput"] for kind in KINDS[1:])])

    def rates(self) -> dict[str, Values]:
        """The mean of each kind, now and before the last turn."""
        return {name: v.reshape(-1, len(KINDS)).mean(axis=0) for name, v in self.values().items()}

    def picture(self, note: str = "") -> alt.TopLevelMixin:
        """A bar of now, and one of before the last turn."""
        return shared_line({n: [*map(float, v)] for n, v in self.rates().items()}, LINE, note)

    def words(self) -> list[str]:
        """Mbit/s in words."""
        return [
            f"{name}: {', '.join(f'{k} {r:.0f}' for k, r in zip(KINDS, v, strict=True))} Mbit/s"
            for name, v in self.rates().items()
        ]


class SharesPanel(DialPanel):
    """The dials of one uplink as widgets."""

    kind: ClassVar[type[Dialling]] = Sharing
