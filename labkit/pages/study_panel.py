"""The panel that runs a study: progress for each condition, Start, Stop."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import ipywidgets as widgets  # type: ignore[import-untyped]
import numpy as np

from labkit.errors import Stopped, readable
from labkit.lab import Lab
from labkit.machine.units import figure, shown
from labkit.pages.lab_panel import alone, paragraph, show, wrapped
from labkit.pages.tables import safe
from labkit.results import Results
from labkit.running import loop
from labkit.runs.overhead import overhead
from labkit.runs.progress import Progress
from labkit.statistics.interval import lacking
from labkit.statistics.percentiles import interval
from labkit.study import Study

TICK_SECONDS = 0.2
Show = Callable[["Standing"], None]


@dataclass(frozen=True)
class Standing:
    """How far a study has come: finished runs of each condition, and what happens now."""

    lanes: dict[str, int]
    repeats: int
    words: str = ""
    state: str = "ready"
    """`ready`, `running`, `stopping`, `stopped`, `failed` or `finished`."""
    figures: dict[str, str] = field(default_factory=dict)
    """The median so far of each condition, with its interval once there are two runs."""

    @property
    def done(self) -> int:
        """The runs that are kept."""
        return sum(self.lanes.values())

    @property
    def of(self) -> int:
        """The runs that the study asks for."""
        return self.repeats * len(self.lanes)


def standing(study: Study, results: Results, repeats: int, words: str, state: str) -> Standing:
    """What remains of a study, read from its results."""
    runs = [run for run in results.finished() if run.block <= repeats]
    kept = {(run.condition, run.block) for run in runs}
    refused = results.asked.get("refused", {})
    # A condition may be younger than results that are shown.
    asked = results.asked.get("conditions") or [c.name for c in study.conditions]
    names = [c.name for c in study.conditions if c.name in asked and c.name not in refused]
    lanes = {name: sum(1 for condition, _ in kept if condition == name) for name in names}
    medians: dict[str, dict[int, float]] = {name: {} for name in names}
    for run in runs:
        for row in run.rows:
            if row["metric"] == study.metric and run.condition in medians:
                medians[run.condition][run.block] = float(row["p50"])
    figures = {name: _figure(found, study.unit) for name, found in medians.items() if found}
    return Standing(lanes, repeats, words, state, figures)


# From the medians of the runs, as reading every value again at each look would take too long.
def _figure(medians: Mapping[int, float], unit: str) -> str:
    found = interval({block: np.array([value]) for block, value in medians.items()}, 50)
    if len(medians) < 2:
        return f"{figure(found.value)} {shown(unit)}"
    said = f"{figure(found.value)} {shown(unit)}, {found.ends(figure)}"
    if lack := lacking(found.least, found.most, len(medians)):
        return f"{said} ({lack})"
    width = (found.high - found.low) / found.value if found.value else 0.0
    return f"{said} ({width:.0%} wide)"


@dataclass
class StudyPanel:
    """Runs a study where it can be watched and stopped; `run` waits for its end."""

    study: Study
    lab: Lab | None
    results: Results
    repeats: int | str = 5
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _told: queue.SimpleQueue[Progress] = field(
        default_factory=queue.SimpleQueue, repr=False
    )  # fmt: skip
    # Not the thread's own is_alive: an interrupted look at it calls a living thread dead (3.11).
    _ended: threading.Event | None = field(default=None, repr=False)
    _failure: BaseException | None = field(default=None, repr=False)
    _view: _View | None = field(default=None, repr=False)

    async def run(self) -> Results:
        """Measure what is missing and return the results; Stop and an interrupt end it cleanly.

        To be awaited: while a cell waits, ipykernel 7.4 lets presses of buttons through. In a cell
        that blocks they would queue up behind it (comm messages go to the shell that spoke last).
        """
        self.show()
        if self.lab is None:
            return self.results
        if not self.running:
            self._begin()
        await self._follow()
        if self._failure is not None:
            # Where in its thread the study was is of no use to a reader.
            raise self._failure.with_traceback(None)
        return self.results

    def start(self) -> None:
        """Measure what is missing while the notebook stays free."""
        if self.lab is not None and not self.running:
            self._begin()
            threading.Thread(target=asyncio.run, args=[self._follow()], daemon=True).start()

    def stop(self) -> None:
        """End after the run that is being made; its settings are put back."""
        self._stop.set()

    @property
    def running(self) -> bool:
        """Whether the study is being measured now."""
        return self._ended is not None and not self._ended.is_set()

    def show(self) -> None:
        """Show the panel here."""
        now = self._now("", "ready")
        if alone():
            print(f"{self.study.name}: {now.done} of {now.of} runs are there{self._source()}")
            if self.lab is None:
                self._print_remarks()
            return
        self._view = _View(self.start, self.stop, live=self.lab is not None)
        self._view.draw(now)
        show(self._view.whole)

    def _ipython_display_(self) -> None:
        self.show()

    def _source(self) -> str:
        return " (recorded)" if self.lab is None else ""

    def _now(self, words: str, state: str) -> Standing:
        there = max((run.block for run in self.results.finished()), default=0)
        # Nothing will be added to what is recorded; until it is decided, nobody knows how much.
        growing = isinstance(self.repeats, str)
        repeats = max(there, 1) if growing else int(self.repeats)
        if self.lab is None:
            repeats = there or repeats
        now = standing(self.study, self.results, repeats, words, state)
        if state == "running" and now.done == now.of:
            return replace(now, words="putting settings back")
        return now

    # The study works in a thread, so that an interrupt never hits it while it puts settings back.
    def _begin(self) -> None:
        self._stop.clear()
        self._told, self._failure = queue.SimpleQueue(), None
        self._ended = threading.Event()
        threading.Thread(target=self._measure, args=[self._ended], daemon=True).start()

    def _measure(self, ended: threading.Event) -> None:
        assert self.lab is not None
        try:
            loop.run(self.study,
                self.lab, self.results,
                repeats=self.repeats, tell=self._told.put, stop=self._stop,
            )  # fmt: skip
        except BaseException as failed:
            self._failure = failed
        ended.set()

    async def _follow(self) -> None:
        begun, last, since = time.monotonic(), None, time.monotonic()
        while self.running:
            try:
                await asyncio.sleep(TICK_SECONDS)
            except (KeyboardInterrupt, asyncio.CancelledError):
                self.stop()
            while not self._told.empty():
                last, since = self._told.get(), time.monotonic()
            state = "stopping" if self._stop.is_set() else "running"
            self._tell(self._words(last, since), state)
        self._tell(*self._end(time.monotonic() - begun))

    def _print_remarks(self) -> None:
        for remark in self.study.remarks(self.results):
            print(readable(remark))

    def _words(self, last: Progress | None, since: float) -> str:
        if self._stop.is_set():
            return "stopping: the run being made ends first, then its settings are put back"
        if last is None:
            return "starting"
        left = max(0.0, last.seconds_left - (time.monotonic() - since))
        again = f" ({last.remark})" if last.remark else ""
        return f"{last.step} {last.condition}, block {last.block}; about {_span(left)} left{again}"

    def _end(self, seconds: float) -> tuple[str, str]:
        if isinstance(self._failure, Stopped):
            return "Stopped; everything was put back, finished runs are kept", "stopped"
        if self._failure is not None:
            return f"Failed: {self._failure}", "failed"
        said = "; ".join(
            [
                f"Finished in {_span(seconds)}",
                str(overhead(self.results)),
                *(self.study.remarks(self.results) if self._view else ()),
            ]
        )
        return said, "finished"

    def _tell(self, words: str, state: str) -> None:
        if self._view is not None:
            self._view.draw(self._now(words, state))
        elif state not in ("running", "stopping"):
            now = self._now(words, state)
            print(f"{words}: {now.done} of {now.of} runs")
            self._print_remarks()


class _View:
    """The widgets of the panel; knows nothing of studies."""

    def __init__(self, start: Callable[[], None], stop: Callable[[], None], live: bool) -> None:
        self.lanes: dict[str, widgets.IntProgress] = {}
        self.figures: dict[str, widgets.Label] = {}
        self.all = widgets.IntProgress(layout=widgets.Layout(width="420px"))
        self.words = widgets.HTML()
        self.start = widgets.Button(description="Start", icon="play", button_style="primary")
        self.stop = widgets.Button(description="Stop", icon="stop", button_style="danger")
        self.start.on_click(lambda _: start())
        self.stop.on_click(lambda _: stop())
        self.live, self.rows = live, widgets.VBox()
        buttons = [self.start, self.stop] if live else []
        self.whole = widgets.VBox([self.rows, wrapped([self.all, *buttons]), self.words])

    def draw(self, now: Standing) -> None:
        """Show how far the study has come."""
        self._make_lanes(now)
        for name, done in now.lanes.items():
            self.lanes[name].value = done
            self.figures[name].value = now.figures.get(name, "")
        self.all.max, self.all.value = max(1, now.of), now.done
        self.all.bar_style = {"failed": "danger", "stopped": "warning", "finished": "success"}.get(
            now.state, "info"
        )
        whole = now.done >= now.of
        active = now.state in ("running", "stopping")
        self.start.disabled = active or whole
        self.stop.disabled = now.state != "running"
        lacking = "Not all runs are there yet." if self.live else "The others were not valid."
        words = now.words or ("All runs are there." if whole else lacking)
        said = f"<b>{now.done} of {now.of} runs.</b> <span>{safe(words)}</span>"
        self.words.value = paragraph(said)

    def _make_lanes(self, now: Standing) -> None:
        if self.lanes.keys() == now.lanes.keys():
            return
        self.lanes = {name: widgets.IntProgress(max=now.repeats) for name in now.lanes}
        self.figures = {name: widgets.Label() for name in now.lanes}
        longest = max(map(len, now.lanes), default=0) + 2
        wide = widgets.Layout(width=f"{longest}ch", flex="0 0 auto")
        self.rows.children = [
            wrapped([widgets.Label(name, layout=wide), lane, self.figures[name]])
            for name, lane in self.lanes.items()
        ]


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
