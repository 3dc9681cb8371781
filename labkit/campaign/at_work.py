"""A point at work: its process, how far that has come, and how it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from labkit.campaign.folder import BEGUN, DIED, STOPPED, Attempt, CampaignFolder
from labkit.campaign.points import CampaignPoint
from labkit.errors import last_words
from labkit.machine import lean

WORKER, PUT_BACK = "labkit.campaign.worker", "put-back"
GRACE_SECONDS = 120.0
"""For so long a point that is stopped may put settings back; then it is asked once more."""


@dataclass(kw_only=True)
class PointAtWork(ABC):
    """A point at work, here or elsewhere."""

    folder: CampaignFolder
    point: CampaignPoint
    begun: float = field(default_factory=time.monotonic)
    said: str = "getting ready"
    seconds_left: float | None = None
    """The study's own forecast, once it measures."""
    why: str = ""
    """Reason why it was stopped, if it was."""
    asked: list[float] = field(default_factory=list)
    """Times at which it was asked to stop."""

    @property
    def seconds(self) -> float:
        """Seconds that it has been at work."""
        return time.monotonic() - self.begun

    def stop(self, reason: str) -> None:
        """Ask it to put its settings back and to end; asked twice, it ends at once."""
        self.why = self.why or reason
        self.asked.append(time.monotonic())
        self._ask_to_stop()

    @abstractmethod
    def _ask_to_stop(self) -> None: ...

    @abstractmethod
    def insist(self) -> None:
        """Ask once more where it takes too long to stop."""

    @abstractmethod
    def ended(self) -> Attempt | None:
        """The outcome; None while it is at work."""


@dataclass(kw_only=True)
class AtWork(PointAtWork):
    """One point at work, in a process of its own."""

    number: int
    process: subprocess.Popen[bytes]

    @classmethod
    def begin(cls, folder: CampaignFolder, point: CampaignPoint, *, put_back: bool) -> AtWork:
        """Start it; it has a session of its own, so that Ctrl-C is for its conductor to pass on."""
        path = folder.of(point)
        path.mkdir(parents=True, exist_ok=True)
        number = 1 + max((tried.number for tried in folder.attempts(point)), default=0)
        words = str(folder.path), str(point.number), str(number), *[PUT_BACK] * put_back
        with (path / f"attempt-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                lean.words(WORKER, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, start_new_session=True,
                env={**os.environ, "LABKIT_OUT": str(folder.path.parents[1])},
            )  # fmt: skip
        at_work = cls(folder=folder, point=point, number=number, process=process)
        threading.Thread(target=at_work._listen, args=(process.stdout,), daemon=True).start()
        return at_work

    def _listen(self, output: IO[bytes]) -> None:
        for line in output:
            with suppress(ValueError, LookupError):
                message = json.loads(line)
                self.said, self.seconds_left = message["said"], message["seconds_left"]

    # Where SIGINT is ignored (a shell's job in the background), the worker ignores it as well.
    def _ask_to_stop(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGTERM)

    def insist(self) -> None:
        """Ask once more where it takes too long to stop; then end it."""
        if not self.asked or time.monotonic() < self.asked[-1] + GRACE_SECONDS:
            return
        if len(self.asked) < 2:
            self.stop(self.why)
        else:
            self.process.kill()

    def ended(self) -> Attempt | None:
        """The outcome; None while it is at work."""
        if self.process.poll() is None:
            return None
        if self.process.stdin:
            self.process.stdin.close()
        if done := self.folder.finished(self.point):  # perhaps by another, while it waited
            return done
        last = [Attempt.begin(self.number), *self.folder.attempts(self.point)][-1]
        attempt = last if last.number >= self.number else Attempt.begin(self.number)
        return self._died(attempt) if attempt.state == BEGUN else attempt

    # It could write nothing down any more.
    def _died(self, attempt: Attempt) -> Attempt:
        path = self.folder.of(self.point)
        if self.asked:
            return attempt.settle(path, STOPPED, self.why, "Stopped")
        code = self.process.returncode
        cause = f"signal {-code}" if code < 0 else f"exit code {code}"
        log = (path / f"attempt-{self.number}.log").read_text("utf-8", "replace")
        reason = [f"its process ended: {cause}", last_words(log)]
        return attempt.settle(path, DIED, "\n".join(filter(None, reason)))
