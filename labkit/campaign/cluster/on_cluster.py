"""Points on the workers of a Dask cluster, as the conductor sees them."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from labkit.campaign.at_work import PointAtWork
from labkit.campaign.attempts import BEGUN, STOPPED, Attempt
from labkit.campaign.cluster.scheduler import (
    cluster_here,
    connected,
    insist_alike,
    insist_offered,
    let_go,
    offered,
    resource,
    threads,
    versions,
)
from labkit.campaign.cluster.store import CampaignStore
from labkit.campaign.cluster.task import Courier, Task, insistently, see_to
from labkit.campaign.conductor import Workplace
from labkit.campaign.folder import CampaignFolder
from labkit.campaign.places import Needs
from labkit.campaign.points import CampaignPoint
from labkit.campaign.queue import Taken
from labkit.errors import ClusterError, NoScheduler
from labkit.machine.places import out

LOST_SECONDS = 600.0
"""For so long a scheduler that is gone is looked for."""
AGAIN_SECONDS, TRY_SECONDS, COUNT_SECONDS = 2.0, 5.0, 30.0
MOST_ERRORS = 3
BESIDE = 2
"""Points handed over for each thread of a worker, so that none has to wait for us."""
AT_ONCE = 32
BATCH_SECONDS = 0.01
LOST_STATES = ("cancelled", "lost")
LOSSES = (OSError, TimeoutError, RuntimeError)
"""Errors of Dask where the scheduler is gone."""
TRY = re.compile(r"points/([^/]+)/(attempt-\d+\.json)")


@dataclass(kw_only=True)
class FarPoint(PointAtWork):
    """A point that a worker of the cluster sees to."""

    at: OnCluster
    task: Task
    courier: Courier
    said: str = "handed to the cluster"
    future: Any = None
    errors: int = 0
    fetched: Future[Attempt] | None = None

    # Where no worker has it yet, none will.
    def _ask_to_stop(self) -> None:
        self.at.stop(len(self.asked), self.why)
        if self.future is None or self.future.key not in self.at.on_workers:
            self.at.release(self.future)
            self._fetch()

    def insist(self) -> None:
        """Leave it to the worker, which asks once more where it takes too long to stop."""

    def ended(self) -> Attempt | None:
        """The outcome, once all that it has left is here."""
        if self.fetched is None:
            self._look()
        return self.fetched.result() if self.fetched and self.fetched.done() else None

    # What is lost, with its worker or its scheduler, is handed over again: the store says whether
    # anything is left to be done.
    def _look(self) -> None:
        status = "lost" if self.future is None else self.future.status
        if status in LOST_STATES:
            self.future = self.at.hand_over(self.task)
        elif status == "error":
            self._fail(str(self.future.exception()))
        elif status == "finished":
            self._fetch()

    def _fail(self, reason: str) -> None:
        self.errors += 1
        if self.errors >= MOST_ERRORS:
            problem = f"the cluster cannot run {self.point.name}"
            raise ClusterError(problem, said=reason, hint="the log of its worker may say more")
        self.at.release(self.future)
        self.future = None

    def _fetch(self) -> None:
        self.fetched = self.at.pool.submit(insistently, self._outcome)
        self.fetched.add_done_callback(lambda _: self.at.news.set())

    def _outcome(self) -> Attempt:
        self.courier.fetch(out())
        tries = self.courier.folder.attempts(self.point)
        if tries and tries[-1].state != BEGUN:
            return tries[-1]
        return Attempt.begin(len(tries) + 1, "").ended(STOPPED, self.why, "Stopped")


@dataclass
class OnCluster(Workplace):
    """The workers of a Dask cluster as the place where points are begun."""

    address: str
    store: CampaignStore
    note: Callable[[str], None]
    retries: int = 2
    limit: float | None = None
    here: bool = False
    """Whether all its workers are on this machine."""
    see_to: Callable[[Task], None] = see_to
    client: Any = None
    pair: Any = None
    """The TLS pair of a cluster made here."""
    run: str = field(default_factory=lambda: f"labkit-{secrets.token_hex(8)}")
    working: dict[str, FarPoint] = field(default_factory=dict)
    on_workers: frozenset[str] = frozenset()
    """Keys of the tasks that workers had when they were asked to stop."""
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(AT_ONCE))
    news: threading.Event = field(default_factory=threading.Event)
    _stop: tuple[int, str] = (0, "")
    _threads: int = 1
    _missed: set[str] = field(default_factory=set)
    _counted: float = 0.0
    _looked: float = 0.0
    _lost: float | None = None

    def needs(self, lab: str) -> Needs:
        """The hosts of a lab; a box on the machine of a worker is a resource alone."""
        return Needs() if lab == "box" and not self.here else Needs.of(lab)

    def taken(self) -> Taken:
        """Room for a point on each thread of its workers, and some more to be at hand."""
        room = BESIDE * max(self._threads, 1)
        return Taken(room, room)

    def begin(
        self, folder: CampaignFolder, point: CampaignPoint, number: int, words: Sequence[str]
    ) -> FarPoint:
        """Hand a point to the cluster; tries that were made here go with it."""
        courier = Courier(self.store, point, folder, out())
        if number > 1:
            insistently(courier.send_tries)
        task = Task(self.store.url, folder.name, point, self.run, self.retries, self.limit)
        far = FarPoint(point=point, needs=self.needs(point.lab), at=self, task=task,
                       courier=courier)  # fmt: skip
        self.working[point.name] = far
        return far

    def hand_over(self, task: Task) -> Any:
        """A future of a task; None while there is no scheduler."""
        if not self._reach():
            return None
        name = resource(task.point.lab)
        future = self.client.submit(
            self.see_to, task, pure=False, priority=-task.point.number,
            key=f"{task.campaign}-{task.point.name}-{secrets.token_hex(4)}",
            resources={name: 1} if name else None,
        )  # fmt: skip
        future.add_done_callback(lambda _: self.news.set())
        return future

    def stop(self, times: int, reason: str) -> None:
        """Tell the workers, once for all points."""
        if times <= self._stop[0]:
            return
        self._stop = times, reason
        with suppress(*LOSSES):
            self._tell_stop()
            tasks = self.client.processing().values()
            self.on_workers = frozenset(str(key) for keys in tasks for key in keys)

    def _tell_stop(self) -> None:
        from distributed import Variable

        variable: Any = Variable
        variable(self.run, client=self.client).set(list(self._stop), timeout=TRY_SECONDS)

    def release(self, future: Any) -> None:
        """Have the cluster forget a task."""
        if future is not None and self.client.status == "running":
            with suppress(*LOSSES):
                self.client.cancel([future], force=True)

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a task has ended."""
        self.news.wait(seconds)
        self.news.clear()
        time.sleep(BATCH_SECONDS)
        names = [name for name, far in self.working.items() if far.fetched and far.fetched.done()]
        for name in names:
            del self.working[name]
        if time.monotonic() > self._counted + COUNT_SECONDS and self.client.status == "running":
            self._counted = time.monotonic()
            with suppress(*LOSSES):
                self.count()

    # How far a point is.
    def _hear(self, event: tuple[float, dict[str, Any]]) -> None:
        message = event[1]
        if far := self.working.get(message["point"]):
            far.said, far.seconds_left = message["said"], message["seconds_left"]

    def count(self) -> None:
        """See how many workers there are now, and whether one offers each lab."""
        self._threads = threads(self.client)
        offers = offered(self.client)
        needs = {name for far in self.working.values() if (name := resource(far.point.lab))}
        for name in sorted(needs - offers.keys() - self._missed):
            self.note(f"no worker offers {name} any more; its points wait for one")
        self._missed = needs - offers.keys()

    def listen(self) -> None:
        """Hear of points from now on, and have workers hear of stops."""
        self.client.subscribe_topic(self.run, self._hear)
        self._tell_stop()

    def _reach(self) -> bool:
        if self.client.status == "running":
            if self._lost is not None:
                self.note(f"the scheduler at {self.address} is back")
                self._lost = None
                self.listen()
            return True
        if self._lost is None:
            self._lost = time.monotonic()
            self.note(f"the scheduler at {self.address} is gone; runs that are kept stay")
        if time.monotonic() < self._looked + AGAIN_SECONDS or self.client.status == "connecting":
            return False
        self._looked = time.monotonic()
        try:
            self.client = connected(self.address, TRY_SECONDS, self.pair)
        except NoScheduler:
            if time.monotonic() > self._lost + LOST_SECONDS:
                raise
            return False
        return self._reach()

    def close(self) -> None:
        """Let the cluster go."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        let_go(self.client)


@dataclass(frozen=True)
class Cluster:
    """The place where a campaign runs: the cluster at an address, or some workers made here."""

    address: str = ""
    local: int = 0
    store: str = ""

    @contextmanager
    def joined(
        self, folder: CampaignFolder, retries: int, limit: float | None, note: Callable[[str], None]
    ) -> Iterator[OnCluster]:
        """The place where the points of a campaign are begun; what has ended is fetched."""
        store = store_of(self.store, folder)
        store.prove()
        gather(store, folder)
        labs = {point.lab for point in folder.points}
        at = cluster_here(self.local, labs) if self.local else nullcontext((self.address, None))
        with at as (address, pair):
            client = connected(address, pair=pair)
            cluster = OnCluster(address, store, note, retries, limit, bool(self.local),
                                client=client, pair=pair)  # fmt: skip
            try:
                insist_alike(versions(client))
                insist_offered(client, labs, address)
                cluster.listen()
                cluster.count()
                yield cluster
            finally:
                cluster.close()


def store_of(url: str, folder: CampaignFolder) -> CampaignStore:
    """The store of these points of a campaign; other points of its name have another."""
    names = "\n".join(point.name for point in folder.points)
    digest = hashlib.sha256(names.encode()).hexdigest()[:8]
    # A folder of ours is seen by workers on other machines only where they share it.
    root = url.rstrip("/") or os.path.join(out(), "stores")
    return CampaignStore.open(f"{root}/{folder.name}-{digest}")


def gather(store: CampaignStore, folder: CampaignFolder) -> None:
    """Bring here what has ended while no conductor was there."""
    tries = filter(None, map(TRY.fullmatch, store.below("points")))
    ended = {tried[1] for tried in tries if not (folder.path / tried[0]).exists()}
    missing = [Courier(store, point, folder, out()) for point in folder.points
               if point.name in ended]  # fmt: skip
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda courier: courier.fetch(out()), missing))
