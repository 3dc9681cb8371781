"""Dials: turn one, and see the distribution of the next short measurements change."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import altair as alt
import ipywidgets as widgets  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt

from labkit import charts
from labkit.changes.in_force import in_force
from labkit.changes.plan import plan
from labkit.charts.look import COLOURS, GREY, framed, inline, tip
from labkit.errors import BadInput, Unknown
from labkit.lab import Lab
from labkit.pages.filled import safe
from labkit.pages.lab_panel import StayingOutput, alone, show, status, wrapped
from labkit.pages.tables import Table
from labkit.setting import Setting
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.settings.neighbour import PLACES, Halting, Neighbour
from labkit.statistics.percentiles import percentile
from labkit.workload import Workload
from labkit.workloads.ping import Ping

Values = npt.NDArray[np.float64]
DIALS: Mapping[str, tuple[str, ...]] = {
    "NIC path": ("bridge", "direct"),
    "batching and merging": ("on", "off"),
    "CPU": ("shared", "owned"),
    "idle guest": ("halts", "stays awake"),
    "neighbour": ("none", "busy", "memory"),
}
"""The mechanisms, each with what it can be; the first is how a guest comes."""
NEEDS = ("client", "server", "guest")
RUNS_SHOWN = 10
BINS = 40
PRESENT, BEFORE = "now", "before the last turn"


@dataclass
class Dialling:
    """Measures again and again with the settings that are wanted now; knows nothing of widgets.

    `turn` changes what is wanted from the next measurement on. All settings go through the journal
    of the hosts, and are put back when `measure` ends, however it ends.
    """

    lab: Lab
    workload: Workload = field(default_factory=lambda: Ping(count=300))
    position: dict[str, str] = field(default_factory=lambda: {d: c[0] for d, c in DIALS.items()})
    now: deque[Values] = field(default_factory=lambda: deque(maxlen=RUNS_SHOWN))
    before: deque[Values] = field(default_factory=lambda: deque(maxlen=RUNS_SHOWN))
    measured: int = 0

    def __post_init__(self) -> None:
        self._turn = threading.Lock()

    @staticmethod
    def settings(position: Mapping[str, str], apart: bool = True) -> list[Setting]:
        """The settings that positions of dials mean on the host that runs the guest.

        A guest that owns its CPU has its neighbour on the others, if they can be `apart`. If not,
        it halts, as nothing else would run there any more.
        """
        for dial, choice in position.items():
            if dial not in DIALS:
                raise Unknown("dial", dial, DIALS)
            if choice not in DIALS[dial]:
                raise Unknown(f"position of {dial}", choice, DIALS[dial])
        choices = {dial: choices[0] for dial, choices in DIALS.items()} | dict(position)
        prompt = choices["batching and merging"] == "off"
        owns = choices["CPU"] == "owned"
        awake = choices["idle guest"] == "stays awake" and (apart or not owns)
        return [
            GuestNic(choices["NIC path"], batch=1 if prompt else 128, lro=not prompt),
            GuestPower("on"),
            ExclusiveCpu(owns),
            Neighbour(choices["neighbour"], PLACES[apart and owns]),
            *[Halting(False)] * awake,
        ]

    def turn(self, dial: str, choice: str) -> None:
        """Want another position of one dial; what was measured so far is kept to compare."""
        self.settings({dial: choice})  # refuses what is no dial
        with self._turn:
            if self.position[dial] != choice:
                self.position[dial] = choice
                if self.now:
                    self.before, self.now = self.now, deque(maxlen=RUNS_SHOWN)

    def refusals(self) -> list[str]:
        """The reasons why this lab can turn no dial; empty if it can turn all."""
        if missing := [r for r in NEEDS if r not in self.lab.hosts]:
            return [f"the lab has no {', '.join(missing)}"]
        steps = plan(self.settings(self.position), self.lab.hosts).steps
        return [step.why for step in steps if step.why]

    def measure(self, stop: threading.Event, tell: Callable[[str], None]) -> None:
        """Measure the guest until stopped; then everything is put back."""
        roles = {role: "guest" if role == "server" else role for role in self.workload.roles}
        hosts = {role: self.lab.host(name) for role, name in roles.items()}
        with in_force(self.lab.hosts, "dials") as changes:
            last: dict[str, str] = {}
            apart = not plan([Neighbour("busy", PLACES[1])], self.lab.hosts).steps[0].why
            while not stop.is_set():
                with self._turn:
                    goal, into = dict(self.position), self.now
                if goal != last:
                    tell("turning the dial")
                    changes.move_to(self.settings(goal, apart))
                    last = goal
                # An answer from before a turn belongs to what was before it.
                into.append(self.workload.parse(self.workload.run(hosts))[0].values)
                self.measured += 1
                tell(f"{self.measured} measurements")

    def values(self) -> dict[str, Values]:
        """The measurements to show: the last ones, and those before the last turn."""
        with self._turn:
            runs_of = {PRESENT: list(self.now), BEFORE: list(self.before)}
        return {name: np.concatenate(runs) for name, runs in runs_of.items() if runs}


def histogram(values: Mapping[str, Values], note: str = "") -> alt.LayerChart:
    """Shares of the answers by how long they took, on a logarithmic scale."""
    if not values:
        raise BadInput("nothing to draw: nothing was measured yet")
    values_of = np.concatenate(list(values.values()))
    edges = np.geomspace(max(values_of.min(), 1e-3) * 0.98, values_of.max() * 1.02, BINS + 1)
    rows = [
        {"which": name, "low": round(float(a), 3), "high": round(float(b), 3),
         "share": round(float(count) / len(value), 5)}
        for name, value in values.items()
        for a, b, count in zip(edges, edges[1:], np.histogram(value, edges)[0], strict=False)
    ]  # fmt: skip
    x = alt.X("low:Q", title="round trip (µs)").scale(type="log", nice=False)
    x = x.axis(format=",~f", tickCount=6)
    base = alt.Chart(inline(rows)).encode(x=x, x2="high:Q", y=alt.Y("share:Q", title="share"))
    colours = alt.Scale(domain=[PRESENT, BEFORE], range=[COLOURS[0], GREY])
    look: dict[str, Any] = {
        "title": None, "legend": alt.Legend(orient="top"), "scale": colours
    }  # fmt: skip
    # One shows through the other, and their edges stand out on a light page and on a dark one.
    bars = base.mark_rect(fillOpacity=0.55, strokeWidth=1.5).encode(
        fill=alt.Fill("which:N", **look), stroke=alt.Stroke("which:N", **look),
        tooltip=[tip("which"), tip("low", ",~f"), tip("high", ",~f"), tip("share", ".1%")],
    )  # fmt: skip
    text = "; ".join(f"{name}: median {percentile(v, 50):.0f}" for name, v in values.items())
    return framed(
        alt.LayerChart(layer=[bars]), 220, "The last answers", "Grey: before the last turn.", note,
        f"Round trips in µs, {text}",
    )  # fmt: skip


def would_be() -> Table:
    """The dials with their positions, and the settings that each position asks for."""
    usual = Dialling.settings({})
    rows = [
        (dial, f"{choices[0]} to {choice}",
         "; ".join(str(x) for x in Dialling.settings({dial: choice}) if x not in usual))
        for dial, choices in DIALS.items() for choice in choices[1:]
    ]  # fmt: skip
    return Table(("dial", "turned from", "what it changes on the server"), tuple(rows))


class DialPanel:
    """The dials as widgets; Start measures until Stop, which puts every setting back."""

    def __init__(self, lab: Lab | None) -> None:
        self.dialling = Dialling(lab) if lab else None
        self.note = "Emulated: one machine" if lab and lab.emulated else ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.words, self.picture = widgets.HTML(), StayingOutput()
        self.start = widgets.Button(description="Start dials", icon="play", button_style="primary")
        self.stop = widgets.Button(description="Stop dials", icon="stop", button_style="danger")
        self.start.on_click(lambda _: self.begin())
        self.stop.on_click(lambda _: self._stop.set())
        self.stop.disabled = True
        self.dials = {dial: self._dial(dial, choices) for dial, choices in DIALS.items()}

    @property
    def running(self) -> bool:
        """Whether it measures now, or puts settings back."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self) -> None:
        """Measure until Stop is pressed; the notebook stays free."""
        if self.dialling is None or self.running:
            return
        if refusals := self.dialling.refusals():
            self.say(f"This lab has no such dials: {refusals[0]}")
            return
        self._stop.clear()
        self.start.disabled, self.stop.disabled = True, False
        self._thread = threading.Thread(target=self._measure, daemon=True)
        self._thread.start()

    def say(self, words: str) -> None:
        """Show these words below the dials."""
        self.words.value = status(safe(words))

    def view(self) -> widgets.Widget:
        """The panel as a widget."""
        self.say("Turn dials, press Start dials. Stop dials puts every setting back.")
        buttons = widgets.HBox([self.start, self.stop])
        rows = [
            wrapped([widgets.Label(dial, layout={"width": "150px"}), choices])
            for dial, choices in self.dials.items()
        ]
        return widgets.VBox([*rows, buttons, self.words])

    def _ipython_display_(self) -> None:
        if self.dialling is None:
            print("dials: a recorded run has none to turn; they need a lab. There they would be:")
            show(would_be())
        elif alone():
            print(f"dials: {', '.join(DIALS)}; nobody is here to turn them")
        else:
            show(self.view())
            self.picture.show({"text/plain": "No answers yet: press Start dials."})

    def _dial(self, dial: str, choices: tuple[str, ...]) -> widgets.ToggleButtons:
        buttons = widgets.ToggleButtons(options=list(choices), tooltips=[dial] * len(choices))
        buttons.observe(lambda change: self._turn(dial, change["new"]), names="value")
        return buttons

    def _turn(self, dial: str, choice: str) -> None:
        if self.dialling is not None:
            self.dialling.turn(dial, choice)

    def _measure(self) -> None:
        assert self.dialling is not None
        try:
            self.dialling.measure(self._stop, self._tell)
            count = self.dialling.measured
            self.say(f"Stopped after {count} measurements; everything was put back")
        except Exception as error:
            self.say(f"Failed: {error}")
        self.start.disabled, self.stop.disabled = False, True

    def _tell(self, words: str) -> None:
        assert self.dialling is not None
        values = self.dialling.values()
        medians = (f"{name}: median {percentile(v, 50):.0f}, 99 % {percentile(v, 99):.0f} µs"
                   for name, v in values.items())  # fmt: skip
        self.say("; ".join([words, *medians]))
        if values:
            self.picture.show(charts.bundle(histogram(values, self.note).to_dict()))
