"""A box without root, however it is made: a folder of its user's, and processes to end."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import BoxError
from labkit.machine import account

KILL_SECONDS = 15.0


def kept() -> Path:
    """The folder of this user's boxes."""
    return account.state() / "boxes"


@dataclass(frozen=True)
class OfUser(ABC):
    """The box of that name of this user."""

    name: str

    @property
    def path(self) -> Path:
        """Its folder."""
        return kept() / self.name

    @property
    def lab(self) -> Path:
        """Its lab.toml."""
        return self.path / "lab.toml"

    @abstractmethod
    def processes(self) -> list[int]:
        """The processes that end when it does."""

    @abstractmethod
    def _still(self, pid: int) -> bool:
        """Whether a number that was one of its processes still is."""

    @property
    @abstractmethod
    def _gate(self) -> Path:
        """The folder that is locked while it is made or removed."""

    def down(self) -> None:
        """End its processes, and remove its files."""
        with self._locked():
            self._remove()

    def _remove(self) -> None:
        until = time.monotonic() + KILL_SECONDS
        while left := self.processes():
            for pid in left:
                self._kill(pid)
            if time.monotonic() > until:
                raise BoxError(f"processes {left} of box {self.name} do not end")
            time.sleep(0.005)
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)

    # The descriptor stands for one process for good; the number alone may be another's by now.
    def _kill(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            try:
                if self._still(pid):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
            finally:
                os.close(process)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            kept().mkdir(parents=True, exist_ok=True)
        except OSError as refused:
            hint = "set XDG_STATE_HOME to a folder that you may write to"
            raise BoxError(f"no place for boxes: {kept()}", said=str(refused), hint=hint) from None
        descriptor = os.open(self._gate, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
