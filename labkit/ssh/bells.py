"""How one thread wakes another that waits for what comes on a connection."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Protocol


class Bell(Protocol):
    """Wakes the one thread that waits for it."""

    @property
    def rung(self) -> bool:
        """Whether it has been rung since it was last waited for."""

    def set(self) -> None:
        """Ring."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a ring."""


class Ring(threading.Event):
    """A bell for the one thread that waits on a channel; paramiko's own serves one stream."""

    def __init__(self) -> None:
        super().__init__()
        self._silent = threading.Lock()
        self._silent.acquire()

    def set(self) -> None:
        """Ring."""
        # Two may ring at once, and the second finds it ringing.
        with suppress(RuntimeError):
            if self._silent.locked():
                self._silent.release()

    @property
    def rung(self) -> bool:
        """Whether it has rung since it was last waited for."""
        return not self._silent.locked()

    def clear(self) -> None:
        """What was read does not say that there is nothing on the other stream."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a ring since the last one that was waited for."""
        seconds = threading.TIMEOUT_MAX if timeout is None else timeout
        return self._silent.acquire(timeout=min(seconds, threading.TIMEOUT_MAX))
