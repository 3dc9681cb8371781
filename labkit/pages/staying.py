"""Outputs below a cell that are replaced in their place, and stay in the saved notebook."""

from collections.abc import Callable, Mapping
from typing import Any

from IPython.display import DisplayHandle, display

from labkit import charts

Show = Callable[[object], None]


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
