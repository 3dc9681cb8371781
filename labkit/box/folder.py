"""The folders of boxes' files, and the locks that keep two processes from making the same box."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from labkit.errors import BoxError
from labkit.lab import held_by
from labkit.machine.own_place import is_ours

BOXES = Path("/run/labkit")
SCRATCH = Path("/var/tmp")
Tell = Callable[[str], None]


class Folder:
    """The files of one box."""

    def __init__(self, name: str) -> None:
        self.name, self.path = name, BOXES / name
        self.lock = BOXES / f"{name}.lock"
        """Held by the one who brings the box up or takes it down."""
        self.layout = self.path / "box.json"
        """Written first: what the box is going to be."""
        self.pids = self.path / "pids.json"
        """The process that holds the namespaces of each host, and of the switch."""
        self.lab = self.path / "lab.toml"
        """Written last, so a box that has one was complete."""
        self.key = self.path / "key"
        """The private key that opens every host of the box."""
        self.known_hosts = self.path / "known_hosts"
        self.links = self.path / "links.json"
        """The links that are shaped: what was asked, and what was measured."""
        self.scratch = SCRATCH / f"labkit-box-{name}"
        """On a disk, where `path` may be in memory: what hosts and guests write to be measured."""

    @property
    def has_scratch(self) -> bool:
        """Whether it is there, and ours: everybody may write beside it."""
        return is_ours(self.scratch)

    @property
    def disks(self) -> Path:
        """The disks of guests, a folder for each guest; on a disk where any host has a scratch."""
        return (self.scratch if self.has_scratch else self.path) / "disks"

    def held(self, stem: str) -> Path:
        """The file that a relay keeps locked for as long as it runs, with its process number."""
        return self.path / held_by(stem)

    def log(self, role: str) -> Path:
        """The log of a host's first process and its sshd."""
        return self.path / f"{role}.log"

    def make(self) -> None:
        """Make the folder; others may pass through it but not list it."""
        self.path.mkdir()
        self.path.chmod(0o711)

    def write(self, file: Path, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file whole or not at all, for the user who asked for the box."""
        beside = file.with_name(f"{file.name}.new")
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as out:
            os.fchmod(out.fileno(), mode)
            out.write(content.encode() if isinstance(content, str) else content)
        owner = int(os.environ.get("SUDO_UID", "0"))
        os.chown(beside, owner, int(os.environ.get("SUDO_GID", "0")) if owner else 0)
        beside.replace(file)

    def remove(self) -> None:
        """Remove the files of the box."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)
        if self.has_scratch:
            shutil.rmtree(self.scratch)

    def unlock_for_good(self) -> None:
        """Remove the lock file, and the folder of all boxes when this was the last."""
        self.lock.unlink(missing_ok=True)
        with suppress(OSError):
            BOXES.rmdir()

    # Whoever takes the box down removes the lock file, so what we locked may be nobody's by then.
    @contextmanager
    def locked(self, tell: Tell) -> Iterator[None]:
        """Keep every other labkit off this box."""
        words = f"another labkit is working on box {self.name}; waiting for it"
        while True:
            with _flocked(self._opened_lock(), lambda: tell(words)) as descriptor:
                if _is_at(descriptor, self.lock):
                    yield
                    return

    # A user who asked by sudo passes through the folder too, with whatever umask that was.
    def _opened_lock(self) -> int:
        while True:
            with suppress(FileExistsError):
                BOXES.mkdir()
                BOXES.chmod(0o755)
            with suppress(FileNotFoundError):
                return os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)


def all_boxes(folder: Path = BOXES) -> AbstractContextManager[int]:
    """Keep two boxes from choosing the same subnets; `folder` holds them all."""
    return _flocked(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), lambda: None)


@contextmanager
def _flocked(descriptor: int, waits: Callable[[], None]) -> Iterator[int]:
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, file: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), file.stat())
    return False


def not_up(name: str) -> BoxError:
    """The error to raise if a box is needed but not up; it says how to bring up this very one."""
    return BoxError(f"box {name} is not up", hint=up_again(name))


def up_again(name: str) -> str:
    """The command that brings a box of this name up."""
    return "labkit box up" if name == "lab" else f"labkit box up --name {name}"
