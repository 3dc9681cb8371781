"""One file to a host: whole or not at all, and checked there."""

import secrets
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import BadInput, HostError, readable
from labkit.files.hashes import Hashes
from labkit.files.pipe import CHUNK, Carries
from labkit.files.place import Place, twice
from labkit.machine.scripts import beside

SECONDS = 3600.0
"""A large file takes its time to be sent and hashed."""
# folder name temporary mode KiB size sha256 cksum
PUT = beside(__file__, "put.sh")


@dataclass(frozen=True)
class Copied:
    """A finished copy: its path on the host, its bytes, and the hash that both sides compared."""

    path: str
    size: int
    verified_by: str


def put(host: Carries, content: bytes | Path, path: str, mode: int | None = None) -> Copied:
    """Write `content` to `path`; the mode of a local file goes with it unless one is given."""
    place = Place.at(host.name, path)
    hashes, own_mode = _looked_at(content)
    permissions = own_mode if mode is None else mode

    def send() -> str:
        words = place.words(
            PUT, f".labkit-{secrets.token_hex(6)}", f"{permissions:o}",
            str(-(-hashes.size // 1024)), str(hashes.size), hashes.sha256, hashes.cksum,
        )  # fmt: skip
        return _answer(host, place, words, content)

    return Copied(path, hashes.size, twice(send).strip())


def _answer(host: Carries, place: Place, words: tuple[str, ...], content: bytes | Path) -> str:
    try:
        result = host.run(*words, stdin=content, seconds=SECONDS)
    except HostError as error:  # nobody wants to read the script
        problem = error.what.replace(readable(shlex.join(words)), f"the copying of {place.path}")
        raise type(error)(problem, said=error.said, hint=error.hint) from error
    if result.code:
        hint = ""
        if "it arrived damaged" in result.stderr:
            hint = "did it change while it was copied? otherwise suspect a disk or its memory"
        raise place.refused("write", result.stderr or f"it ended with code {result.code}", hint)
    return result.stdout


def _looked_at(content: bytes | Path) -> tuple[Hashes, int]:
    hashes = Hashes()
    if isinstance(content, bytes):
        hashes.update(content)
        return hashes, 0o644
    if not isinstance(content, Path):
        raise BadInput(f"{content!r:.60} cannot be copied", hint="give bytes or a Path")
    try:
        status = content.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for without end
            raise BadInput(f"{content} is not a regular file", hint="pack a folder with tar first")
        with content.open("rb") as file:
            while part := file.read(CHUNK):
                hashes.update(part)
    except OSError as error:
        raise BadInput(f"cannot read {content}", said=str(error)) from None
    return hashes, status.st_mode & 0o777
