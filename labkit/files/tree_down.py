"""A folder of a host to this machine: what the host may say and send is bounded and checked."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from labkit.errors import BadInput, CopyFailed, TimedOut, Unreachable
from labkit.files import scripts
from labkit.files.arrival import cannot_write, check_room, kept, stage_name
from labkit.files.blocks import hash_of
from labkit.files.copied import Copied, first_words, surviving
from labkit.files.lanes import Lanes, Meter, Moved, Tell, Work
from labkit.files.listing import (
    BATCH_BYTES,
    MOST_BYTES,
    MOST_FILES,
    SMALL_FILE,
    Entry,
    Listing,
    Remote,
    batches,
)
from labkit.files.pipe import CHUNK, Carries, Pipe
from labkit.files.place import Place
from labkit.files.receiving import received


def get_tree(
    host: Carries,
    path: str,
    to: Path,
    *,
    replace: bool = False,
    skip_others: bool = False,
    most_files: int = MOST_FILES,
    most_bytes: int = MOST_BYTES,
    tell: Tell | None = None,
) -> Copied:
    """Copy the folder `path` of the host to `to`, which is not there yet, or is replaced whole."""
    begun, place = time.monotonic(), Place.at(host.name, path)
    _check_target(to, replace)
    download = _Download(host, place, to, skip_others, most_files, most_bytes, tell)
    try:
        meter = surviving(download.once)
    except (Unreachable, TimedOut):
        raise
    except BaseException:
        download.drop()
        raise
    listed = download.listed
    return Copied(
        path, len(listed.files), listed.size, meter.sent, download.kind,
        time.monotonic() - begun, listed.others,
    )  # fmt: skip


def _check_target(to: Path, replace: bool) -> None:
    if to.is_symlink():
        raise BadInput(f"{to} is a link, and links are not followed")
    if to.exists() and not (replace and to.is_dir()):
        hint = "replace=True puts the new folder in its place" if to.is_dir() else ""
        raise BadInput(f"{to} is there already", hint=hint)
    if not to.absolute().parent.is_dir():
        raise BadInput(f"there is no folder {to.absolute().parent}", hint="make it first")


@dataclass
class _Download:
    host: Carries
    place: Place
    to: Path
    skip_others: bool
    most_files: int
    most_bytes: int
    tell: Tell | None
    listed: Listing = field(default_factory=lambda: Listing(()))
    kind: str = ""
    stage: Path = Path()
    finished: int = 0
    before: int = 0
    sent: int = 0

    def once(self, gained: Callable[[], None]) -> Meter:
        if self.finished > self.before:
            gained()
        self.before = self.finished
        self.list()
        meter = Meter(self.place.path, self.listed.size, self.tell, sent=self.sent)
        try:
            again = self.begin()
            lanes = Lanes(self.host, Lanes.up(self.host).count, BATCH_BYTES)
            lanes.run(self.works(again, meter))
            self.large(meter)
            self.commit()
        except OSError as refused:
            raise cannot_write(self.to, refused) from refused
        finally:
            self.sent = meter.sent
        return meter

    def list(self) -> None:
        remote = Remote(f"{self.host.name}: {self.place.path}", self.most_files)
        with self.host.raw(*scripts.words(scripts.LIST, *self.folder)) as pipe:
            listed = remote.read(pipe)
        listed = listed.without_others(remote.path, self.skip_others)
        self.kind, self.listed = remote.kind, listed
        listed.check(remote.path, self.most_files, self.most_bytes)

    @property
    def folder(self) -> tuple[str, str]:
        return self.place.below(self.place.name)

    # Whether an earlier try left something.
    def begin(self) -> bool:
        identity = f"{self.host.name} {self.place.path} {self.listed.identity}"
        self.stage = self.to.absolute().parent / stage_name(self.to, identity)
        again = self.stage.is_dir() and not self.stage.is_symlink()
        if again and self.stage.stat().st_uid != os.geteuid():
            raise BadInput(
                f"{self.stage} is in the way", hint="labkit did not create it: remove it"
            )
        there = sum(one.stat().st_blocks * 512 for one in self.stage.rglob("*")) if again else 0
        check_room(self.stage.parent, self.listed.size - there)
        if not again:
            self.stage.mkdir(0o700)
        for entry in self.listed.folders:
            (self.stage / entry.name).mkdir(0o700, exist_ok=True)
        return again

    def works(self, again: bool, meter: Meter) -> Iterator[Work]:
        small = [entry for entry in self.listed.files if entry.size <= SMALL_FILE]
        for batch in batches(small):
            if again and self.there(batch):
                meter.add(sum(entry.size for entry in batch), sent=False)
            else:
                words = scripts.words(scripts.FETCH, *self.folder, *_names(batch))
                yield Work(words, partial(self.fetch, batch, meter))

    def there(self, batch: Sequence[Entry]) -> bool:
        whole = hash_of(self.kind)
        for entry in batch:
            path = self.stage / entry.name
            if not path.is_file() or path.is_symlink() or path.stat().st_size != entry.size:
                return False
            whole.update(path.read_bytes())
        words = scripts.words(scripts.READ, *self.folder, *_names(batch))
        return first_words(self.place.ask(self.host, "read", words)) == [whole.hexdigest()]

    # Every name is one that we asked for; the host says no more than its content.
    def fetch(self, batch: Sequence[Entry], meter: Meter, pipe: Pipe) -> None:
        whole, rest = hash_of(self.kind), b""
        for entry in batch:
            with self.created(entry) as file:
                left = entry.size
                while left:
                    rest = rest or pipe.recv(CHUNK)
                    if not rest:
                        self.fail(pipe)
                    part, rest = rest[:left], rest[left:]
                    file.write(part)
                    whole.update(part)
                    left -= len(part)
                    meter.add(len(part))
        if rest or pipe.recv(CHUNK):
            raise self.place.refused("read", "the host sends more than it was asked for")
        code, said = pipe.ended()
        facts = [f"{entry.size} {entry.changed}" for entry in batch]
        lines = said.splitlines()
        told = [line.partition(" ")[2] for line in lines[1:]]
        if code or first_words(lines[:1]) != [whole.hexdigest()] or told != facts:
            raise self.changed(said if code else "")
        self.finished += 1

    def fail(self, pipe: Pipe) -> None:
        code, said = pipe.ended()
        raise self.changed(said if code else "")

    def changed(self, said: str) -> CopyFailed:
        return self.place.refused(
            "read all of",
            said or "the files that arrived are not those listed",
            "did it change while it was copied?",
        )

    def created(self, entry: Entry) -> BinaryIO:
        path = self.stage / entry.name
        with suppress(FileNotFoundError):
            path.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(path, flags, 0o600), "wb")

    def large(self, meter: Meter) -> None:
        for entry in self.listed.files:
            if entry.size > SMALL_FILE:
                inside = _inside(self.place, entry)
                done = meter.done

                def tell(moved: Moved, done: int = done) -> None:
                    meter.there(done + moved.done)

                to = self.stage / entry.name
                size, sent, _ = received(self.host, inside, to, again=True, tell=tell)
                meter.sent += sent
                meter.there(done + size)
                self.finished += 1

    def commit(self) -> None:
        folders = [entry for entry in self.listed.entries if entry.folder]
        for entry in [*self.listed.files, *reversed(folders)]:
            (self.stage / entry.name).chmod(entry.mode)
        os.sync()
        _check_target(self.to, True)
        old = self.stage.with_suffix(".old")
        if self.to.exists():
            self.to.rename(old)
        try:
            self.stage.rename(self.to)
        except OSError:
            if old.exists():
                old.rename(self.to)
            raise
        kept(self.stage.parent)
        shutil.rmtree(old, ignore_errors=True)

    def drop(self) -> None:
        if self.stage != Path():
            shutil.rmtree(self.stage, ignore_errors=True)


def _names(batch: Sequence[Entry]) -> list[str]:
    return [entry.name for entry in batch]


def _inside(place: Place, entry: Entry) -> Place:
    folder, _, name = f"{place.name}/{entry.name.removeprefix('./')}".rpartition("/")
    return Place(place.host, f"{place.path}/{entry.name[2:]}", *place.below(folder), name)
