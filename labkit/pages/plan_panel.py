"""Dials of the migration model: plan a move that no lab here is large enough for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]
import numpy as np

from labkit.events.migration import LiveMigration
from labkit.models.migration import VARIANTS, Migrating, Observed, Planned
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
    return [_row(name, plan) for name, plan in plans.items()]


def _row(name: str, plan: Planned) -> dict[str, Any]:
    ends = "arrives" if plan.converged else "does not converge"
    return {
        "variant": name, "": ends, "rounds": len(plan.rounds), "total (s)": f"{plan.total:,.1f}",
        "stands still (s)": f"{plan.stopped:,.3f}", "fetches afterwards (s)": f"{plan.after:,.1f}",
        "slowed down by": f"{plan.slowed:.0%}",
    }  # fmt: skip


class PlanPanel:
    """Turn a dial, and see what the model says of that move."""

    def __init__(self, start: Migrating = DOCUMENT) -> None:
        self.start = start
        slide = widgets.FloatLogSlider
        self.dials: Mapping[str, Any] = {
            "memory": slide(value=start.memory / GB, min=-1, max=4, description="memory, GB"),
            "working_set": slide(value=start.working_set / GB, min=-2, max=4,
                                 description="written to, GB"),
            "dirty": slide(value=max(start.dirty / GB, 1e-3), min=-3, max=2,
                           description="writes, GB/s"),
            "line": slide(value=start.line / GBIT, min=-1, max=3, description="line, Gb/s"),
            "downtime": slide(value=start.downtime, min=-3, max=1, description="may stand, s"),
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
        units = {"memory": GB, "working_set": GB, "dirty": GB, "line": GBIT, "downtime": 1.0}
        at = {name: dial.value * units[name] for name, dial in self.dials.items()}
        return replace(
            self.start, memory=at["memory"], working_set=min(at["working_set"], at["memory"]),
            dirty=at["dirty"], line=at["line"], downtime=at["downtime"],
        )  # fmt: skip

    def _show(self) -> None:
        self.shown.value = table(planned(self.asked)).html()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.box._repr_mimebundle_(**options)
