"""A part of the front page that changes: HTML whose links open in JupyterLab."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import ipywidgets as widgets  # type: ignore[import-untyped]
from markupsafe import Markup

from labkit.errors import LabkitError
from labkit.pages.filled import safe
from labkit.pages.lab_panel import status


class Area:
    """HTML that JupyterLab renders as it does outputs: a link to a notebook opens it there.

    The kernel keeps what is shown, so a browser that connects later sees it too.
    """

    def __init__(self) -> None:
        self.widget = widgets.Output(layout=widgets.Layout(width="auto", margin="0"))
        self.html = ""

    def show(self, html: str) -> None:
        """Show this in place of what was there."""
        if html == self.html:
            return
        self.html = html
        output = {"output_type": "display_data", "data": {"text/html": html}, "metadata": {}}
        self.widget.outputs = (output,) if html else ()


class Speaker:
    """One line of words that screen readers read aloud as it changes."""

    def __init__(self) -> None:
        self.widget = widgets.HTML()
        self.said = ""

    def say(self, words: str, *, bad: bool = False) -> None:
        """Say this; `bad` marks what went wrong."""
        self.said = words
        kind = "lk-said lk-bad" if bad else "lk-said"
        self.widget.value = status(f'<div class="{kind}">{safe(words)}</div>' if words else "")


Wish = tuple[str, Callable[[], str]]


class Worker:
    """Does one thing at a time while the page stays free; an error is said, and never lost.

    What is asked for meanwhile comes next; of several wishes the last one. No button is disabled:
    it would lose the focus, and a keyboard its place.
    """

    def __init__(self, speaker: Speaker) -> None:
        self.speaker = speaker
        self._turn, self._next = threading.Lock(), list[Wish]()
        self._thread: threading.Thread | None = None

    def begin(self, title: str, call: Callable[[], str]) -> None:
        """Say what is being done, do it, and say what `call` returns."""
        with self._turn:
            self._next = [(title, call)]
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until nothing is left to do."""
        while (thread := self._thread) is not None:
            thread.join()

    def _take(self) -> Wish | None:
        with self._turn:
            if self._next:
                return self._next.pop()
            self._thread = None
            return None

    def _work(self) -> None:
        while wish := self._take():
            title, call = wish
            self.speaker.say(f"{title} ...")
            try:
                self.speaker.say(call())
            except LabkitError as error:
                self.speaker.say(str(error), bad=True)
            except Exception as odd:
                self.speaker.say(f"Failed: {type(odd).__name__}: {odd}", bad=True)


def heading(text: str) -> widgets.HTML:
    """The head of a section."""
    return widgets.HTML(f"<h2>{safe(text)}</h2>")


def button(text: str, hint: str, icon: str = "") -> widgets.Button:
    """A button as wide as its words."""
    widget = widgets.Button(description=text, tooltip=hint, icon=icon)
    widget.layout.width, widget.layout.flex = "auto", "0 0 auto"
    return widget


def href(file: Path) -> str:
    """The way from the notebook that runs this to a file, as a link of a page."""
    return quote(os.path.relpath(file, Path.cwd()))


def link(file: Path, text: str, label: str = "") -> Markup:
    """A link to a file; `label` is what a screen reader calls it."""
    about = Markup(' aria-label="{}"').format(safe(label)) if label else ""
    return Markup(f'<a href="{safe(href(file))}"{about}>{safe(text)}</a>')
