"""One file to a host or from it: whole or not at all, and checked on both sides."""

from __future__ import annotations

import hashlib
import posixpath
import re
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from labkit.errors import BadInput, CopyFailed, NothingRun, OutcomeUnknown, sendable
from labkit.files.pipe import Carries
from labkit.machine.scripts import beside

PROGRAMS = ("openssl",)

T = TypeVar("T")
MOST_IN_MEMORY = 128 << 20
SEND_SECONDS = 3600.0
"""A large file takes its time to be sent and hashed."""
DAMAGE = "did it change while it was copied? otherwise suspect a disk or its memory"
# Each begins with folder and name; put goes on with temporary, mode, KiB, size and sha256, and get
# with follow. It prints the bytes, and their hash on stderr.
START, PUT, GET = (beside(__file__, f"copying_{part}.sh") for part in ("start", "put", "get"))


@dataclass(frozen=True)
class Place:
    """A path on a host that can name a file."""

    host: Carries
    path: str

    def __post_init__(self) -> None:
        if posixpath.basename(self.path) in ("", ".", "..") or not sendable(self.path):
            problem = f"{self.host.name}: {self.path!r} names no file"
            raise BadInput(problem, hint="end it with a file's name")

    def words(self, script: str, *arguments: str) -> tuple[str, ...]:
        """The command that runs one of our scripts on it: POSIX sh, and tools of BusyBox."""
        folder, name = posixpath.split(self.path)
        # A folder's name may begin with a dash.
        folder = folder if folder.startswith("/") else f"./{folder or '.'}"
        return ("sh", "-c", START + script, "labkit", folder, name, *arguments)

    def refused(self, verb: str, text: str, hint: str = "") -> CopyFailed:
        """The error for a place that cannot be written or read; `said` are the host's words."""
        words = re.sub(r"^(labkit|sh): (\d+: |line \d+: )?", "", text, flags=re.M)
        return CopyFailed(f"{self.host.name}: cannot {verb} {self.path}", said=words, hint=hint)


def put(host: Carries, content: bytes | Path, path: str, mode: int | None = None) -> None:
    """Write `content` to `path`; the mode of a local file goes with it unless one is given."""
    place = Place(host, path)
    size, digest, own_mode = _look_at(content)
    permissions = own_mode if mode is None else mode

    def send() -> None:
        words = place.words(
            PUT, f".labkit-{secrets.token_hex(6)}", f"{permissions:o}", str(-(-size // 1024)),
            str(size), digest,
        )  # fmt: skip
        result = host.run(*words, stdin=content, seconds=SEND_SECONDS)
        if result.code:
            hint = DAMAGE if "it arrived damaged" in result.stderr else ""
            raise place.refused("write", result.stderr or f"it ended with code {result.code}", hint)

    _twice(send)


def get(host: Carries, path: str, *, most: int = MOST_IN_MEMORY, follow: bool = False) -> bytes:
    """The bytes of a file, no more than `most`; a link is read through only with `follow`."""
    place = Place(host, path)

    def receive() -> bytes:
        content = bytearray()
        with host.raw(*place.words(GET, "yes" if follow else "")) as pipe:
            while part := pipe.recv():
                content += part
                if len(content) > most:
                    text = f"it has more than {most} bytes"
                    raise place.refused("hold", text, "allow more with most=")
            code, text = pipe.ended()
        if code or len(text.splitlines()) != 1:
            hint = "follow=True reads what it points to" if "it is a link" in text else ""
            raise place.refused("read", text, hint)
        if text.split()[:1] != [hashlib.sha256(content).hexdigest()]:
            raise place.refused("read", "the hashes of both sides differ", DAMAGE)
        return bytes(content)

    return _twice(receive)


# Once more if the connection was lost: a copy is whole or not at all.
def _twice(copy: Callable[[], T]) -> T:
    try:
        return copy()
    except (NothingRun, OutcomeUnknown):
        return copy()


def _look_at(content: bytes | Path) -> tuple[int, str, int]:
    if isinstance(content, bytes):
        return len(content), hashlib.sha256(content).hexdigest(), 0o644
    if not isinstance(content, Path):
        raise BadInput(f"{content!r:.60} cannot be copied", hint="give bytes or a Path")
    try:
        status = content.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for without end
            raise BadInput(f"{content} is not a regular file", hint="pack a folder with tar first")
        with content.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return file.tell(), digest, status.st_mode & 0o777
    except OSError as error:
        raise BadInput(f"cannot read {content}", said=str(error)) from None
