"""Cards of the front page as widgets, each with a button that runs its study."""

from collections.abc import Callable, Sequence

import ipywidgets as widgets  # type: ignore[import-untyped]

from labkit.front.area import Area, button
from labkit.front.cards import StudyCard, card_html


class Tiles:
    """One tile for each study; `press` is called with the name of a study whose button is used."""

    def __init__(self, names: Sequence[str], press: Callable[[str], None]) -> None:
        self.areas = {name: Area() for name in names}
        self.buttons = {name: button("Run", f"Run {name} for a few short runs") for name in names}
        for name, tile_button in self.buttons.items():
            tile_button.on_click(lambda _, name=name: press(name))
        tiles = [self._tile(name) for name in names]
        self.widget = widgets.Box(tiles)
        self.widget.add_class("lk-cards")

    def show(self, cards: Sequence[StudyCard], at_work: str) -> None:
        """Show each study's card, and Stop on that of the study at work."""
        for card in cards:
            self.areas[card.study.name].show(card_html(card))
        for name, tile_button in self.buttons.items():
            tile_button.description = "Stop" if name == at_work else "Run"

    def _tile(self, name: str) -> widgets.VBox:
        tile = widgets.VBox([self.areas[name].widget, self.buttons[name]])
        tile.add_class("lk-card")
        return tile
