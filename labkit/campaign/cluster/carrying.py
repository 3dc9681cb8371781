"""Transport of a point's output from the disk of a worker to the store, and on to another."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from papermill.iorw import papermill_io

from labkit.campaign.cluster.store import CampaignStore, sent
from labkit.campaign.cluster.tries import Tried
from labkit.campaign.folder import CampaignFolder
from labkit.campaign.points import CampaignPoint
from labkit.campaign.worker import ANSWER
from labkit.machine import records
from labkit.results import BEGUN

FILES, RESULTS = "files", "results"
AT_ONCE = 4
LAST = ("run.json",)
"""A run is whole once this is there, so it is sent last and fetched last."""
PATHS = ("results", "notebook", "report")
"""Keys of an answer whose values are places on the disk of a worker."""
OURS = (".json", ".ipynb", ".html", ".log")


@dataclass(frozen=True)
class PapermillWay:
    """The store as papermill reads and writes notebooks there, once it is registered."""

    store: CampaignStore

    def register(self) -> None:
        """Have papermill find it by the URL of the store."""
        papermill_io.register(self.store.url, self)

    def read(self, path: str) -> bytes:
        """A notebook; papermill asks for it by its whole URL."""
        found = self.store.read(self._name(path))
        if found is None:
            raise FileNotFoundError(path)
        return found

    def write(self, text: str, path: str) -> None:
        """A whole notebook."""
        self.store.put(self._name(path), text.encode())

    def listdir(self, path: str) -> list[str]:
        """List the names below a folder."""
        return self.store.below(self._name(path))

    def pretty_path(self, path: str) -> str:
        """The path as it is."""
        return path

    def _name(self, path: str) -> str:
        return path.removeprefix(self.store.url).lstrip("/")


@dataclass
class Courier:
    """Sends what one try makes below `out`; what was sent is not sent again."""

    tried: Tried
    folder: CampaignFolder
    point: CampaignPoint
    out: Path
    _sent: set[str] = field(default_factory=set)

    def send_runs(self, *, ended: bool = False) -> None:
        """Send the runs that are kept; notes of those that were begun only at the end."""
        for file in sorted(_files(self.out / RESULTS), key=_last):
            at = file.relative_to(self.out).as_posix()
            if at not in self._sent and (ended or not _is_note(at)):
                sent(self.tried.store, file, f"{self.tried.folder}/{at}")
                self._sent.add(at)

    def send_all(self) -> None:
        """Send everything that somebody may ask for."""
        self.send_runs(ended=True)
        own = self.folder.of(self.point)
        for file in sorted(own.iterdir()):
            if file.is_file() and file.suffix in OURS and not _is_record(file.name):
                _send_file(self.tried, file, self.out)

    def fetch_runs(self) -> None:
        """Have here the runs that earlier tries have kept, so that none is measured twice."""
        _fetched(self.tried, RESULTS, self.out, below=True)


def collected(tried: Tried, folder: CampaignFolder, point: CampaignPoint, out: Path) -> None:
    """Bring here what a try has left in the store; `out` is the folder of all measurements."""
    own = folder.of(point)
    own.mkdir(parents=True, exist_ok=True)
    _fetched(tried, RESULTS, out, below=True)
    _fetched(tried, FILES, own, below=False)
    if (own / ANSWER).exists():
        answer = json.loads((own / ANSWER).read_text("utf-8"))
        here = {name: str(out / answer[name]) for name in PATHS}
        records.write(own / ANSWER, records.pretty({**answer, **here}))


def _fetched(tried: Tried, kind: str, to: Path, *, below: bool) -> None:
    start = f"{tried.folder}/" if below else f"{tried.folder}/{kind}/"
    names = sorted(tried.store.below(f"{tried.folder}/{kind}"), key=lambda n: _last(Path(n)))
    wanted = [name for name in names if kind == FILES or not (to / name[len(start) :]).exists()]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, whole in zip(wanted, pool.map(tried.store.read, wanted), strict=True):
            path = to / name[len(start) :]
            path.parent.mkdir(parents=True, exist_ok=True)
            records.write(path, whole or b"")


# Paths of another machine's disk say nothing here, so they begin below the measurements.
def _send_file(tried: Tried, file: Path, out: Path) -> None:
    name = f"{tried.folder}/{FILES}/{file.name}"
    if file.name == ANSWER:
        answer: dict[str, Any] = json.loads(file.read_text("utf-8"))
        there = {one: _below(answer[one], out) for one in PATHS}
        tried.store.put(name, records.pretty({**answer, **there}))
    elif file.suffix == ".ipynb":
        papermill_io.write(file.read_text("utf-8"), f"{tried.store.url}/{name}")
    else:
        sent(tried.store, file, name)


def _below(path: str, out: Path) -> str:
    return os.path.relpath(path, out) if path.startswith(f"{out}/") else path


def _files(folder: Path) -> Iterator[Path]:
    found = records.files_below(folder) if folder.exists() else ()
    return (file for file in found if file.is_file() and ".half" not in str(file))


def _last(file: Path) -> tuple[bool, str]:
    return file.name in LAST, str(file)


def _is_note(at: str) -> bool:
    return any(part.endswith(BEGUN) for part in at.split("/"))


def _is_record(name: str) -> bool:
    return name.startswith("attempt-") and name.endswith(".json")
