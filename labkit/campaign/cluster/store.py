"""The store of a campaign: a shared folder or a bucket that all its machines see, by fsspec."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.errors import BadInput, NoCredentials, NotInstalled, StoreRefused, last_words
from labkit.machine import records

COMMAND = "in a checkout of labkit: pip install -e '.[cluster]'"
"""The package index has another project of this name."""


@contextmanager
def needing_extra() -> Iterator[None]:
    """Say which command brings the package, if an import fails meanwhile."""
    try:
        yield
    except ImportError as error:
        problem = f"a campaign on a cluster needs {error.name or 'a package'}, missing here"
        raise NotInstalled(problem, said=str(error), hint=COMMAND) from None


@dataclass(frozen=True)
class CampaignStore:
    """Named bytes; `root` is what stands before all names, such as a bucket."""

    url: str
    fs: Any
    root: str

    @classmethod
    def open(cls, url: str) -> CampaignStore:
        """The store at a URL or in a folder."""
        with needing_extra():
            import fsspec
        with _refusals(url):
            try:
                # What others have written meanwhile is seen: no listing is remembered.
                fs, root = fsspec.core.url_to_fs(os.path.expanduser(url), use_listings_cache=False)
            except ValueError as error:
                hint = "a folder that all machines share, or s3://BUCKET/FOLDER"
                raise BadInput(f"{url}: is not a store", said=str(error), hint=hint) from None
        return cls(url, fs, root.rstrip("/"))

    def prove(self) -> None:
        """Insist that it can be written and read."""
        self.put("campaign", b"here")
        if self.read("campaign") != b"here":
            raise StoreRefused(f"{self.url}: does not give back what was just written")

    def put(self, name: str, content: bytes) -> None:
        """Write a whole file under a name, whatever was there."""
        path = f"{self.root}/{name}"
        with _refusals(self.url):
            if "file" in self.fs.protocol:  # fsspec writes into the file that others may read
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                with records.half(Path(path)) as half:
                    half.write_bytes(content)
                    records.sync(half)
                    half.rename(path)
            else:
                self.fs.pipe_file(path, content)

    def read(self, name: str) -> bytes | None:
        """The content of a file there; None if there is none."""
        with _refusals(self.url):
            try:
                return bytes(self.fs.cat_file(f"{self.root}/{name}"))
            except FileNotFoundError:
                return None

    def below(self, folder: str) -> list[str]:
        """All names below a folder, sorted; halves of files have none."""
        with _refusals(self.url):
            paths = self.fs.find(f"{self.root}/{folder}")
        names = (path[len(self.root) + 1 :] for path in paths)
        return sorted(name for name in names if not name.endswith(".half"))


# Libraries of stores raise classes of their own; their names are known, the libraries need not be.
@contextmanager
def _refusals(url: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        if not url.startswith("s3"):
            raise
        hint = "make the bucket first, or name another: --store s3://BUCKET/FOLDER"
        raise StoreRefused(f"{url}: is not there", said=str(error), hint=hint) from None
    except (OSError, ImportError) as error:
        raise _refusal(url, error) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("botocore", "aiobotocore", "s3fs"):
            raise
        raise _refusal(url, error) from None


def _refusal(url: str, error: Exception) -> StoreRefused:
    kind, words = type(error).__name__, last_words(str(error))
    if "Credential" in kind or "InvalidAccessKeyId" in words:
        hint = "AWS_PROFILE=NAME, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        return NoCredentials(f"{url}: asks for credentials", said=words, hint=hint)
    hint = "may this account write there? is there room? on each worker too?"
    if isinstance(error, ImportError):
        hint = f"for S3, {COMMAND}; other stores need their fsspec package"
    elif "Connect" in kind or "EndpointConnection" in kind:
        hint = "check the address; AWS_ENDPOINT_URL names one that is not Amazon's"
    return StoreRefused(f"{url}: cannot be used: {kind}", said=words, hint=hint)
