"""The folders of boxes' files, and the locks that keep two processes from making the same box."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import BoxError
from labkit.lab import held_by
from labkit.machine.own_place import is_ours

BOXES = Path("/run/labkit")
SCRATCH = Path("/var/tmp")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Folder:
    """The files of one box."""

    name: str

    @property
    def path(self) -> Path:
        """The folder itself."""
        return BOXES / self.name

    @property
    def lock(self) -> Path:
        """Held by the one who brings the box up or takes it down."""
        return BOXES / f"{self.name}.lock"

    @property
    def layout(self) -> Path:
        """Written first: what the box is going to be."""
        return self.path / "box.json"

    @property
    def pids(self) -> Path:
        """The process that holds the namespaces of each host, and of the switch."""
        return self.path / "pids.json"

    @property
    def lab(self) -> Path:
        """The lab.toml; written last, so a box that has one was complete."""
        return self.path / "lab.toml"

    @property
    def key(self) -> Path:
        """The private key that opens every host of the box."""
        return self.path / "key"

    @property
    def known_hosts(self) -> Path:
        """The public keys of the hosts."""
        return self.path / "known_hosts"

    @property
    def links(self) -> Path:
        """The links that are shaped: what was asked, and what was measured."""
        return self.path / "links.json"

    @property
    def scratch(self) -> Path:
        """On a disk, where `path` may be in memory: what hosts and guests write to be measured."""
        return SCRATCH / f"labkit-box-{self.name}"

    @property
    def has_scratch(self) -> bool:
        """Whether it is there, and ours: everybody may write beside it."""
        return is_ours(self.scratch)

    @property
    def disks(self) -> Path:
        """The disks of guests, a folder for each guest; on a disk where any host has a scratch."""
        return (self.scratch if self.has_scratch else self.path) / "disks"

    def relay(self, stem: str) -> Path:
        """The file of what a relay is asked for; that of its process stands beside it."""
        return self.path / f"relay-{stem}.json"

    def held(self, stem: str) -> Path:
        """The file that a relay keeps locked for as long as it runs."""
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

    @contextmanager
    def locked(self, tell: Tell) -> Iterator[None]:
        """Keep every other labkit off this box."""
        descriptor = self._take(tell)
        try:
            yield
        finally:
            os.close(descriptor)

    # Whoever takes the box down removes the lock file, so what we locked may be nobody's by then.
    def _take(self, tell: Tell) -> int:
        while True:
            _make_boxes()
            with suppress(FileNotFoundError):
                descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
                try:
                    self._wait(descriptor, tell)
                    if os.fstat(descriptor).st_ino == os.stat(self.lock).st_ino:
                        return descriptor
                except BaseException as error:
                    os.close(descriptor)
                    if not isinstance(error, FileNotFoundError):
                        raise
                else:
                    os.close(descriptor)

    def _wait(self, descriptor: int, tell: Tell) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"another labkit is working on box {self.name}; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)


# A user who asked by sudo passes through it too, with whatever umask that was.
def _make_boxes() -> None:
    with suppress(FileExistsError):
        BOXES.mkdir()
        BOXES.chmod(0o755)


@contextmanager
def all_boxes() -> Iterator[None]:
    """Keep two boxes from choosing the same subnets."""
    descriptor = os.open(BOXES, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def not_up(name: str) -> BoxError:
    """The error to raise if a box is needed but not up; it says how to bring up this very one."""
    return BoxError(f"box {name} is not up", hint=up_again(name))


def up_again(name: str) -> str:
    """The command that brings a box of this name up."""
    return "labkit box up" if name == "lab" else f"labkit box up --name {name}"
