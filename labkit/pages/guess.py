"""A field for what a reader expects of a study, kept to be read beside what it found."""

from pathlib import Path

import ipywidgets as widgets  # type: ignore[import-untyped]

from labkit.machine import records
from labkit.machine.places import out
from labkit.pages.lab_panel import alone, show

LONGEST = 300
"""Letters of a guess; it is one line."""


class Guess:
    """The reader's guess about a study; the last one is kept, and comes back the next time."""

    def __init__(self, study: str) -> None:
        self.file: Path = out() / "guesses" / f"{study}.txt"
        self.text = self.file.read_text("utf-8").strip() if self.file.is_file() else ""
        self.field = widgets.Text(
            value=self.text, placeholder="what I expect, and how much", description="My guess",
            continuous_update=False, layout=widgets.Layout(width="100%"),
        )  # fmt: skip
        self.field.observe(lambda change: self.keep(change["new"]), "value")

    def keep(self, text: str) -> None:
        """Keep this guess in place of the last; an empty one takes it away."""
        self.text = " ".join(text.split())[:LONGEST]
        with records.keeping(str(self.file)):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(f"{self.text}\n", "utf-8")

    def ask(self) -> None:
        """Show the field, if somebody is there to type into it."""
        if not alone():
            show(self.field)

    def remind(self) -> None:
        """Print the guess, to be read beside what was found."""
        if self.text and not alone():
            print(f"Your guess was: {self.text}")
