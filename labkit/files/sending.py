"""One file to a host: whole or not at all, and checked there."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from labkit.errors import LabkitError, TimedOut, Unreachable
from labkit.files import scripts
from labkit.files.blocks import Blocks, Piece, Source, digest, hash_of
from labkit.files.copied import SMALL, Copied, answered, first_words, surviving
from labkit.files.lanes import Lanes, Meter, Tell, Work
from labkit.files.pipe import Carries, Pipe
from labkit.files.place import Place


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
        kind = surviving(upload.small) if source.size <= SMALL else upload.large()
    return Copied(path, 1, source.size, meter.sent, kind, time.monotonic() - begun)


def send_piece(
    source: Source, piece: Piece, to: Place, kind: str, meter: Meter, pipe: Pipe
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


@dataclass
class _Upload:
    host: Carries
    place: Place
    source: Source
    mode: int
    meter: Meter
    lacked: int = -1

    def small(self, gained: Callable[[], None]) -> str:
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
            return surviving(partial(self.once, stage))
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
        words = scripts.words(scripts.PIECE, *self.place.below(stage), "part", *piece.units)
        return Work(words, partial(send_piece, self.source, piece, self.place, kind, self.meter))

    def commit(self, stage: str) -> None:
        words = scripts.words(
            scripts.COMMIT, *self.place.folder, stage, self.place.name, f"{self.mode:o}",
            str(self.source.size),
        )  # fmt: skip
        self.place.ask(self.host, "write", words)


def _kib(size: int) -> str:
    return str(-(-size // 1024))
