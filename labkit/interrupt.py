"""Ctrl-C and SIGTERM at a moment when stopping at once would leave something half done."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def undisturbed(what: str) -> Iterator[None]:
    """Put a first Ctrl-C or SIGTERM off until the end of the block; a second one ends it at once.

    Signals reach the main thread alone, so that in any other there is nothing to put off.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []

    def put_off(number: int, _: FrameType | None) -> None:
        if asked:
            print(f"stopped during {what}; see `labkit restore --all`", file=sys.stderr)
            raise KeyboardInterrupt
        asked.append(number)
        print(f"stopping after {what}; once more to stop at once", file=sys.stderr)

    before = {number: signal.signal(number, put_off) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
    if asked:
        raise KeyboardInterrupt
