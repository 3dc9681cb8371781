"""A folder to a host: made ready beside its place, checked there, then put in it at once."""

from __future__ import annotations

import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from labkit.errors import BadInput, CopyFailed, LabkitError, TimedOut, Unreachable
from labkit.files import listing, scripts
from labkit.files.blocks import Blocks, Piece, Source, hash_of
from labkit.files.copied import Copied, answered, first_words, surviving
from labkit.files.lanes import Lanes, Meter, Tell, Work
from labkit.files.listing import SMALL_FILE, Entry, Listing, batches
from labkit.files.pipe import CHUNK, Carries, Pipe
from labkit.files.place import Place
from labkit.files.sending import send_piece


def put_tree(
    host: Carries,
    source: Path,
    path: str,
    *,
    replace: bool = False,
    skip_others: bool = False,
    beneath: str = "",
    tell: Tell | None = None,
) -> Copied:
    """Copy the folder `source` to `path`, which is not there yet, or is to be replaced whole."""
    begun, place = time.monotonic(), Place.at(host.name, path, beneath)
    if not source.is_dir():
        raise BadInput(f"{source} is not a folder", hint="a file is copied by put")
    listed = listing.local(source).without_others(str(source), skip_others)
    meter = Meter(path, listed.size, tell)
    stage = place.stage(f"{source.resolve()} {listed.identity}")
    upload = _Upload(host, place, source, listed, meter, stage, "yes" if replace else "")
    try:
        kind = surviving(upload.once)
    except (Unreachable, TimedOut):
        raise
    except BaseException:
        with suppress(LabkitError):
            host.run(*scripts.words(scripts.DROP, *place.folder, stage))
        raise
    seconds = time.monotonic() - begun
    return Copied(path, len(listed.files), listed.size, meter.sent, kind, seconds, listed.others)


@dataclass
class _Upload:
    host: Carries
    place: Place
    source: Path
    listed: Listing
    meter: Meter
    stage: str
    replace: str
    finished: int = 0
    before: int = 0

    def once(self, gained: Callable[[], None]) -> str:
        kind, unpacker, *again = self.planned()
        self.folders()
        if self.finished > self.before:
            gained()
        self.before = self.finished
        self.meter.there(0)
        lanes = Lanes.up(self.host)
        lanes.run(self.works(kind, unpacker, bool(again), lanes.shares))
        if listing.local(self.source).identity != self.listed.identity:
            raise self.place.refused("write", f"{self.source} changed while it was sent")
        self.modes()
        words = scripts.words(
            scripts.TREE_COMMIT, *self.place.folder, self.place.name, self.stage, self.replace
        )
        self.place.ask(self.host, "write", words)
        return kind

    def planned(self) -> list[str]:
        kib = str(-(-self.listed.size // 1024) + 4 * len(self.listed.entries))
        words = scripts.words(
            scripts.TREE_PLAN, *self.place.folder, self.place.name, self.stage, kib, self.replace
        )
        return self.place.ask(self.host, "write", words)

    @property
    def staged(self) -> tuple[str, str]:
        return self.place.below(self.stage)

    def folders(self) -> None:
        for batch in batches(self.listed.folders):
            self.place.ask(self.host, "write", scripts.words(
                scripts.FOLDERS, *self.staged, *(entry.name for entry in batch)
            ))  # fmt: skip

    # The innermost first of those folders that we would lose the way through, and they come last.
    def modes(self) -> None:
        closed = [one for one in self.listed.entries if one.folder and one.mode & 0o700 != 0o700]
        open_ = [one for one in self.listed.entries if not one.folder or one.mode & 0o700 == 0o700]
        for mode in sorted({entry.mode for entry in open_}):
            self.set_mode(mode, [entry for entry in open_ if entry.mode == mode])
        for entry in reversed(closed):
            self.set_mode(entry.mode, [entry])

    def set_mode(self, mode: int, entries: Sequence[Entry]) -> None:
        for batch in batches(entries):
            self.place.ask(self.host, "write", scripts.words(
                scripts.MODES, *self.staged, f"{mode:o}", *(entry.name for entry in batch)
            ))  # fmt: skip

    def works(self, kind: str, unpacker: str, again: bool, lanes: int) -> Iterator[Work]:
        small = [entry for entry in self.listed.files if entry.size <= SMALL_FILE]
        for batch in batches(small, alone=unpacker == "cat"):
            if again and self.there(batch, kind):
                self.meter.add(sum(entry.size for entry in batch), sent=False)
            else:
                yield self.batch(batch, kind, unpacker)
        for entry in self.listed.files:
            if entry.size > SMALL_FILE:
                yield from self.large(entry, kind, again, lanes)

    def there(self, batch: Sequence[Entry], kind: str) -> bool:
        words = scripts.words(scripts.CHECK, *self.staged, *(entry.name for entry in batch))
        whole = hash_of(kind)
        for entry in batch:
            whole.update((self.source / entry.name).read_bytes())
        return first_words(self.place.ask(self.host, "write", words)) == [whole.hexdigest()]

    def batch(self, batch: Sequence[Entry], kind: str, unpacker: str) -> Work:
        script = scripts.UNPACK if unpacker == "tar" else scripts.UNPACK_ONE
        words = scripts.words(script, *self.staged, *(entry.name for entry in batch))
        return Work(words, partial(self.send, batch, kind, unpacker))

    def send(self, batch: Sequence[Entry], kind: str, unpacker: str, pipe: Pipe) -> None:
        whole = hash_of(kind)
        for part, content in self.parts(batch, unpacker):
            if not pipe.send(part):
                break
            if content:
                whole.update(part)
                self.meter.add(len(part))
        pipe.finish()
        if answered(pipe, "write", self.place) != [whole.hexdigest()]:
            raise self.place.damaged("write")
        self.finished += 1

    # A tar, in parts; and whether each is the content of a file.
    def parts(self, batch: Sequence[Entry], unpacker: str) -> Iterator[tuple[bytes, bool]]:
        for entry in batch:
            if unpacker == "tar":
                yield _header(entry), False
            with Source(self.source / entry.name) as source:
                if source.size != entry.size:
                    raise self.place.refused("write", f"{entry.name} changed while it was sent")
                for start in range(0, entry.size, CHUNK):
                    yield bytes(source.read(start, min(CHUNK, entry.size - start))), True
            if unpacker == "tar":
                yield bytes(-entry.size % tarfile.BLOCKSIZE), False
        if unpacker == "tar":
            yield bytes(2 * tarfile.BLOCKSIZE), False

    def large(self, entry: Entry, kind: str, again: bool, lanes: int) -> Iterator[Work]:
        folder, _, name = f"{self.stage}/{entry.name.removeprefix('./')}".rpartition("/")
        inside, blocks = self.place.below(folder), Blocks(entry.size)
        theirs: list[str] = []
        if again:
            words = scripts.words(scripts.HASHES, *inside, name, "", *blocks.words)
            with suppress(CopyFailed):  # it is not there yet
                theirs = first_words(self.place.ask(self.host, "write", words))
        with Source(self.source / entry.name) as source:
            lacking = blocks.lacking(source.read, kind, theirs)
        self.meter.add(blocks.size - blocks.total(lacking), sent=False)
        for piece in blocks.pieces(lacking, lanes):
            words = scripts.words(scripts.PIECE, *inside, name, *piece.units)
            yield Work(words, partial(self.send_large, entry, piece, kind))

    def send_large(self, entry: Entry, piece: Piece, kind: str, pipe: Pipe) -> None:
        with Source(self.source / entry.name) as source:
            send_piece(source, piece, self.place, kind, self.meter, pipe)
        self.finished += 1


def _header(entry: Entry) -> bytes:
    member = tarfile.TarInfo(entry.name)
    member.size, member.mode, member.mtime = entry.size, 0o600, int(time.time())
    return member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
