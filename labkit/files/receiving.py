"""One file from a host: whole or not at all, never more than was asked for, and checked."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from labkit.errors import TimedOut, Unreachable
from labkit.files import scripts
from labkit.files.arrival import Arrival
from labkit.files.blocks import Blocks, Piece, digest, hash_of
from labkit.files.copied import SMALL, Copied, first_words, surviving
from labkit.files.lanes import Lanes, Meter, Tell, Work
from labkit.files.pipe import CHUNK, Carries, Pipe
from labkit.files.place import Place

MOST_IN_MEMORY = 128 << 20
_LOOK = re.compile(r"\d+ \d+ \d+ [0-9a-f]+")


def get(
    host: Carries, path: str, *, most: int = MOST_IN_MEMORY, beneath: str = "", follow: bool = False
) -> bytes:
    """The bytes of a file, no more than `most`; a link is read through only with `follow`."""
    place = Place.at(host.name, path, beneath)
    return surviving(lambda gained: whole(host, place, most, follow))


def whole(host: Carries, place: Place, most: int, follow: bool) -> bytes:
    """The bytes of a file in one go, hashed on the host as they are read there."""
    words = scripts.words(scripts.WHOLE, *place.folder, place.name, "yes" if follow else "")
    with host.raw(*words) as pipe:
        content = bytearray()
        while part := pipe.recv(CHUNK):
            content += part
            if len(content) > most:
                raise place.refused(
                    "hold", f"it has more than {most} bytes", "get_file writes it to a file"
                )
        code, said = pipe.ended()
    if code or len(said.splitlines()) != 1:
        raise place.refused("read", said, _link_hint(said))
    if said.split()[0] not in (digest("sha256", content), digest("cksum", content)):
        raise place.damaged("read")
    return bytes(content)


def get_file(
    host: Carries,
    path: str,
    to: Path,
    *,
    beneath: str = "",
    follow: bool = False,
    tell: Tell | None = None,
) -> Copied:
    """Copy a file of the host to the local file `to`, whose folder exists."""
    begun, place = time.monotonic(), Place.at(host.name, path, beneath)
    size, sent, kind = received(host, place, to, follow=follow, tell=tell)
    return Copied(path, 1, size, sent, kind, time.monotonic() - begun)


def received(
    host: Carries, place: Place, to: Path, *, follow: bool = False, again: bool = False,
    tell: Tell | None = None,
) -> tuple[int, int, str]:  # fmt: skip
    """Copy it; its size, how much was sent, and the hash. `again`: what is there may be it."""
    return surviving(_Download(host, place, to, follow, tell, again).once)


@dataclass
class _Download:
    host: Carries
    place: Place
    to: Path
    follow: bool
    tell: Tell | None
    again: bool = False
    lacked: int = -1
    sent: int = 0

    def once(self, gained: Callable[[], None]) -> tuple[int, int, str]:
        kind, look = self.look()
        size, mode = int(look.split()[0]), int(look.split()[3], 16) & 0o777
        meter = Meter(self.place.path, size, self.tell, sent=self.sent)
        identity = f"{self.host.name} {self.place.path} {look}"
        with Arrival(self.to, identity, size, self.again) as part:
            try:
                if size <= SMALL:  # that of a file of the kernel says nothing
                    content = whole(self.host, self.place, MOST_IN_MEMORY, self.follow)
                    size = part.fill(content)
                    meter.add(size)
                else:
                    self.fetch(part, _Sliced(self.place, kind, look), meter, gained)
                part.commit(mode)
            except (Unreachable, TimedOut):
                raise
            except BaseException:
                part.drop()
                raise
            finally:
                self.sent = meter.sent
        return size, meter.sent, kind

    def look(self) -> tuple[str, str]:
        words = scripts.words(scripts.LOOK, *self.named)
        lines = self.place.ask(self.host, "read", words)
        if len(lines) != 2 or not _LOOK.fullmatch(lines[1]):
            raise self.place.refused("read", "the host sent an answer that was not asked for")
        return lines[0], lines[1]

    @property
    def named(self) -> tuple[str, ...]:
        return (*self.place.folder, self.place.name, "yes" if self.follow else "")

    def fetch(
        self, part: Arrival, sliced: _Sliced, meter: Meter, gained: Callable[[], None]
    ) -> None:
        lacking = self.lacking(part, meter.of, sliced.kind)
        if len(lacking) < self.lacked:
            gained()
        self.lacked = len(lacking)
        blocks = Blocks(meter.of)
        meter.there(blocks.size - blocks.total(lacking))
        lanes = Lanes.down(self.host)
        lanes.run(
            Work(
                scripts.words(scripts.SLICE, *self.named, *piece.units,
                              "yes" if piece.size == meter.of else ""),
                partial(sliced.receive, part, piece, meter),
            )
            for piece in blocks.pieces(lacking, lanes.shares)
        )  # fmt: skip

    def lacking(self, part: Arrival, size: int, kind: str) -> list[int]:
        theirs: list[str] = []
        if part.there:
            words = scripts.words(scripts.HASHES, *self.named, *Blocks(size).words)
            lines = self.place.ask(self.host, "read", words)
            theirs = first_words(lines)
        part.grow(size)
        return Blocks(size).lacking(part.read, kind, theirs)


@dataclass(frozen=True)
class _Sliced:
    place: Place
    kind: str
    look: str

    # What comes goes to its place, no more than was asked for; then the hashes are compared.
    def receive(self, part: Arrival, piece: Piece, meter: Meter, pipe: Pipe) -> None:
        at, end, received = piece.start, piece.start + piece.size, hash_of(self.kind)
        while content := pipe.recv(CHUNK):
            if at + len(content) > end:
                raise self.place.refused("read", "the host sent more than it was asked for")
            part.write(at, content)
            received.update(content)
            at += len(content)
            meter.add(len(content))
        code, said = pipe.ended()
        theirs, *rest = said.splitlines() or [""]
        if code:
            raise self.place.refused("read", said)
        if at < end:
            raise self.place.refused("read", "the host sent less than it was asked for")
        if first_words([theirs]) != [received.hexdigest()] or rest != [self.look]:
            raise self.place.damaged("read")


def _link_hint(said: str) -> str:
    return "follow=True reads what it points to" if "it is a link" in said else ""
