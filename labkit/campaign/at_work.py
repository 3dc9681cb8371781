"""A point at work: its process, how far that has come, and how it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from labkit.campaign.attempts import BEGUN, DIED, STOPPED, Attempt
from labkit.campaign.folder import CampaignFolder
from labkit.campaign.places import Needs
from labkit.campaign.points import CampaignPoint
from labkit.errors import last_words
from labkit.machine import lean

WORKER = "labkit.campaign.worker"
GRACE_SECONDS = 120.0
"""For so long a point that is stopped may put settings back; then it is asked once more."""


@dataclass(kw_only=True)
class PointAtWork(ABC):
    """A point at work, here or elsewhere."""

    point: CampaignPoint
    needs: Needs
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

    folder: CampaignFolder
    number: int
    process: subprocess.Popen[bytes]

    @classmethod
    def begin(
        cls, folder: CampaignFolder, point: CampaignPoint, number: int, words: Sequence[str] = ()
    ) -> AtWork:
        """Start it; it has a session of its own, so that Ctrl-C is for its conductor to pass on."""
        path = folder.of(point)
        path.mkdir(parents=True, exist_ok=True)
        at = str(folder.path), str(point.number), str(number)
        command = lean.words(WORKER, *at, *words)
        with (path / f"attempt-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                start_new_session=True,
                env={**os.environ, "LABKIT_OUT": str(folder.path.parents[1])},
            )  # fmt: skip
        at_work = cls(point=point, needs=Needs.of(point.lab), folder=folder, number=number,
                  process=process)  # fmt: skip
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
        path = self.folder.of(self.point)
        file = path / f"attempt-{self.number}.json"
        attempt = Attempt.read(file) if file.exists() else Attempt.begin(self.number, "")
        if attempt.state == BEGUN:
            attempt.clear()
            attempt = self._died(attempt).keep(path)
        return attempt

    # It could write nothing down any more.
    def _died(self, attempt: Attempt) -> Attempt:
        if self.asked:
            return attempt.ended(STOPPED, self.why, "Stopped")
        code = self.process.returncode
        cause = f"signal {-code}" if code < 0 else f"exit code {code}"
        log = self.folder.of(self.point) / f"attempt-{self.number}.log"
        text = last_words(log.read_text("utf-8", "replace"))
        return attempt.ended(DIED, "\n".join(filter(None, [f"its process ended: {cause}", text])))


def clean(folder: CampaignFolder, point: CampaignPoint, attempt: Attempt) -> Attempt:
    """Write down that an attempt has died whose conductor died too, and remove what it left."""
    path = folder.of(point)
    attempt.clear()
    for half in path.glob(".*"):
        half.unlink(missing_ok=True)
    return attempt.ended(DIED, "its process was killed, or the machine went down").keep(path)
