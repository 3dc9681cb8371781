"""A study in a terminal: a progress line while it runs, plain tables after."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any, TextIO

from labkit.errors import readable
from labkit.runs.progress import Progress

BAR = 24
TICK_SECONDS = 0.25


def table(rows: Sequence[Sequence[Any]], head: Sequence[str]) -> str:
    """Columns aligned by spaces; the last one wraps at the width of the terminal."""
    cells = _cells(rows, head)
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    room = max(24, shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * (len(head) - 1))
    lines: list[str] = []
    for row in cells:
        first, *others = _wrap(row[-1], room)
        columns = "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths[:-1], strict=False)
        )
        lines.append(f"{columns}  {first}".rstrip())
        lines += [f"{' ' * len(columns)}  {line}" for line in others]
    return "\n".join(lines)


def narrow_table(rows: Sequence[Sequence[Any]], head: Sequence[str]) -> str:
    """Align rows like `table`; if too wide, turn them into columns, those that fit side by side.

    So a row of many figures can be read in 80 columns.
    """
    width = shutil.get_terminal_size().columns
    cells = _cells(rows, head)
    if _width(list(zip(*cells, strict=True))) <= width:
        return table(rows, head)
    heads, *columns = cells
    parts: list[list[list[str]]] = []
    for column in columns:
        if not parts or _width([heads, *parts[-1], column]) > width:
            parts.append([])
        parts[-1].append(column)
    parts_turned = [list(zip(heads, *part, strict=True)) for part in parts]
    return "\n\n".join(table(lines[1:], lines[0]) for lines in parts_turned)


def _width(columns: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, column)) + 2 for column in columns) - 2


def paragraph(text: str) -> str:
    """Text that wraps at the width of the terminal, each line indented as the first is."""
    indent = " " * (len(text) - len(text.lstrip()))
    room = max(24, shutil.get_terminal_size().columns - len(indent))
    return "\n".join(f"{indent}{line}" for line in _wrap(text, room))


def _cells(rows: Sequence[Sequence[Any]], head: Sequence[str]) -> list[list[str]]:
    texts = ((str(cell).strip() for cell in row) for row in (head, *rows))
    return [[readable("; ".join(text.splitlines())) for text in row] for row in texts]


def _wrap(text: str, width: int) -> list[str]:
    words = " ".join(text.split())
    return wrap(words, width, break_long_words=False, break_on_hyphens=False) or [""]


@dataclass
class ProgressLine:
    """One line on stderr, drawn over and over; without a terminal, one each time it changes."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    text: str = ""
    progress: Progress | None = None
    since: float = field(default_factory=time.monotonic)
    _ended: threading.Event = field(default_factory=threading.Event)
    _clock: threading.Thread | None = None

    def __enter__(self) -> ProgressLine:
        if self._draws:
            self._clock = threading.Thread(target=self._tick, daemon=True)
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._clock:
            self._clock.join()
            self.stream.write("\r\x1b[K")
            self.stream.flush()

    def say(self, text: str) -> None:
        """Show what is being done now."""
        self.draw(text)
        self._plain(self.text)

    def note(self, text: str) -> None:
        """Write a line that stays on the screen, above the one that is drawn."""
        wipe = "\r\x1b[K" if self._draws else ""
        print(wipe + readable(text), file=self.stream, flush=True)

    def draw(self, text: str) -> None:
        """Draw this from now on; it is not written where no line can be wiped."""
        self.text, self.progress, self.since = readable(text), None, time.monotonic()

    def tell(self, progress: Progress) -> None:
        """Show how far a study has come; a remark stays on the screen."""
        if progress.remark:
            self.note("; ".join(progress.remark.splitlines()))
        if progress.step == "measuring" or progress.step == "finished":
            self._plain(_draw(progress, progress.seconds_left))
        self.progress, self.since = progress, time.monotonic()

    # A dumb terminal, such as a shell in an editor, cannot wipe a line.
    @property
    def _draws(self) -> bool:
        return self.stream.isatty() and os.environ.get("TERM") != "dumb"

    def _plain(self, text: str) -> None:
        if not self._draws:
            print(text, file=self.stream, flush=True)

    def _tick(self) -> None:
        while not self._ended.wait(TICK_SECONDS):
            seconds, progress = time.monotonic() - self.since, self.progress
            line = f"{self.text} ({seconds:.0f} s)" if seconds > 2 else self.text
            if progress:
                line = _draw(progress, max(0.0, progress.seconds_left - seconds))
            width = shutil.get_terminal_size().columns - 1
            self.stream.write(f"\r\x1b[K{line[:width]}")
            self.stream.flush()


def _draw(progress: Progress, seconds: float) -> str:
    bar = f"[{'#' * round(BAR * progress.share):.<{BAR}}]"
    if progress.step == "finished":
        left_out = "" if progress.done == progress.of else "; the others were invalid"
        return f"{bar} {progress.done} of {progress.of} runs measured{left_out}"
    return (
        f"{bar} {progress.done:3d} of {progress.of} runs,"
        f" {seconds:3.0f} s left: {progress.step} {progress.condition}"
    )
