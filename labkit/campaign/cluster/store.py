"""The store of a campaign: a shared folder or an object store, in which a name is given once."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from labkit.campaign.cluster.extra import COMMAND, needing_extra
from labkit.errors import BadInput, NoCredentials, StoreRefused, last_words
from labkit.machine import records

LOCAL = "file://"
CONDITIONAL = "it must refuse a second object with the same name (If-None-Match: *)"


class CampaignStore(Protocol):
    """Named bytes that all machines of a campaign see; names are paths with slashes."""

    @property
    def url(self) -> str:
        """Its location, as people write it."""

    def create(self, name: str, whole: bytes) -> bool:
        """Give a name for the first time; False if somebody has given it, and nothing changes."""

    def put(self, name: str, whole: bytes) -> None:
        """Write under a name, whatever was there."""

    def read(self, name: str) -> bytes | None:
        """The content of a file there; None if there is none."""

    def below(self, folder: str) -> list[str]:
        """All names below a folder, sorted."""

    def remove(self, name: str) -> None:
        """Take a name back."""


def open_store(url: str) -> CampaignStore:
    """The store at a URL or in a folder."""
    if "://" not in url or url.startswith(LOCAL):
        return FolderStore(os.path.abspath(os.path.expanduser(url.removeprefix(LOCAL))))
    with needing_extra():
        import fsspec
    with _told(url):
        try:
            # What others have written meanwhile is seen: no listing is remembered.
            fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
        except ValueError as odd:
            hint = "a folder that all machines share, or s3://BUCKET/FOLDER"
            raise BadInput(f"{url}: is not a store", said=str(odd), hint=hint) from None
    return ObjectStore(url, fs, root.rstrip("/"))


def prove(store: CampaignStore) -> None:
    """Insist that the store can be written, and that it gives a name only once."""
    name = f".labkit-{secrets.token_hex(8)}"
    if not store.create(name, b"first") or store.create(name, b"second"):
        raise StoreRefused(f"{store.url}: accepts the same name twice", hint=CONDITIONAL)
    if store.read(name) != b"first":
        raise StoreRefused(f"{store.url}: does not give back what was just written")
    store.remove(name)


@dataclass(frozen=True)
class FolderStore:
    """A folder that all machines see at the same path."""

    url: str

    def create(self, name: str, whole: bytes) -> bool:
        """Give a name for the first time: its link is made whole, or not at all."""
        path = Path(self.url, name)
        with _told(self.url), records.half(_parent_made(path)) as half:
            _write(half, whole)
            try:
                records.place(half, path)
            except FileExistsError:
                return False
        return True

    def put(self, name: str, whole: bytes) -> None:
        """Write under a name, whatever was there."""
        path = Path(self.url, name)
        with _told(self.url), records.half(_parent_made(path)) as half:
            _write(half, whole)
            half.rename(path)

    def read(self, name: str) -> bytes | None:
        """The content of a file there; None if there is none."""
        with _told(self.url):
            try:
                return Path(self.url, name).read_bytes()
            except FileNotFoundError:
                return None

    def below(self, folder: str) -> list[str]:
        """All names below a folder, sorted; halves of files have none."""
        with _told(self.url):
            try:
                found = [*records.files_below(Path(self.url, folder))]
            except FileNotFoundError:
                return []
        names = (os.path.relpath(file, self.url) for file in found)
        return sorted(name for name in names if not name.endswith(".half"))

    def remove(self, name: str) -> None:
        """Take a name back."""
        with _told(self.url):
            Path(self.url, name).unlink()


def _parent_made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _write(file: Path, whole: bytes) -> None:
    with file.open("xb") as opened:
        opened.write(whole)
        opened.flush()
        os.fsync(opened.fileno())


@dataclass(frozen=True)
class ObjectStore:
    """A bucket that fsspec reaches; `root` is the bucket and what stands before all names."""

    url: str
    fs: Any
    root: str

    def create(self, name: str, whole: bytes) -> bool:
        """Give a name for the first time: the server refuses the second of two."""
        with _told(self.url):
            try:
                self.fs.pipe_file(self._at(name), whole, mode="create")
            except FileExistsError:
                return False
        return True

    def put(self, name: str, whole: bytes) -> None:
        """Write under a name, whatever was there."""
        with _told(self.url):
            self.fs.pipe_file(self._at(name), whole)

    def read(self, name: str) -> bytes | None:
        """The content of a file there; None if there is none."""
        with _told(self.url):
            try:
                return bytes(self.fs.cat_file(self._at(name)))
            except FileNotFoundError:
                return None

    def below(self, folder: str) -> list[str]:
        """All names below a folder, sorted."""
        with _told(self.url):
            try:
                found = self.fs.find(self._at(folder))
            except FileNotFoundError:
                return []
        return sorted(one[len(self.root) + 1 :] for one in found)

    def remove(self, name: str) -> None:
        """Take a name back."""
        with _told(self.url):
            self.fs.rm_file(self._at(name))

    def _at(self, name: str) -> str:
        return f"{self.root}/{name}"


# Libraries of stores raise classes of their own; their names are known, the libraries need not be.
@contextmanager
def _told(url: str) -> Iterator[None]:
    try:
        yield
    except (FileExistsError, FileNotFoundError) as refused:
        if not url.startswith("s3"):
            raise
        hint = "make the bucket first, or name another: --store s3://BUCKET/FOLDER"
        raise StoreRefused(f"{url}: is not there", said=str(refused), hint=hint) from None
    except (OSError, ImportError) as refused:
        raise _refusal(url, refused) from None
    except Exception as odd:
        if type(odd).__module__.partition(".")[0] not in ("botocore", "aiobotocore", "s3fs"):
            raise
        raise _refusal(url, odd) from None


def _refusal(url: str, refused: Exception) -> StoreRefused:
    kind, said = type(refused).__name__, last_words(str(refused))
    if "Credential" in kind or "InvalidAccessKeyId" in said:
        hint = "AWS_PROFILE=NAME, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        return NoCredentials(f"{url}: asks for credentials", said=said, hint=hint)
    hint = "may this account write there? is there room? on each worker too?"
    if isinstance(refused, ImportError):
        hint = f"for S3, {COMMAND}; other stores need their fsspec package"
    elif "Connect" in kind or "EndpointConnection" in kind:
        hint = "check the address; AWS_ENDPOINT_URL names one that is not Amazon's"
    return StoreRefused(f"{url}: cannot be used: {kind}", said=said, hint=hint)


def sent(store: CampaignStore, file: Path, name: str) -> None:
    """Put a file there; one that goes away meanwhile is left out."""
    with suppress(FileNotFoundError):
        store.put(name, file.read_bytes())
