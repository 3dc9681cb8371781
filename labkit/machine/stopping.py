"""Ctrl-C and its like: a stop comes at once, but where that would leave something half done."""

import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TypeVar

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TURN_SECONDS = 0.2
A = TypeVar("A")
B = TypeVar("B")


def stop_politely() -> None:
    """Have a polite kill, and a terminal that is closed, be a stop like Ctrl-C from now on.

    What somebody has us ignore (nohup) stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _hung_up)


# The kernel and the shell both say so, the second while we are putting things back already.
def _hung_up(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def together(look: Callable[[A], B], items: Collection[A], at_once: int) -> list[B]:
    """The results of `look` for each, side by side; a stop does not wait for a silent host."""
    pool = ThreadPoolExecutor(max(1, at_once))
    try:
        futures = [pool.submit(look, item) for item in items]
        # A signal that comes just before Python waits is seen only when it waits no longer.
        while wait(futures, TURN_SECONDS).not_done:
            pass
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@dataclass
class _PutOff:
    """What a signal does while something must not be left half done."""

    what: str
    back: str
    asked: list[int] = field(default_factory=list)

    def __call__(self, number: int, _: FrameType | None) -> None:
        if self.asked and number == signal.SIGHUP:
            return
        if self.asked:
            print(f"stopped during {self.what}; to put back: {self.back}", file=sys.stderr)
            raise KeyboardInterrupt
        self.asked.append(number)
        print(f"stopping after {self.what}; once more to stop at once", file=sys.stderr)


@contextmanager
def undisturbed(title: str, back: str = "labkit restore --all") -> Iterator[None]:
    """Put a first Ctrl-C or its like off until the end of the block; a second one ends it at once.

    `back` is what to type then, for what is left. Of two such blocks the outer one counts. Signals
    reach the main thread alone, so that in any other there is nothing to put off.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}
    inner = any(isinstance(handler, _PutOff) for handler in before.values())
    if inner or threading.current_thread() is not threading.main_thread():
        yield
        return
    put_off = _PutOff(title, back)
    signals = [number for number in SIGNALS if before[number] is not signal.SIG_IGN]
    for number in signals:
        signal.signal(number, put_off)
    try:
        yield
    finally:
        for number in signals:
            hung_up = number == signal.SIGHUP and number in put_off.asked
            signal.signal(number, signal.SIG_IGN if hung_up else before[number] or signal.SIG_DFL)
    if put_off.asked:
        raise KeyboardInterrupt
