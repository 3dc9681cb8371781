"""Remembers refused logins, so that no account is locked by trying again and again."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import LoginRefused
from labkit.machine import account
from labkit.ssh.address import Target

PAUSE_SECONDS = 60.0


@dataclass(frozen=True)
class Refusals:
    """One empty file for each user and address that refused us; its time is when it did.

    Files, for the next attempt may come from another notebook. Where none can be written nothing
    is remembered, and each call still makes one attempt only.
    """

    folder: str

    @classmethod
    def of_user(cls) -> Refusals:
        """The refusals of the user who runs labkit."""
        return cls(os.path.join(account.state(), "refused-logins"))

    def check(self, target: Target) -> None:
        """Raise while the pause after a refused login lasts."""
        with suppress(OSError):
            moment = os.stat(self._file(target)).st_mtime
            if 0 <= time.time() - moment < PAUSE_SECONDS:
                raise LoginRefused(
                    f"{target.name}: {target} refused a login at {_clock(moment)};"
                    f" not tried again before {_clock(moment + PAUSE_SECONDS)}",
                    hint="repeated failures lock accounts; correct the cause first,"
                    f" or, to try at once, remove {self._file(target)}",
                )

    def remember(self, target: Target) -> None:
        """Begin the pause."""
        with suppress(OSError):
            Path(self.folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            Path(self._file(target)).touch(mode=0o600)

    def forget(self, target: Target) -> None:
        """End the pause: a login has worked."""
        with suppress(OSError):
            os.unlink(self._file(target))

    def _file(self, target: Target) -> str:
        return f"{self.folder}/{hashlib.sha256(str(target).encode()).hexdigest()[:32]}"


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))
