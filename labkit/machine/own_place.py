"""Folders of ours in places that all users share: the check for hosts, and its twin for here."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from labkit.machine.scripts import beside

OWN_PLACE = beside(__file__, "own_place.sh")
"""The function `own_place FOLDER MODE`, for scripts that hosts run."""
MAKE = OWN_PLACE + 'place=$1-$(id -u); own_place "$place" 711 && echo "$place"'
VOLATILE, LASTING = "/tmp/labkit", "/var/tmp/labkit"
"""Beginnings of the names of labkit's folders on hosts: one may go with a reboot, one stays."""


def words(beginning: str = VOLATILE) -> tuple[str, ...]:
    """The command that makes and checks the folder of the host's user, and prints its name."""
    return ("sh", "-c", MAKE, "labkit", beginning)


def is_ours(folder: Path) -> bool:
    """Whether it is a folder of this user, no link, and nobody else may write to it."""
    with suppress(OSError):
        status = folder.lstat()
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        return is_own and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return False


@contextmanager
def temporary(beginning: str, below: Path | None = None) -> Iterator[Path]:
    """A folder of this process, gone with the block; those that killed processes left go first."""
    # Nobody who was killed has taken his folder away.
    for folder in Path(tempfile.gettempdir()).glob(f"{beginning}*-*"):
        pid = folder.name.removeprefix(beginning).partition("-")[0]
        lives = Path("/proc", pid).exists() or not Path("/proc/self").exists()
        if pid.isdecimal() and is_ours(folder) and not lives:
            shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{beginning}{os.getpid()}-", dir=below) as made:
        yield Path(made)
