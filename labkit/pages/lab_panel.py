"""Panels for notebooks: a thin view over the lab, a study and its results.

Where nobody can press a button (papermill, plain Python) a panel prints short lines instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import ipywidgets as widgets  # type: ignore[import-untyped]
from IPython.display import DisplayHandle, display

from labkit import charts
from labkit.errors import LabkitError
from labkit.host import Host
from labkit.lab import Lab, describe
from labkit.machine import records
from labkit.machine.places import out
from labkit.machine.stopping import together
from labkit.pages.filled import safe
from labkit.pages.tables import Table, conditions, table
from labkit.results import Results
from labkit.running.open_lab import note
from labkit.study import Study

Show = Callable[[object], None]
BATCH = "LABKIT_BATCH"
LOOK_SECONDS = 10.0
KINDS = (".png", ".svg", ".csv")
COLUMNS = ("role", "address", "state", "kernel", "cpus")
LADDERS = {
    "all five": charts.PERCENTILES,
    "up to 99 %": (50.0, 90.0, 99.0),
    "the worst: 99 % and up": (99.0, 99.9, 99.99),
    "median only": (50.0,),
}


def alone() -> bool:
    """Whether nobody is there to press a button: papermill, or no notebook at all."""
    if os.environ.get(BATCH):
        return True
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is None or not hasattr(shell, "kernel")


def show(thing: object) -> None:
    """Display something below the cell that runs."""
    display(thing)  # type: ignore[no-untyped-call]


def new_display() -> Show:
    """Make a place for pictures below the cell that runs; each takes that of the one before."""
    handle = display(display_id=True)  # type: ignore[no-untyped-call]
    return handle.update if handle else lambda _: None


class StayingOutput:
    """Shown once where its cell runs, and replaced in its place after that.

    A widget is a blank where no kernel is: a saved notebook, nbconvert, a page that shows it.
    """

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self._handle: DisplayHandle | None = None

    def show(self, data: Mapping[str, Any]) -> None:
        """Show this, by MIME type, in place of what was there."""
        if self._handle is not None and data == self.data:
            return
        self.data = dict(data)
        options: dict[str, Any] = {"raw": True, "metadata": charts.EMBEDDED}
        if self._handle is None:
            self._handle = display(self.data, display_id=True, **options)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(self.data, **options)  # type: ignore[no-untyped-call]


def look(host: Host, role: str) -> dict[str, str]:
    """Facts that one host states of itself now; if it is silent, the reason."""
    row = {"role": role, "address": host.address}
    try:
        text = host.check("sh", "-c", "uname -sr; nproc", seconds=LOOK_SECONDS)
        kernel, cpus = text.splitlines()
    except (LabkitError, ValueError) as silent:
        return {**row, "state": f"no answer: {str(silent).splitlines()[0]}"}
    return {**row, "state": "answers", "kernel": kernel, "cpus": cpus}


class LabPanel:
    """The lab's hosts, and which answer; `facts` are shown if there is no lab."""

    def __init__(self, lab: Lab | None, facts: Mapping[str, Any] | None = None) -> None:
        self.lab, self.facts = lab, facts or {}

    @property
    def badge(self) -> str:
        """A description of the lab in one line."""
        if self.lab is None:
            keys = ("tier", "accelerator", "containers")
            machine = _origin(*(self.facts.get(key, "") for key in keys))
            return f"{self.facts.get('name', 'lab')}, as it was recorded: {machine}"
        machine = _origin(self.lab.tier, self.lab.accelerator, self.lab.containers)
        return f"{self.lab.name}: {machine}"

    def hosts(self) -> Table:
        """The hosts as a table: asked now, all at the same time, or as they were recorded."""
        if lab := self.lab:
            rows = together(lambda role: look(lab.host(role), role), lab.hosts, len(lab.hosts))
        else:
            rows = [{"state": "recorded", **{k: str(v) for k, v in host.items()}, "role": role}
                    for role, host in self.facts.get("hosts", {}).items()]  # fmt: skip
        columns = [name for name in COLUMNS if any(row.get(name) for row in rows)]
        return table(rows, columns)

    def _ipython_display_(self) -> None:
        if alone():
            print(self.badge)
            show(self.hosts())
        else:
            show(self.view())

    def view(self) -> widgets.Widget:
        """The panel as a widget."""
        # What is too wide for a narrow window is scrolled to.
        page = widgets.HTML(layout=widgets.Layout(overflow="auto"))
        button = widgets.Button(description="Refresh", icon="refresh")
        button.layout.display = "none" if self.lab is None else ""
        button.on_click(lambda _: self._show(page, button))
        self._show(page, button)
        badge = widgets.HTML(paragraph(f"<b>{safe(self.badge)}</b>"))
        return widgets.VBox([badge, page, button])

    def _show(self, page: widgets.HTML, button: widgets.Button) -> None:
        button.disabled = True
        try:
            page.value = paragraph(self.hosts().html())
        finally:
            button.disabled = False


class LadderPanel:
    """The ladder of percentiles, with a choice of percentiles, scale and conditions.

    The picture is an output of its own below the choices, so that a saved notebook has it.
    """

    def __init__(self, results: Results, study: Study) -> None:
        self.picture = StayingOutput()
        self.here = {row["condition"]: row["here"] for row in conditions(study, results)}
        self.study, self.note, self.named = study, note(results), results.path.name
        self.measured, self.runs = study.blocks(results), results.by_block()

    def chart(
        self,
        percentiles: Sequence[float] = charts.PERCENTILES,
        scale: str = "log",
        conditions: Sequence[str] | None = None,
    ) -> alt.LayerChart:
        """The picture of the chosen conditions; colours stay when some are left out."""
        names = self.measured if conditions is None else conditions
        return charts.ladder(
            {name: self.measured[name] for name in self.measured if name in names},
            self.study.published(),
            percentiles=percentiles, scale=scale, metric=self.study.metric, unit=self.study.unit,
            note=self.note, among=list(self.measured), runs=self.runs,
        )  # fmt: skip

    def save(self, chart: alt.LayerChart | None = None) -> list[Path]:
        """Write the picture as PNG and SVG, and its numbers as CSV; return the files."""
        folder = out() / "pictures"
        with records.keeping(f"pictures in {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        picture, stem = chart or self.chart(), f"{self.study.name}-ladder-{self.named}"
        return [charts.save(picture, folder / f"{stem}{kind}") for kind in KINDS]

    def _ipython_display_(self) -> None:
        if alone():
            show(self.chart())
        else:
            show(self.view())
            self.draw()

    def view(self) -> widgets.Widget:
        """The choices as a widget; each redraws the picture."""
        rungs = widgets.Dropdown(options=list(LADDERS), description="percentiles")
        scale = widgets.Dropdown(options=list(charts.SCALES), description="scale")
        layout = widgets.Layout(width="auto", margin="0 16px 0 0")
        ticks = {
            name: widgets.Checkbox(
                value=True, description=name, tooltip=self.here.get(name, ""), indent=False,
                layout=layout,
            )
            for name in self.measured
        }  # fmt: skip

        def chart() -> alt.LayerChart:
            names = [name for name, tick in ticks.items() if tick.value]
            return self.chart(LADDERS[rungs.value], scale.value, names)

        for control in (rungs, scale, *ticks.values()):
            control.observe(lambda _: self.draw(chart), names="value")
        saving = _saving(lambda: self.save(chart()))
        return widgets.VBox([wrapped([rungs, scale]), wrapped(ticks.values()), saving])

    def draw(self, chart: Callable[[], alt.LayerChart] | None = None) -> None:
        """Show the picture below the choices, or why there is none."""
        try:
            self.picture.show(charts.bundle((chart or self.chart)().to_dict()))
        except LabkitError as error:
            self.picture.show({"text/plain": str(error)})


def _saving(save: Callable[[], list[Path]]) -> widgets.HBox:
    button = widgets.Button(description="Save PNG, SVG, CSV", icon="download")
    button.layout.width, message = "auto", widgets.HTML()

    def press(_: object) -> None:
        try:
            text = f"saved: {', '.join(map(str, save()))}"
        except LabkitError as error:
            text = str(error)
        message.value = paragraph(safe(text))

    button.on_click(press)
    return wrapped([button, message])


def wrapped(parts: Iterable[widgets.Widget]) -> widgets.HBox:
    """Beside each other as far as they fit, as seven conditions do not, and the rest below."""
    return widgets.HBox([*parts], layout=widgets.Layout(flex_flow="row wrap"))


def paragraph(safe_html: str) -> str:
    """HTML for a widget, with lines as close to each other as elsewhere."""
    return f'<div style="line-height:1.4">{safe_html}</div>'


def status(text: str) -> str:
    """Words of a panel that change; screen readers read the new ones aloud."""
    return paragraph(f'<div role="status" aria-live="polite">{text}</div>')


def _origin(tier: str, accelerator: str, containers: str) -> str:
    engine = f"containers on its own kernel by {containers}" if containers else ""
    guests = f"guests by {accelerator.upper()}" if accelerator else ""
    return ", ".join(filter(None, (describe(tier), engine, guests)))
