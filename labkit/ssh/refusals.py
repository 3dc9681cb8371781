"""Remembers refused logins, so that no account is locked by trying again and again.

There is one empty file for each user and address that refused us; its time is when it did. Files,
for the next attempt may come from another notebook. Where none can be written nothing is
remembered, and each call still makes one attempt only.
"""

import hashlib
import time
from contextlib import suppress
from pathlib import Path

from labkit.errors import LoginRefused
from labkit.machine import account
from labkit.ssh.address import Target

PAUSE_SECONDS = 60.0


def check(target: Target) -> None:
    """Raise while the pause after a refused login lasts."""
    with suppress(OSError):
        moment = _file(target).stat().st_mtime
        if 0 <= time.time() - moment < PAUSE_SECONDS:
            raise LoginRefused(
                f"{target.name}: {target} refused a login at {_clock(moment)};"
                f" not tried again before {_clock(moment + PAUSE_SECONDS)}",
                hint="repeated failures lock accounts; correct the cause first,"
                f" or, to try at once, remove {_file(target)}",
            )


def remember(target: Target) -> None:
    """Begin the pause."""
    with suppress(OSError):
        _file(target).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _file(target).touch(mode=0o600)


def forget(target: Target) -> None:
    """End the pause: a login has worked."""
    with suppress(OSError):
        _file(target).unlink()


def _file(target: Target) -> Path:
    name = hashlib.sha256(str(target).encode()).hexdigest()[:32]
    return Path(account.state(), "refused-logins", name)


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))
