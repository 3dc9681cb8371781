"""The front page: a thin view of what studies, labs, results and the scorecard say.

A study that is begun there is `labkit run` in a process of its own, one at a time.
"""

import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence

import ipywidgets as widgets  # type: ignore[import-untyped]
from IPython.display import display
from markupsafe import Markup

from labkit.box import this_machine
from labkit.front import cards
from labkit.front.area import Area, Speaker, Worker, button, heading
from labkit.front.lab_section import LabSection
from labkit.front.results import ResultsSection, shelf
from labkit.pages.filled import filled
from labkit.pages.kept_scores import kept_scorecard
from labkit.pages.lab_panel import alone, show
from labkit.pages.scorecard import body

VIEW = "application/vnd.jupyter.widget-view+json"
STOP_CODES = (130, -signal.SIGTERM)
"""Exit codes of a run that was stopped; the latter before it had anything to put back."""
LAST = 4
"""Lines of its last words that are shown if it failed."""


class Tiles:
    """One tile for each study; `press` is called with the name of a study whose button is used."""

    def __init__(self, names: Sequence[str], press: Callable[[str], None]) -> None:
        self.areas = {name: Area() for name in names}
        self.buttons = {name: button("Run", f"Run {name} for a few short runs") for name in names}
        for name, tile_button in self.buttons.items():
            tile_button.on_click(lambda _, name=name: press(name))
        self.widget = widgets.Box(
            [widgets.VBox([self.areas[name].widget, self.buttons[name]]) for name in names]
        )
        self.widget.add_class("lk-cards")
        for tile in self.widget.children:
            tile.add_class("lk-card")

    def show(self, study_cards: Sequence[cards.StudyCard], at_work: str) -> None:
        """Show each study's card, and Stop on that of the study at work."""
        for card in study_cards:
            self.areas[card.study.name].show(cards.card_html(card))
        for name, tile_button in self.buttons.items():
            tile_button.description = "Stop" if name == at_work else "Run"


class Runner:
    """Runs one study at a time; `changed` is called when a run began and when it ended."""

    def __init__(self, speaker: Speaker, place_of: Callable[[str], str]) -> None:
        self.speaker, self.where = speaker, place_of
        self.changed: Callable[[], None] = lambda: None
        self.study = ""
        """The study at work; empty if none is."""
        self._process: subprocess.Popen[str] | None = None
        self._stop = False
        self._thread: threading.Thread | None = None

    def press(self, study: str) -> None:
        """Begin this study; stop it if it is at work."""
        if self.study == study:
            self.speaker.say(f"{study}: stopping; settings are put back ...")
            self._stop = True
            self._interrupt()
        elif self.study:
            self.speaker.say(f"{self.study} is at work; stop it first, or wait.", bad=True)
        else:
            self.study, self._stop = study, False
            self._thread = threading.Thread(target=self._through, args=(study,), daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until nothing is at work."""
        if self._thread is not None:
            self._thread.join()

    # It may be stopped before there is a process. A kernel of Jupyter ignores SIGINT between cells,
    # and so would a process that it starts: SIGTERM stops as politely.
    def _interrupt(self) -> None:
        if self._stop and self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def _through(self, study: str) -> None:
        place, last = self.where(study), deque[str](maxlen=LAST)
        words = [sys.executable, "-m", "labkit", "run", study, "--quick", "--where", place]
        self.speaker.say(f"{study} on {place}: beginning ...")
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              errors="replace", start_new_session=True) as process:  # fmt: skip
            self._process = process
            self._interrupt()
            self.changed()
            for line in process.stderr or ():
                last.append(line.rstrip())
                self.speaker.say(f"{study} on {place}: {line.rstrip()}")
        ends = {0: "finished; its answer is on its card."} | dict.fromkeys(STOP_CODES, "stopped.")
        end = ends.get(process.returncode) or "\n".join(["failed", *last])
        self.study, self._process = "", None
        self.changed()
        self.speaker.say(f"{study} on {place}: {end}", bad=process.returncode not in ends)


class FrontPage:
    """Cards of studies, the lab, the results and the scorecard, each looked at in the background.

    It is shown at once, and filled as answers come: the lab, then what was judged.
    """

    def __init__(self) -> None:
        self.known, self.lessons = cards.Known(), cards.lessons()
        self.machine = this_machine.examine()
        self.speaker, self.running, self.score = Speaker(), Speaker(), Area()
        self.light = Speaker()
        self.worker = Worker(self.speaker)
        self.lab = LabSection(self._of_lab)
        self.results = ResultsSection(self._show_cards)
        self.runner = Runner(self.running, self._place_of)
        self.tiles = Tiles([card.study.name for card in self.known.cards()], self.runner.press)
        self.runner.changed = self._at_work
        self.again = button("Refresh page", "Look at labs and results again", "refresh")
        self.again.on_click(lambda _: self.begin())
        self._of_lab()

    def begin(self) -> None:
        """Look at everything again, while the page stays free."""
        quiet, words = cards.quiet_now()
        self.light.say(words, bad=not quiet)
        self.lab.begin()
        self.worker.begin("Looking at results and judging claims", self.look)

    def look(self) -> str:
        """List the results, then judge the claims on them."""
        self.known.shelved = shelf()
        self.results.take(self.known.shelved)
        self._show_cards()
        self.known.score = kept_scorecard()
        self.score.show(body(self.known.score))
        self.results.take(self.known.shelved, self.known.score.lines)
        self._show_cards()
        return ""

    def view(self) -> widgets.Widget:
        """The page as a widget."""
        style = f"<style>{filled('front.css')}</style>"
        style = widgets.HTML(style, layout=widgets.Layout(display="none"))
        self.score.show(f"<p>{cards.JUDGING} ...</p>")
        lessons = Area()
        lessons.show(cards.lessons_html(self.lessons))
        parts = [
            style, widgets.HBox([self.again, self.speaker.widget]), self.light.widget,
            self.running.widget, heading("Studies"), lessons.widget, self.tiles.widget,
            self.lab.view, self.results.view, heading("Scorecard"), self.score.widget,
        ]  # fmt: skip
        page = widgets.VBox(parts, layout=widgets.Layout(width="100%"))
        page.add_class("labkit-front")
        return page

    def snapshot(self) -> dict[str, str]:
        """The view shown if there are no widgets: a saved notebook on another page."""
        known = self.known.cards()
        page = filled("front.html", cards=Markup(cards.cards_html(known, self.lessons)))
        return {"text/html": page, "text/plain": cards.cards_table(known).text()}

    def _ipython_display_(self) -> None:
        if alone():
            self.known.shelved, self.known.score = shelf(), kept_scorecard()
            show(cards.cards_table(self.known.cards()))
            return
        view = self.view()
        bundle = {VIEW: {"version_major": 2, "version_minor": 0, "model_id": view.model_id}}
        display({**bundle, **self.snapshot()}, raw=True)  # type: ignore[no-untyped-call]
        self.begin()

    # The lab decides what can run here, and so does this machine where no lab is open.
    def _of_lab(self) -> None:
        lab, answering = self.lab.lab, self.lab.answering
        self.known.ready = cards.of_all(self.known.studies, self.machine, lab, answering)
        self._show_cards()

    def _show_cards(self) -> None:
        self.tiles.show(self.known.cards(), self.runner.study)

    # A box of the study's own is made where the one that is open has no host for it; where there
    # can be no lab, the recorded run is judged again.
    def _place_of(self, study: str) -> str:
        lab, ready = self.lab.lab, (self.known.ready or {}).get(study)
        fits = ready is None or ready.state != cards.NO
        if lab is not None and (fits or not lab.emulated):
            return str(lab.path)
        return "box" if self.machine.tier in cards.IN_A_BOX else "recorded"

    def _at_work(self) -> None:
        self._show_cards()
        if not self.runner.study:
            self.worker.begin("Judging what was measured", self.look)
