"""One file to a host: whole or not at all, and checked there."""

import hashlib
import secrets
import stat
from pathlib import Path

from labkit.errors import BadInput, HostError, command_line, readable
from labkit.files.pipe import Carries
from labkit.files.place import Place, twice
from labkit.machine.scripts import beside

SECONDS = 3600.0
"""A large file takes its time to be sent and hashed."""
# folder name temporary mode KiB size sha256
PUT = beside(__file__, "put.sh")


def put(host: Carries, content: bytes | Path, path: str, mode: int | None = None) -> None:
    """Write `content` to `path`; the mode of a local file goes with it unless one is given."""
    place = Place.at(host.name, path)
    size, digest, own_mode = _looked_at(content)
    permissions = own_mode if mode is None else mode

    def send() -> None:
        words = place.words(
            PUT, f".labkit-{secrets.token_hex(6)}", f"{permissions:o}", str(-(-size // 1024)),
            str(size), digest,
        )  # fmt: skip
        _send(host, place, words, content)

    twice(send)


def _send(host: Carries, place: Place, words: tuple[str, ...], content: bytes | Path) -> None:
    try:
        result = host.run(*words, stdin=content, seconds=SECONDS)
    except HostError as error:  # nobody wants to read the script
        problem = error.what.replace(readable(command_line(words)), f"the copying of {place.path}")
        raise type(error)(problem, said=error.said, hint=error.hint) from error
    if result.code:
        hint = ""
        if "it arrived damaged" in result.stderr:
            hint = "did it change while it was copied? otherwise suspect a disk or its memory"
        raise place.refused("write", result.stderr or f"it ended with code {result.code}", hint)


def _looked_at(content: bytes | Path) -> tuple[int, str, int]:
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
