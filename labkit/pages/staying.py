"""An output below a cell that stays in the saved notebook, whatever becomes of its widgets."""

from collections.abc import Mapping
from typing import Any

from IPython.display import DisplayHandle, display

from labkit import charts


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
