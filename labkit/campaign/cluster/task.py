"""The task of a Dask worker: one point, as a campaign of its own that lies in the store.

The worker fetches from the store what earlier tries have left. It conducts the campaign on its own
disk as `labkit campaign run` does, and sends runs as they are kept. A point that the store shows as
finished is never begun again. So Dask may begin a task as often as it likes.

points/0007-lat_ping-<key>/
    attempt-1.json notebook.ipynb ...    the point's folder
    results/...                          its runs, as they are kept on a disk
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from labkit import __version__
from labkit.campaign.attempts import BEGUN
from labkit.campaign.cluster.store import CampaignStore
from labkit.campaign.conductor import CampaignStanding, Conductor, Workplace
from labkit.campaign.folder import CampaignFolder
from labkit.campaign.foreseen import Foreseen
from labkit.campaign.places import holding
from labkit.campaign.points import CampaignPoint
from labkit.campaign.worker import ANSWER
from labkit.errors import LabkitError, Stopped, StoreRefused, UnlikeVersions
from labkit.machine import records
from labkit.machine.places import out
from labkit.results import NOTE

T = TypeVar("T")
RESULTS = "results/"
LAST = "run.json"
"""A run is whole once this is there, so it is carried last."""
BEAT_SECONDS, STORE_SECONDS = 5.0, 600.0
"""Seconds for which a store that is out of reach is tried again."""
AT_ONCE = 4
COMMON = ("columns", "journal", "noise")
"""Folders that the measurements of one machine share, whichever point makes them."""
SUFFIXES = (".json", ".ipynb", ".html", ".log")
OUT = b"$LABKIT_OUT"
"""Stands in the store for the folder of all measurements, which lies elsewhere on each machine."""


@dataclass(frozen=True)
class Task:
    """A point for a worker; `run` names the variable that stops it."""

    store: str
    campaign: str
    point: CampaignPoint
    run: str
    retries: int
    limit: float | None
    version: str = __version__

    @property
    def scratch(self) -> Path:
        """The folder of this point on this machine: a try goes on with what another has left."""
        digest = hashlib.sha256(self.store.encode()).hexdigest()[:12]
        return out() / "cluster" / digest / self.point.name


def dask_setup(_: object) -> None:
    """Have a worker that is made here be in a session of its own, so that Ctrl-C is for us."""
    if os.getsid(0) != os.getpid():
        os.setsid()


def see_to(task: Task) -> None:
    """Bring a point to its end, unless it has come to one."""
    try:
        if task.version != __version__:
            problem = f"labkit is {__version__} on a worker and {task.version} with you"
            raise UnlikeVersions(problem)
        _see_to(task, task.scratch)
    except LabkitError as error:  # Dask carries only what any process can read
        raise RuntimeError(str(error)) from None


def _see_to(task: Task, scratch: Path) -> None:
    with holding(scratch / ".held", f"the point {task.point.name}"):
        for name in COMMON:
            path = out() / name
            path.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                (scratch / name).symlink_to(path)
        folder = CampaignFolder.alone(scratch, task.campaign, task.point)
        courier = Courier(CampaignStore.open(task.store), task.point, folder, scratch)
        courier.fetch(scratch)
        worker = OnWorker(task.run, courier)
        # Whoever was here before may have died: the lab is looked at first.
        conductor = Conductor(
            folder, {task.point.name: Foreseen(0.0, "")}, worker.show, worker.note, task.retries,
            None, task.limit, worker, dirty={task.point.lab},
        )  # fmt: skip
        try:
            with suppress(Stopped, KeyboardInterrupt):
                worker.wait(0)
                conductor.conduct()
        finally:
            insistently(functools.partial(courier.send_runs, complete=True))
            insistently(courier.send_tries)
    shutil.rmtree(scratch, ignore_errors=True)


@dataclass
class OnWorker(Workplace):
    """The machine of a worker; it hears of stops, says how far it is, and sends what is kept."""

    run: str
    courier: Courier
    _stops: int = 0
    _beat: float = 0.0

    def wait(self, seconds: float) -> None:
        """Wait so long; a stop arrives as an interrupt does."""
        time.sleep(seconds)
        if time.monotonic() < self._beat + BEAT_SECONDS and seconds:
            return
        self._beat = time.monotonic()
        stops, reason = self._stops_asked()
        if stops > self._stops:
            self._stops += 1
            raise KeyboardInterrupt(reason)
        with suppress(StoreRefused, OSError):
            self.courier.send_runs()

    # Dask ends the process of a worker soon after it has lost its scheduler.
    def _stops_asked(self) -> tuple[int, str]:
        from distributed import Status, Variable, get_worker

        if get_worker().status not in (Status.running, Status.paused):
            return 1, "its worker left the cluster"
        variable: Any = Variable
        try:
            stops, reason = variable(self.run).get(timeout=1)
        except (OSError, TimeoutError):
            return 0, ""
        return int(stops), str(reason)

    def show(self, standing: CampaignStanding) -> None:
        """Tell the conductor how far the point is."""
        for words in standing.at_work:
            self._tell(words.partition(": ")[2], standing.seconds_left)

    def note(self, text: str) -> None:
        """Tell the conductor of another try."""
        self._tell(text, None)

    def _tell(self, text: str, seconds_left: float | None) -> None:
        from distributed import get_worker

        message = {"point": self.courier.point.name, "said": text, "seconds_left": seconds_left}
        get_worker().log_event(self.run, message)


@dataclass
class Courier:
    """Carries the files of a point between the folder `out` of a disk and the store."""

    store: CampaignStore
    point: CampaignPoint
    folder: CampaignFolder
    out: Path
    _sent: set[str] = field(default_factory=set)

    @property
    def at(self) -> str:
        """The folder of the point in the store."""
        return f"points/{self.point.name}"

    def fetch(self, path: Path) -> None:
        """Have here what tries have left in the store; runs that are here stay as they are."""
        place, files = self.folder.of(self.point), []
        place.mkdir(parents=True, exist_ok=True)
        for name in self.store.below(self.at):
            below = name.removeprefix(f"{self.at}/")
            is_run = below.startswith(RESULTS)
            file = path / below if is_run else place / below
            if not (is_run and file.exists()):
                files.append((below, file))
        files.sort(key=lambda pair: _last(pair[1]))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            contents = pool.map(self.store.read, [f"{self.at}/{below}" for below, _ in files])
            for (below, file), content in zip(files, contents, strict=True):
                if content is not None:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    records.write(file, _place(below, content, OUT, _word(path)))

    def send_runs(self, *, complete: bool = False) -> None:
        """Send the runs that are kept; notes of those that were begun only at the end."""
        path = self.out / RESULTS
        files = (f for f in records.files_below(path) if f.is_file()) if path.exists() else ()
        for file in sorted((f for f in files if ".half" not in str(f)), key=_last):
            name = file.relative_to(self.out).as_posix()
            is_note = any(part.endswith(NOTE) for part in name.split("/"))
            if name not in self._sent and (complete or not is_note):
                self._send(file, name)
                self._sent.add(name)

    def send_tries(self) -> None:
        """Send the point's folder, but no half of a file and no try that goes on."""
        path = self.folder.of(self.point)
        going_on = {f"attempt-{attempt.number}.json" for attempt in self.folder.attempts(self.point)
                    if attempt.state == BEGUN}  # fmt: skip
        for file in sorted(path.glob("[!.]*")):
            if file.suffix in SUFFIXES and file.name not in going_on:
                self._send(file, file.name)

    def _send(self, file: Path, name: str) -> None:
        with suppress(FileNotFoundError):
            content = _place(name, file.read_bytes(), _word(self.out), OUT)
            self.store.put(f"{self.at}/{name}", content)


def insistently(call: Callable[[], T]) -> T:
    """Do it, also where the store is out of reach for a while."""
    until = time.monotonic() + STORE_SECONDS
    while True:
        try:
            return call()
        except StoreRefused:
            if time.monotonic() > until:
                raise
            time.sleep(BEAT_SECONDS)


def _word(folder: Path) -> bytes:
    return json.dumps(str(folder))[1:-1].encode()


# Paths of another machine's disk say nothing here.
def _place(name: str, content: bytes, before: bytes, after: bytes) -> bytes:
    return content.replace(before, after) if name == ANSWER else content


def _last(file: Path) -> tuple[bool, str]:
    return file.name == LAST, str(file)
