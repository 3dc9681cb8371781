"""The user who runs labkit; a container may run it as a number that no account has."""

import getpass
import os
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path


def name() -> str:
    """The login name, or the number of a user who has no account here."""
    with suppress(KeyError, OSError):
        return getpass.getuser()
    return str(os.geteuid())


def home() -> Path:
    """The home folder; without one, what Debian gives to such users: it never exists."""
    path = os.path.expanduser("~")
    return Path(path if path != "~" else "/nonexistent")


def state() -> Path:
    """The folder for labkit's files that are this user's own (XDG base directories)."""
    return _labkit_in(os.environ.get("XDG_STATE_HOME") or f"{home()}/.local/state")


def cache() -> Path:
    """The folder that keeps for this user what can be made again (XDG base directories)."""
    return _labkit_in(os.environ.get("XDG_CACHE_HOME") or f"{home()}/.cache")


def kept(name: str, make: Callable[[Path], object]) -> Path:
    """A file of this cache; where it is not there, `make` writes it, and it appears whole."""
    file = cache() / name
    if not file.exists():
        file.parent.mkdir(0o700, parents=True, exist_ok=True)
        beside = file.with_suffix(f".{os.getpid()}")
        make(beside)
        beside.replace(file)
    return file


# Each login asks for it.
@lru_cache(maxsize=4)
def _labkit_in(folder: str) -> Path:
    return Path(folder) / "labkit"
