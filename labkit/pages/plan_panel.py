"""Dials of the migration model: plan a move that no lab here is large enough for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]
import numpy as np

from labkit.events.migration import LiveMigration
from labkit.models.migration import VARIANTS, Migrating, Observed
from labkit.pages.tables import table
from labkit.results import Results
from labkit.study import Study
from labkit.workloads.dirty_memory import PAGE, DirtyMemory

GB, GBIT, MIB, MBIT = 1e9, 1e9 / 8, 2.0**20, 1e6 / 8
DOCUMENT = Migrating(
    memory=500 * GB, line=80 * GBIT, dirty=1 * GB, working_set=300 * GB, capacity=64 * GBIT
)
"""The guest of 500 GB whose program touches 300 GB, over 80 Gb/s; 64 Gb/s were filled.

How fast it wrote is not printed.
"""
DIALS = {
    "memory": ("memory, GB", GB, -1, 4), "working_set": ("written to, GB", GB, -2, 4),
    "dirty": ("writes, GB/s", GB, -3, 2), "line": ("line, Gb/s", GBIT, -1, 3),
    "downtime": ("may stand, s", 1.0, -3, 1),
}  # fmt: skip
"""The words of each dial, its unit, and the powers of ten from and to which it goes."""


def observed(study: Study, results: Results) -> list[Observed]:
    """The data that the model is fitted to: each migration of a study that came to its end."""
    moves = []
    for run in results.finished():
        at = {sample.metric: float(np.median(sample.values)) for sample in study.samples(run)}
        metrics = ("first round", "migration time", "switchover time", "rounds")
        event = next((e for e in study.events(run.condition) if isinstance(e, LiveMigration)), None)
        load = study.workload
        if event and event.rate_mbit and isinstance(load, DirtyMemory) and set(metrics) <= set(at):
            migrating = Migrating(
                memory=at["first round"] * MIB, line=event.rate_mbit * MBIT,
                dirty=at["writes"] * PAGE, working_set=load.mebibytes * MIB,
            )  # fmt: skip
            took, standstill = at["migration time"], at["switchover time"]
            moves.append(Observed(migrating, took, standstill, int(at["rounds"]), run.path.name))
    return moves


def planned(migrating: Migrating) -> list[dict[str, Any]]:
    """The same move by each variant, in a table."""
    plans = {name: replace(migrating, variant=name).planned() for name in VARIANTS}
    return [
        {"variant": name, "": "arrives" if plan.converged else "does not converge",
         "rounds": len(plan.rounds), "total (s)": f"{plan.total:,.1f}",
         "stands still (s)": f"{plan.stopped:,.3f}",
         "fetches afterwards (s)": f"{plan.after:,.1f}", "slowed down by": f"{plan.slowed:.0%}"}
        for name, plan in plans.items()
    ]  # fmt: skip


class PlanPanel:
    """Turn a dial, and see what the model says of that move."""

    def __init__(self, start: Migrating = DOCUMENT) -> None:
        self.start = start
        self.dials: Mapping[str, Any] = {
            name: widgets.FloatLogSlider(
                value=max(getattr(start, name) / unit, 10**low), min=low, max=high,
                description=title,
            )
            for name, (title, unit, low, high) in DIALS.items()
        }  # fmt: skip
        self.shown = widgets.HTML()
        for dial in self.dials.values():
            dial.style.description_width = "8em"
            dial.observe(lambda _: self._show(), names="value")
        self._show()
        self.box = widgets.VBox([*self.dials.values(), self.shown])

    @property
    def asked(self) -> Migrating:
        """The move that the dials stand for."""
        at = {name: dial.value * DIALS[name][1] for name, dial in self.dials.items()}
        at["working_set"] = min(at["working_set"], at["memory"])
        return replace(self.start, **at)

    def _show(self) -> None:
        self.shown.value = table(planned(self.asked)).html()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.box._repr_mimebundle_(**options)
