"""Dials: turn one, and see the distribution of the next short measurements change."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import altair as alt
import ipywidgets as widgets  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt

from labkit import charts
from labkit.changes.in_force import in_force
from labkit.changes.plan import plan
from labkit.errors import Unknown
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
from labkit.workload import Sample, Workload
from labkit.workloads.ping import Ping

Values = npt.NDArray[np.float64]
Dials = Mapping[str, tuple[str, ...]]
DIALS: Dials = {
    "NIC path": ("bridge", "direct"),
    "batching and merging": ("on", "off"),
    "CPU": ("shared", "owned"),
    "idle guest": ("halts", "stays awake"),
    "neighbour": ("none", "busy", "memory"),
}
"""The mechanisms, each with what it can be; the first is how a guest comes."""
RUNS_SHOWN = 10
PRESENT, BEFORE = "now", "before the last turn"


def complete(dials: Dials, position: Mapping[str, str]) -> dict[str, str]:
    """All dials, those of `position` turned; what is no dial, or no position of it, is refused."""
    for dial, choice in position.items():
        if dial not in dials:
            raise Unknown("dial", dial, dials)
        if choice not in dials[dial]:
            raise Unknown(f"position of {dial}", choice, dials[dial])
    return {dial: choices[0] for dial, choices in dials.items()} | dict(position)


@dataclass
class Dialling:
    """Measures again and again with the settings that are wanted now; knows nothing of widgets.

    `turn` changes what is wanted from the next measurement on. All settings go through the journal
    of the hosts, and are put back when `measure` ends, however it ends.
    """

    dials: ClassVar[Dials] = DIALS
    needs: ClassVar[tuple[str, ...]] = ("client", "server", "guest")

    lab: Lab
    workload: Workload = field(default_factory=lambda: Ping(count=300))
    roles: Mapping[str, str] = field(default_factory=lambda: {"server": "guest"})
    position: dict[str, str] = field(default_factory=dict)
    now: deque[Values] = field(default_factory=lambda: deque(maxlen=RUNS_SHOWN))
    before: deque[Values] = field(default_factory=lambda: deque(maxlen=RUNS_SHOWN))
    measured: int = 0

    def __post_init__(self) -> None:
        self._turn = threading.Lock()
        self.position = {dial: choices[0] for dial, choices in self.dials.items()} | self.position

    @staticmethod
    def settings(position: Mapping[str, str], apart: bool = True) -> list[Setting]:
        """The settings that positions of its dials mean on the host that runs the guest.

        A guest that owns its CPU has its neighbour on the others, if they can be `apart`. If not,
        it halts, as nothing else would run there any more.
        """
        choices = complete(DIALS, position)
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

    @staticmethod
    def figures(samples: list[Sample]) -> Values:
        """The values that one measurement adds to the picture."""
        return samples[0].values

    def picture(self, note: str = "") -> alt.TopLevelMixin:
        """The last answers, and those before the last turn."""
        return charts.spread({name: {1: v} for name, v in self.values().items()}, note=note)

    def words(self) -> list[str]:
        """The same in words."""
        return [
            f"{name}: median {percentile(v, 50):.0f}, 99 % {percentile(v, 99):.0f} µs"
            for name, v in self.values().items()
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
        if missing := [r for r in self.needs if r not in self.lab.hosts]:
            return [f"the lab has no {', '.join(missing)}"]
        steps = plan(self.settings(self.position), self.lab.hosts).steps
        return [step.why for step in steps if step.why]

    def measure(self, stop: threading.Event, tell: Callable[[str], None]) -> None:
        """Measure until stopped; then everything is put back."""
        hosts = {role: self.lab.host(self.roles.get(role, role)) for role in self.workload.roles}
        with in_force(self.lab.hosts, "dials") as changes:
            texts: dict[str, str] = {}
            apart = not plan([Neighbour("busy", PLACES[1])], self.lab.hosts).steps[0].why
            while not stop.is_set():
                with self._turn:
                    goal, into = dict(self.position), self.now
                if goal != texts:
                    tell("turning the dial")
                    changes.move_to(self.settings(goal, apart))
                    texts = goal
                # An answer from before a turn belongs to what was before it.
                into.append(self.figures(self.workload.parse(self.workload.run(hosts))))
                self.measured += 1
                tell(f"{self.measured} measurements")

    def values(self) -> dict[str, Values]:
        """The measurements to show: the last ones, and those before the last turn."""
        with self._turn:
            runs_of = {PRESENT: list(self.now), BEFORE: list(self.before)}
        return {name: np.concatenate(runs) for name, runs in runs_of.items() if runs}


def would_be(kind: type[Dialling] = Dialling) -> Table:
    """The dials with their positions, and the settings that each position asks for."""
    usual = kind.settings({})
    rows = [
        (dial, f"{choices[0]} to {choice}",
         "; ".join(str(x) for x in kind.settings({dial: choice}) if x not in usual))
        for dial, choices in kind.dials.items() for choice in choices[1:]
    ]  # fmt: skip
    return Table(("dial", "turned from", "what it changes on the server"), tuple(rows))


class DialPanel:
    """The dials as widgets; Start measures until Stop, which puts every setting back."""

    kind: ClassVar[type[Dialling]] = Dialling

    def __init__(self, lab: Lab | None) -> None:
        self.dialling = self.kind(lab) if lab else None
        self.note = "Emulated: one machine" if lab and lab.emulated else ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.words, self.picture = widgets.HTML(), StayingOutput()
        self.start = widgets.Button(description="Start dials", icon="play", button_style="primary")
        self.stop = widgets.Button(description="Stop dials", icon="stop", button_style="danger")
        self.start.on_click(lambda _: self.begin())
        self.stop.on_click(lambda _: self._stop.set())
        self.stop.disabled = True
        self.dials = {dial: self._dial(dial, choices) for dial, choices in self.kind.dials.items()}

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
            show(would_be(self.kind))
        elif alone():
            print(f"dials: {', '.join(self.kind.dials)}; nobody is here to turn them")
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
        self.say("; ".join([words, *self.dialling.words()]))
        if self.dialling.values():
            self.picture.show(charts.bundle(self.dialling.picture(self.note).to_dict()))
