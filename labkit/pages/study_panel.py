"""The panel that runs a study: progress for each condition, Start, Stop."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import ipywidgets as widgets  # type: ignore[import-untyped]
from IPython.display import Markdown

from labkit.errors import Stopped, readable
from labkit.judging import judged
from labkit.judging.finding import sentence
from labkit.lab import Lab
from labkit.machine.units import spoken
from labkit.pages.filled import safe
from labkit.pages.growing import Median, lines, median
from labkit.pages.lab_panel import StayingOutput, alone, show, status, wrapped
from labkit.pages.tables import conditions, table
from labkit.results import Results
from labkit.running import loop
from labkit.running.remarks import remarks
from labkit.runs.overhead import overhead
from labkit.runs.progress import Progress
from labkit.statistics.pooled import Values
from labkit.study import Reading, Study

TICK_SECONDS = 0.2
NONE_YET = Median("none yet")
WAITING = "the cells below were not run; the panel above says how to go on"


@dataclass(frozen=True)
class Standing:
    """Progress of a study: finished runs of each condition, and what happens now."""

    lanes: dict[str, int]
    repeats: int
    words: str = ""
    state: str = "ready"
    """`ready`, `running`, `stopping`, `stopped`, `failed` or `finished`."""
    figures: dict[str, Median] = field(default_factory=dict)
    """The median so far of each condition, with its interval once there are two runs.

    It is that of all values together, as in charts, tables and reports.
    """

    @property
    def done(self) -> int:
        """The runs that are kept."""
        return sum(self.lanes.values())

    @property
    def of(self) -> int:
        """The runs that the study asks for."""
        return self.repeats * len(self.lanes)


def standing(
    study: Study, results: Results, repeats: int, words: str, state: str,
    values: dict[Path, Values] | None = None,
) -> Standing:  # fmt: skip
    """Read a study's standing from its results; `values` keeps those of runs read before."""
    runs = [run for run in results.finished() if run.block <= repeats]
    refusals = results.asked.get("refused", {})
    # A condition may be younger than results that are shown.
    names_asked = results.asked.get("conditions") or [c.name for c in study.conditions]
    names = [c.name for c in study.conditions if c.name in names_asked and c.name not in refusals]
    runs_of = {name: [run for run in runs if run.condition == name] for name in names}
    lanes = {name: len({run.block for run in runs_of[name]}) for name in names}
    known = {} if values is None else values
    for run in (run for name in names for run in runs_of[name] if run.path not in known):
        known[run.path] = study.sample(run).values
    figures = {
        name: median({r.block: known[r.path] for r in of if known[r.path].size}, study.unit)
        for name, of in runs_of.items() if of
    }  # fmt: skip
    return Standing(lanes, repeats, words, state, figures)


@dataclass
class StudyPanel:
    """Runs a study where it can be watched and stopped; `run` waits for its end."""

    study: Study
    lab: Lab | None
    results: Results
    repeats: int | str = 5
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _told: queue.SimpleQueue[Progress] = field(default_factory=queue.SimpleQueue, repr=False)
    # Not the thread's own is_alive: an interrupted look at it calls a living thread dead (3.11).
    _ended: threading.Event | None = field(default=None, repr=False)
    _failure: BaseException | None = field(default=None, repr=False)
    _view: _View | None = field(default=None, repr=False)
    _kept: StayingOutput | None = field(default=None, repr=False)
    _lanes: tuple[dict[str, int], int] | None = field(default=None, repr=False)
    _values: dict[Path, Values] = field(default_factory=dict, repr=False)
    _standing: Standing | None = field(default=None, repr=False)

    async def run(self) -> Results:
        """Measure what is missing and return the results; Stop and an interrupt end it cleanly.

        To be awaited: while a cell waits, ipykernel 7.4 lets presses of buttons through. In a cell
        that blocks they would queue up behind it (comm messages go to the shell that spoke last).
        """
        self.show()
        if self.lab is None:
            self._show_answer()
            return self.results
        if not self.running:
            self._begin()
        await self._follow()
        self._show_answer()
        if isinstance(self._failure, Stopped) and self._view:
            # It stays below the panel when Start has gone on, and must be true then too.
            raise Stopped(WAITING)
        if self._failure is not None:
            # Where in its thread the study was is of no use to a reader.
            raise self._failure.with_traceback(None)
        return self.results

    # First of all that the notebook shows of its results.
    def _show_answer(self) -> None:
        if self._failure is None and self.results.finished():
            reading = Reading.of(self.study, self.results)
            if answer := sentence(reading, judged(reading)):
                show(Markdown(f"**{answer}**"))  # type: ignore[no-untyped-call]

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
        present = self._present("", "ready")
        if alone():
            print(self._count(present))
            if self.lab is None:
                self._print_remarks()
            return
        self._kept, self._lanes = StayingOutput(), None
        if self.lab is not None:
            self._view = _View(self.start, self.stop)
            self._view.draw(present)
            show(self._view.whole)
        self._keep(present)

    def _ipython_display_(self) -> None:
        self.show()

    def _count(self, at: Standing) -> str:
        text = f"{self.study.name}: {at.done} of {at.of} runs are there"
        if self.lab is not None:
            return text
        days = sorted(run.started[:10] for run in self.results.finished() if run.started)
        dates = " to ".join(dict.fromkeys((*days[:1], *days[-1:])))
        # The cells above show what the parameters ask for, which recorded runs need not have had.
        load = dict(self.results.asked.get("workload", {}))
        name, knobs = load.pop("name", ""), ", ".join(f"{k}={v}" for k, v in load.items())
        return f"{text} (recorded {dates}".rstrip() + (f", {name}({knobs}))" if name else ")")

    # A table, as widgets are blank in a saved notebook; made anew when a run has come.
    def _keep(self, at: Standing) -> None:
        if self._kept is None or self._lanes == (at.lanes, at.repeats):
            return
        self._lanes = at.lanes, at.repeats
        meanings = {row["condition"]: row["here"] for row in conditions(self.study, self.results)}
        single = at.figures and all(found.single for found in at.figures.values())
        of = "" if single else "median "
        rows = [
            {"condition": name, "here": meanings.get(name, ""), "runs": f"{count} of {at.repeats}",
             of + self.study.metric: at.figures.get(name, NONE_YET).text}
            for name, count in at.lanes.items()
        ]  # fmt: skip
        page = replace(table(rows), caption=f"{self._count(at)}.")
        self._kept.show(page._repr_mimebundle_())

    # Medians are reckoned again when a run has come.
    def _present(self, words: str, state: str) -> Standing:
        runs = self.results.finished()
        if self._standing and self._standing.done == len(runs):
            return replace(self._standing, words=words, state=state)
        latest = max((run.block for run in runs), default=0)
        # Nothing will be added to what is recorded; until it is decided, nobody knows how much.
        repeats = max(latest, 1) if isinstance(self.repeats, str) else self.repeats
        if self.lab is None:
            repeats = latest or repeats
        self._standing = standing(self.study, self.results, repeats, words, state, self._values)
        return self._standing

    # The study works in a thread, so that an interrupt never hits it while it puts settings back.
    def _begin(self) -> None:
        self._stop.clear()
        self._told, self._failure = queue.SimpleQueue(), None
        self._ended = threading.Event()
        threading.Thread(target=self._measure, args=[self._ended], daemon=True).start()

    def _measure(self, has_ended: threading.Event) -> None:
        assert self.lab is not None
        try:
            loop.run(self.study, self.lab, self.results, repeats=self.repeats,
                     tell=self._told.put, stop=self._stop)  # fmt: skip
        except BaseException as error:
            self._failure = error
        has_ended.set()

    async def _follow(self) -> None:
        start, last, since = time.monotonic(), None, time.monotonic()
        while self.running:
            try:
                await asyncio.sleep(TICK_SECONDS)
            except (KeyboardInterrupt, asyncio.CancelledError):
                self.stop()
            while not self._told.empty():
                last, since = self._told.get(), time.monotonic()
            state = "stopping" if self._stop.is_set() else "running"
            self._tell(self._words(last, since), state)
        self._tell(*self._end(time.monotonic() - start))

    def _print_remarks(self) -> None:
        for remark in remarks(self.study, self.results):
            print(readable(remark))

    def _words(self, last: Progress | None, since: float) -> str:
        if self._stop.is_set():
            return "stopping: the run being made ends first, then its settings are put back"
        if last is None:
            return "starting"
        wait = max(0.0, last.seconds_left - (time.monotonic() - since))
        note = f" ({last.remark})" if last.remark else ""
        return f"{last.step} {last.condition}, block {last.block}; about {spoken(wait)} left{note}"

    def _end(self, seconds: float) -> tuple[str, str]:
        if isinstance(self._failure, Stopped):
            on = "Press Start study to go on, then run the cells below" if self._view else ""
            text = "Stopped; everything was put back, finished runs are kept"
            return ". ".join(filter(None, (text, on))), "stopped"
        if self._failure is not None:
            return f"Failed: {self._failure}", "failed"
        parts = [f"Finished in {spoken(seconds)}", str(overhead(self.results))]
        if self._view:
            parts.insert(1, "the cells below have all they need")
            parts += remarks(self.study, self.results)
        return "; ".join(parts), "finished"

    def _tell(self, words: str, state: str) -> None:
        if state in ("running", "stopping") and self._view is None:
            return
        present = self._present(words, state)
        if self._view is None:
            print(f"{words}: {present.done} of {present.of} runs")
            self._print_remarks()
            return
        if state == "running" and present.done == present.of:
            present = replace(present, words="putting settings back")
        self._view.draw(present)
        self._keep(present)


class _View:
    """The widgets of the panel; knows nothing of studies."""

    def __init__(self, start: Callable[[], None], stop: Callable[[], None]) -> None:
        self.lanes: dict[str, widgets.IntProgress] = {}
        self.figures: dict[str, widgets.HTML] = {}
        self.all = widgets.IntProgress(layout=widgets.Layout(width="420px"))
        self.words = widgets.HTML()
        self.start = widgets.Button(description="Start study", icon="play", button_style="primary")
        self.stop = widgets.Button(description="Stop study", icon="stop", button_style="danger")
        self.start.on_click(lambda _: start())
        self.stop.on_click(lambda _: stop())
        self.rows = widgets.VBox()
        buttons = [self.start, self.stop]
        self.whole = widgets.VBox([self.rows, wrapped([self.all, *buttons]), self.words])

    def draw(self, at: Standing) -> None:
        """Show how far the study has come."""
        self._make_lanes(at)
        pictures = lines(at.figures)
        for name, count in at.lanes.items():
            self.lanes[name].value = count
            self.figures[name].value = pictures.get(name, "")
        self.all.max, self.all.value = max(1, at.of), at.done
        self.all.bar_style = {"failed": "danger", "stopped": "warning", "finished": "success"}.get(
            at.state, "info"
        )
        complete = at.done >= at.of
        active = at.state in ("running", "stopping")
        self.start.disabled = active or complete
        self.stop.disabled = at.state != "running"
        words = at.words or ("All runs are there." if complete else "Not all runs are there yet.")
        text = f"<b>{at.done} of {at.of} runs.</b> <span>{safe(words)}</span>"
        self.words.value = status(text)

    def _make_lanes(self, at: Standing) -> None:
        if self.lanes.keys() == at.lanes.keys():
            return
        self.lanes = {name: widgets.IntProgress(max=at.repeats) for name in at.lanes}
        self.figures = {name: widgets.HTML() for name in at.lanes}
        longest = max(map(len, at.lanes), default=0) + 2
        wide = widgets.Layout(width=f"{longest}ch", flex="0 0 auto")
        self.rows.children = [
            wrapped([widgets.Label(name, layout=wide), lane, self.figures[name]])
            for name, lane in self.lanes.items()
        ]
