"""Points on the workers of a Dask cluster, which share the campaign's folder with us.

Dask hands each point to a worker that offers its lab, and to the next one if that dies. Whether
anything is left to be done, the point's folder says alone: so Dask may begin a task as often as it
likes.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from labkit import __version__
from labkit.campaign import scheduler
from labkit.campaign.asked import CampaignPoint
from labkit.campaign.conductor import LOOK_SECONDS, AtWork, PointAtWork, Workplace
from labkit.campaign.folder import DIED, STOPPED, Attempt, CampaignFolder
from labkit.campaign.places import Needs, Taken
from labkit.errors import ClusterError, LabkitError, NoScheduler

BEAT_SECONDS, TRY_SECONDS, COUNT_SECONDS = 5.0, 5.0, 30.0
BESIDE = 2
"""Points handed over for each thread of a worker, so that none has to wait for us."""
LOST_STATES = ("cancelled", "lost")
LOSSES = (OSError, TimeoutError, RuntimeError, CancelledError)
"""Errors of Dask where the scheduler is gone."""


def dask_setup(_: object) -> None:
    """Have a worker that is made here be in a session of its own, so that Ctrl-C is for us."""
    if os.getsid(0) != os.getpid():
        os.setsid()


def is_shared(path: str) -> bool:
    """Whether this machine sees the folder of the campaign."""
    return Path(path, "campaign.json").is_file()


def see_to(path: str, point: CampaignPoint, run: str, version: str) -> Attempt:
    """Bring a point of the campaign in that folder to its end, on the machine of a worker."""
    if version != __version__:
        raise RuntimeError(f"labkit is {__version__} on a worker and {version} with you")
    if not is_shared(path):
        raise RuntimeError(f"{path} is not the campaign's folder on a worker")
    try:
        folder = CampaignFolder(Path(path), Path(path).name, (point,), "", "")
        # Whoever was here before may have died: the lab is looked at first.
        return _watched(AtWork.begin(folder, point, put_back=True), run)
    except LabkitError as error:  # Dask carries only what any process can read
        raise RuntimeError(str(error)) from None


def _watched(at_work: AtWork, run: str) -> Attempt:
    from distributed import Status, get_worker

    worker, text, beat, is_lost = get_worker(), "", 0.0, False
    while (attempt := at_work.ended()) is None:
        at_work.insist()
        if time.monotonic() > beat + BEAT_SECONDS:
            beat = time.monotonic()
            # Dask ends the process of a worker soon after it has lost its scheduler.
            is_lost = worker.status not in (Status.running, Status.paused)
            times, reason = (1, "its worker left the cluster") if is_lost else _stops(at_work, run)
            if times > len(at_work.asked):
                at_work.stop(reason)
        if text != at_work.said:
            text = at_work.said
            worker.log_event(run, (at_work.point.name, text, at_work.seconds_left))
        time.sleep(LOOK_SECONDS)
    if is_lost:
        raise RuntimeError("its worker left the cluster")
    return attempt


# How often, and why, somebody has asked a point to stop.
def _stops(at_work: AtWork, run: str) -> tuple[int, str]:
    from distributed import Variable

    variable: Any = Variable
    with suppress(*LOSSES):
        times, reason = variable(run).get(timeout=1).get(at_work.point.name, (0, ""))
        return times, reason
    return 0, ""


@dataclass(kw_only=True, eq=False)
class FarPoint(PointAtWork):
    """A point that a worker of the cluster sees to."""

    at: OnCluster
    said: str = "handed to the cluster"
    heard: bool = False
    """Whether a worker has begun it."""
    future: Any = None

    @property
    def seconds(self) -> float:
        """Seconds that a worker has been at it."""
        return time.monotonic() - self.begun if self.heard else 0.0

    def hear(self, text: str, seconds_left: float | None) -> None:
        """Hear from its worker how far it is."""
        self.begun = self.begun if self.heard else time.monotonic()
        self.heard, self.said, self.seconds_left = True, text, seconds_left

    def _ask_to_stop(self) -> None:
        self.at.tell_stop(self)
        if not self.heard and self.future is not None:
            with suppress(*LOSSES):
                self.future.cancel(force=True)

    def insist(self) -> None:
        """Leave it to the worker, which asks once more where it takes too long to stop."""

    def ended(self) -> Attempt | None:
        """The outcome; what is lost, with its worker or its scheduler, is handed over again."""
        status = "lost" if self.future is None else self.future.status
        if status in LOST_STATES:
            if self.asked:
                return Attempt.begin(0).ended(STOPPED, self.why, "Stopped")
            self.future = self.at.hand_over(self)
        elif status == "error":
            return Attempt.begin(0).ended(DIED, f"the cluster: {self.future.exception()}")
        elif status == "finished":
            with suppress(*LOSSES):
                attempt: Attempt = self.future.result(timeout=TRY_SECONDS)
                # This machine may be late to see what others have written into a shared folder.
                path = self.folder.of(self.point)
                is_here = (path / f"attempt-{attempt.number}.json").exists()
                return attempt if is_here else attempt.keep(path)
        return None


@dataclass
class OnCluster(Workplace):
    """The workers of a Dask cluster as the place where points are begun."""

    address: str
    client: Any
    note: Callable[[str], None]
    here: bool = False
    """Whether all its workers are on this machine."""
    see_to: Callable[[str, CampaignPoint, str, str], Attempt] = see_to
    run: str = field(default_factory=lambda: f"labkit-{secrets.token_hex(8)}")
    """The name of the topic on which points are heard, and of the variable that stops them."""
    working: WeakValueDictionary[str, FarPoint] = field(default_factory=WeakValueDictionary)
    news: threading.Event = field(default_factory=threading.Event)
    _stops: dict[str, tuple[int, str]] = field(default_factory=dict)
    _threads: int = 1
    _missed: set[str] = field(default_factory=set)
    _counted: float = 0.0
    _running: bool | None = None

    def needs(self, lab: str) -> Needs:
        """The hosts of a lab; a box on the machine of a worker is a resource alone."""
        return Needs() if lab == "box" and not self.here else Needs.of(lab)

    def taken(self) -> Taken:
        """Room for a point on each thread of its workers, and some more to be at hand."""
        room = BESIDE * max(self._threads, 1)
        return Taken(room, room)

    def begin(self, folder: CampaignFolder, point: CampaignPoint, *, put_back: bool) -> FarPoint:
        """Hand a point to the cluster, where each is begun by putting back what was left."""
        far = FarPoint(folder=folder, point=point, at=self)
        self.working[point.name] = far
        return far

    def hand_over(self, far: FarPoint) -> Any:
        """A future of a point; None while there is no scheduler."""
        if not self._is_connected():
            return None
        name, point = scheduler.resource(far.point.lab), far.point
        future = self.client.submit(
            self.see_to, str(far.folder.path), point, self.run, __version__, pure=False,
            priority=-point.number, resources={name: 1} if name else None,
            key=f"{far.folder.name}-{point.name}-{secrets.token_hex(4)}",
        )  # fmt: skip
        future.add_done_callback(lambda _: self.news.set())
        return future

    def tell_stop(self, far: FarPoint) -> None:
        """Tell its worker that a point is to stop."""
        from distributed import Variable

        variable: Any = Variable
        self._stops[far.point.name] = len(far.asked), far.why
        with suppress(*LOSSES):
            variable(self.run, client=self.client).set(self._stops, timeout=TRY_SECONDS)

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a task has ended."""
        self.news.wait(seconds)
        self.news.clear()
        if time.monotonic() > self._counted + COUNT_SECONDS and self._is_connected():
            with suppress(*LOSSES):
                self.count()

    def count(self) -> None:
        """See how many workers there are now, and whether one offers each lab."""
        self._counted = time.monotonic()
        self._threads = scheduler.threads(self.client)
        needs = {
            name for far in self.working.values() if (name := scheduler.resource(far.point.lab))
        }
        missing = needs - scheduler.offered(self.client).keys()
        for name in sorted(missing - self._missed):
            self.note(f"no worker offers {name} any more; its points wait for one")
        self._missed = missing

    # Dask looks for a scheduler that is gone, and gives up after a while.
    def _is_connected(self) -> bool:
        if self.client.status == "closed":
            raise NoScheduler(f"the scheduler at {self.address} did not come back")
        running = bool(self.client.status == "running")
        if running != self._running:
            if running:
                self.client.subscribe_topic(self.run, self._hear)
            if self._running is not None:
                fate = "is back" if running else "is gone; runs that are kept stay"
                self.note(f"the scheduler at {self.address} {fate}")
            self._running = running
        return running

    def _hear(self, event: tuple[float, tuple[str, str, float | None]]) -> None:
        name, text, seconds_left = event[1]
        if far := self.working.get(name):
            far.hear(text, seconds_left)


@contextmanager
def joined(
    folder: CampaignFolder, note: Callable[[str], None], address: str, workers: int
) -> Iterator[OnCluster]:
    """The cluster at an address, or with this number of workers made here, to begin points on."""
    labs = {point.lab for point in folder.points}
    made_here = scheduler.cluster_here(workers, labs)
    with made_here if workers else nullcontext((address, None)) as (at, pair):
        client = scheduler.connected(at, pair)
        try:
            scheduler.insist_alike(scheduler.versions(client))
            scheduler.insist_offered(client, labs, at)
            _insist_shared(client, str(folder.path))
            cluster = OnCluster(at, client, note, bool(workers))
            cluster.count()
            yield cluster
        finally:
            scheduler.let_go(client)


def _insist_shared(client: Any, path: str) -> None:
    for worker, shared in client.run(is_shared, path).items():
        if not shared:
            hint = "LABKIT_OUT names a folder that all machines have at one path, such as of NFS"
            raise ClusterError(f"the worker {worker} does not see {path}", hint=hint)
