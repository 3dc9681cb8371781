"""One file to a host, or from it: whole or not at all, and checked on both sides."""

from __future__ import annotations

import random
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from labkit.errors import LabkitError, TimedOut, Unreachable
from labkit.files import scripts
from labkit.files.arrival import Arrival
from labkit.files.blocks import Blocks, Piece, Source, digest, hash_of
from labkit.files.lanes import Lanes, Meter, Tell, Work
from labkit.files.pipe import CHUNK, Carries, Pipe
from labkit.files.place import Place

SMALL = 1 << 20
"""What goes in one command: a round trip or two, and no stage."""
MOST_IN_MEMORY = 256 << 20
IN_A_ROW = 3
"""So often the connection may be lost in a row, with nothing gained, before it is an error."""
GO_ON = "copy it again: what is there already is kept, checked and not sent twice"
_LOOK = re.compile(r"\d+ \d+ \d+ [0-9a-f]+")
T = TypeVar("T")


@dataclass(frozen=True)
class Copied:
    """What was copied; `sent` is less than `size` when some of it was there from an earlier try."""

    path: str
    files: int
    size: int
    sent: int
    verified_by: str
    seconds: float
    left_out: tuple[str, ...] = ()


def put(
    host: Carries,
    content: bytes | Path,
    path: str,
    mode: int | None = None,
    *,
    beneath: str = "",
    tell: Tell | None = None,
) -> Copied:
    """Write `content` to `path`; the mode of a local file goes with it unless one is given."""
    begun, place = time.monotonic(), Place.at(host.name, path, beneath)
    with Source(content) as source:
        meter = Meter(path, source.size, tell)
        upload = _Upload(host, place, source, source.mode if mode is None else mode, meter)
        kind = upload.small() if source.size <= SMALL else upload.large()
    return Copied(path, 1, source.size, meter.sent, kind, time.monotonic() - begun)


def get(
    host: Carries, path: str, *, most: int = MOST_IN_MEMORY, beneath: str = "", follow: bool = False
) -> bytes:
    """The bytes of a file, no more than `most`; a link is read through only with `follow`."""
    place = Place.at(host.name, path, beneath)
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
    whole = bytes(content)
    if said.split()[0] not in (digest("sha256", whole), digest("cksum", whole)):
        raise place.damaged("read")
    return whole


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
    download = _Download(host, place, to, follow, tell)
    size, sent, kind = surviving(download.once)
    return Copied(path, 1, size, sent, kind, time.monotonic() - begun)


def surviving(once: Callable[[Callable[[], None]], T]) -> T:
    """Do it again after the connection was lost, as long as something was gained meanwhile."""
    lost_in_a_row = 0

    def gained() -> None:
        nonlocal lost_in_a_row
        lost_in_a_row = 0

    while True:
        try:
            return once(gained)
        except Unreachable as lost:
            lost_in_a_row += 1
            if lost_in_a_row == IN_A_ROW:
                raise Unreachable(lost.what, said=lost.said, hint=GO_ON) from lost
            time.sleep(0.2 * 2**lost_in_a_row * random.uniform(0.5, 1.0))


def send_piece(
    pipe: Pipe, source: Source, piece: Piece, to: Place, kind: str, meter: Meter
) -> None:
    """Send a piece, and see that the host found the hash of what was sent."""
    sent = hash_of(kind)
    for chunk in source.chunks(piece):
        if not pipe.send(chunk):
            break
        sent.update(chunk)
        meter.add(len(chunk))
    pipe.finish()
    if answered(pipe, "write", to) != [sent.hexdigest()]:
        raise to.damaged("write")


def answered(pipe: Pipe, doing: str, place: Place) -> list[str]:
    """The first word of each line that a command prints, when it ends well."""
    said = bytearray()
    while part := pipe.recv(CHUNK):
        said += part
        if len(said) > CHUNK:
            raise place.refused(doing, "the host answers more than it was asked")
    code, complaint = pipe.ended()
    if code:
        raise place.refused(doing, complaint or f"it ended with code {code}")
    return first_words(said.decode("ascii", "replace").splitlines())


def first_words(lines: list[str]) -> list[str]:
    """A hash is the first word of its line; what follows depends on the tool."""
    return [(line.split() or [""])[0] for line in lines]


@dataclass
class _Upload:
    host: Carries
    place: Place
    source: Source
    mode: int
    meter: Meter
    lacked: int = -1

    def small(self) -> str:
        whole = bytes(self.source.read(0, self.source.size))
        temporary = f".labkit-{secrets.token_hex(6)}"
        words = scripts.words(
            scripts.SMALL, *self.place.folder, self.place.name, temporary, f"{self.mode:o}",
            _kib(len(whole)), str(len(whole)), digest("sha256", whole), digest("cksum", whole),
        )  # fmt: skip
        lines = self.place.ask(self.host, "write", words, stdin=whole)
        self.meter.add(len(whole))
        return lines[0]

    def large(self) -> str:
        stage = self.place.stage(self.source.identity)
        try:
            return surviving(lambda gained: self.once(stage, gained))
        except (Unreachable, TimedOut):
            raise
        except BaseException:
            with suppress(LabkitError):
                self.host.run(*scripts.words(scripts.DROP, *self.place.folder, stage))
            raise

    def once(self, stage: str, gained: Callable[[], None]) -> str:
        identity = self.source.identity
        blocks = Blocks(self.source.size)
        kind, where, there = self.planned(stage, blocks)
        lacking = blocks.lacking(self.source.read, kind, there)
        if where == "target" and not lacking:
            return kind
        if len(lacking) < self.lacked:
            gained()
        self.lacked = len(lacking)
        self.meter.there(blocks.size - blocks.total(lacking))
        lanes = Lanes.up(self.host)
        parts = blocks.pieces(lacking, lanes.shares)
        lanes.run(self.work(piece, stage, kind) for piece in parts)
        if self.source.identity != identity:
            raise self.place.refused("write", "the local file changed while it was sent")
        self.commit(stage)
        return kind

    # A commit whose answer was lost may have been done: then the target is what we want.
    def planned(self, stage: str, blocks: Blocks) -> tuple[str, str, list[str]]:
        words = scripts.words(
            scripts.PLAN, *self.place.folder, self.place.name, stage, _kib(blocks.size),
            str(blocks.size), *blocks.words, "yes" if self.lacked >= 0 else "",
        )  # fmt: skip
        lines = self.place.ask(self.host, "write", words)
        kind, where, *there = first_words(lines if len(lines) > 1 else [*lines, "nothing"])
        return kind, where, there

    def work(self, piece: Piece, stage: str, kind: str) -> Work:
        words = scripts.words(scripts.PIECE, *self.place.folder, stage, "part", *piece.units)
        return Work(words, lambda pipe: send_piece(
            pipe, self.source, piece, self.place, kind, self.meter
        ))  # fmt: skip

    def commit(self, stage: str) -> None:
        words = scripts.words(
            scripts.COMMIT, *self.place.folder, stage, self.place.name, f"{self.mode:o}",
            str(self.source.size),
        )  # fmt: skip
        self.place.ask(self.host, "write", words)


@dataclass
class _Download:
    host: Carries
    place: Place
    to: Path
    follow: bool
    tell: Tell | None
    lacked: int = -1

    def once(self, gained: Callable[[], None]) -> tuple[int, int, str]:
        kind, look = self.look()
        size, mode = int(look.split()[0]), int(look.split()[3], 16) & 0o777
        meter = Meter(self.place.path, size, self.tell)
        with Arrival(self.to, f"{self.host.name} {self.place.path} {look}", size) as part:
            try:
                if size == 0:  # a file of the kernel has no size, yet bytes
                    part.write(0, get(self.host, self.place.path, follow=self.follow))
                    size = meter.sent = part.there
                else:
                    self.fetch(part, _Sliced(self.place, kind, look), meter, gained)
                part.commit(mode)
            except (Unreachable, TimedOut):
                raise
            except BaseException:
                part.drop()
                raise
        return size, meter.sent, kind

    def look(self) -> tuple[str, str]:
        words = scripts.words(scripts.LOOK, *self.named)
        lines = self.place.ask(self.host, "read", words)
        if len(lines) != 2 or not _LOOK.fullmatch(lines[1]):
            raise self.place.refused("read", "the host answers what it was not asked")
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
                raise self.place.refused("read", "the host sends more than it was asked for")
            part.write(at, content)
            received.update(content)
            at += len(content)
            meter.add(len(content))
        code, said = pipe.ended()
        theirs, *rest = said.splitlines() or [""]
        if code:
            raise self.place.refused("read", said)
        if first_words([theirs]) != [received.hexdigest()] or rest != [self.look]:
            raise self.place.damaged("read")


def _kib(size: int) -> str:
    return str(-(-size // 1024))


def _link_hint(said: str) -> str:
    return "follow=True reads what it points to" if "it is a link" in said else ""
