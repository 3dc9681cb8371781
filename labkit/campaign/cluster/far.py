"""Points on the workers of a cluster, as the conductor sees them."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from labkit import __version__
from labkit.campaign.at_work import GRACE_SECONDS
from labkit.campaign.attempts import STOPPED, Attempt
from labkit.campaign.cluster.bringing import Errand
from labkit.campaign.cluster.carrying import collected
from labkit.campaign.cluster.scheduler import (
    connected,
    let_go,
    offered,
    resource,
    threads,
)
from labkit.campaign.cluster.store import CampaignStore
from labkit.campaign.cluster.task import see_to
from labkit.campaign.cluster.tries import Tried
from labkit.campaign.folder import CampaignFolder
from labkit.campaign.places import Needs
from labkit.campaign.points import CampaignPoint
from labkit.campaign.queue import Taken
from labkit.errors import ClusterError, NoScheduler, StoreRefused
from labkit.machine.places import out

LOST_SECONDS = 600.0
"""For so long a scheduler that is gone is looked for."""
AGAIN_SECONDS, TRY_SECONDS = 2.0, 5.0
MOST_ERRORS = 3
BESIDE = 2
"""Points handed over for each thread of a worker, so that none has to wait for us."""
FEW, MANY = 8, 32
HEARD, HEAR_SECONDS, COUNT_SECONDS = 3, 2.0, 30.0
"""The longest at work are heard, which the line of progress shows."""
BATCH_SECONDS = 0.01
LOST = ("cancelled", "lost")
Task = Callable[[str, str], Mapping[str, Any]]


class _NothingSaid(Exception):
    """A task does not know what became of its try; it says why, if it was not lost itself."""


@dataclass
class FarPoint:
    """A point that a worker of the cluster sees to; its record in the store says how it ended."""

    at: OnCluster
    folder: CampaignFolder
    point: CampaignPoint
    errand: Errand
    needs: Needs
    said: str = "handed to the cluster"
    seconds_left: float | None = None
    why: str = ""
    asked: list[float] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    task: Any = None
    errors: int = 0
    kept: Future[Attempt] | None = None

    @property
    def tried(self) -> Tried:
        """Its records in the store."""
        return self.errand.tried(self.at.store)

    @property
    def seconds(self) -> float:
        """Seconds since it was handed over."""
        return time.monotonic() - self.begun

    def stop(self, why: str) -> None:
        """Ask the process that runs it to stop; where none does yet, none will."""
        self.why = self.why or why
        self.asked.append(time.monotonic())
        if len(self.asked) > 1:
            self.tried.ask_stop(len(self.asked), self.why)
        elif self.kept is None:
            asked = self.at.pool.submit(self._ask_stop)
            self._keep(lambda: self._stopped(asked))

    def _ask_stop(self) -> Attempt | None:
        self.tried.ask_stop(1, self.why)
        self.at.release(self.task)
        stopped = Attempt.begin(self.errand.number, "").ended(STOPPED, self.why, "Stopped")
        return self.tried.end(stopped) if self.tried.claim(stopped) else None

    def _stopped(self, asked: Future[Attempt | None]) -> Attempt:
        return asked.result() or self.tried.outcome()

    def insist(self) -> None:
        """Ask once more where it takes too long to stop."""
        if len(self.asked) == 1 and time.monotonic() > self.asked[0] + GRACE_SECONDS:
            self.stop(self.why)

    def ended(self) -> Attempt | None:
        """The outcome, once all that it has left is here."""
        if self.kept is None:
            self._look()
        if self.kept is None or not self.kept.done():
            return None
        try:
            return self.kept.result()
        except _NothingSaid as nothing:
            self.kept = None
            if why := str(nothing):
                self._failed(why)
            else:
                self.task = None
            return None

    # A task that is lost, with its worker or its scheduler, is handed over again: the record of its
    # try says whether anything is left to be done.
    def _look(self) -> None:
        status = "lost" if self.task is None else self.task.status
        if status in LOST:
            self.task = self.at.hand_over(self.errand)
        elif status == "error":
            self._failed(str(self.task.exception()))
        elif status == "finished":
            self._keep(self._said_by_task)

    def _said_by_task(self) -> Attempt:
        try:
            said = self.task.result()
        except Exception:  # its scheduler is gone by now, which has several names
            raise _NothingSaid("") from None
        if "refused" in said:
            raise _NothingSaid(said["refused"])
        return Attempt(**said)

    def _failed(self, why: str) -> None:
        self.errors += 1
        if self.errors >= MOST_ERRORS:
            what = f"the cluster cannot run {self.point.name}"
            raise ClusterError(what, said=why, hint="the log of its worker may say more")
        self.at.release(self.task)
        self.task = None

    def _keep(self, attempt: Callable[[], Attempt]) -> None:
        self.kept = self.at.keepers.submit(self._kept, attempt)
        self.kept.add_done_callback(lambda _: self.at.news.set())

    # A store may be out of reach for a while.
    def _kept(self, attempt: Callable[[], Attempt]) -> Attempt:
        until = time.monotonic() + LOST_SECONDS
        while True:
            try:
                found = attempt()
                collected(self.tried, self.folder, self.point, out())
                return found.keep(self.folder.of(self.point))
            except StoreRefused:
                if time.monotonic() > until:
                    raise
                time.sleep(AGAIN_SECONDS)


@dataclass
class OnCluster:
    """The workers of a Dask cluster as the place where points are begun."""

    address: str
    store: CampaignStore
    token: str
    note: Callable[[str], None]
    limit: float | None = None
    here: bool = False
    """Whether all its workers are on this machine."""
    see_to: Task = see_to
    client: Any = None
    pair: Any = None
    """The TLS pair of a cluster made here."""
    working: list[FarPoint] = field(default_factory=list)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(FEW))
    keepers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(MANY))
    """They may wait for points that are asked to stop."""
    news: threading.Event = field(default_factory=threading.Event)
    _threads: int = 1
    _missed: set[str] = field(default_factory=set)
    _counted: float = 0.0
    _looked: float = 0.0
    _lost: float | None = None
    _heard: Future[None] | None = None
    _hearing: float = 0.0

    def needs(self, lab: str) -> Needs:
        """The hosts of a lab; a box on the machine of a worker is a resource alone."""
        return Needs() if lab == "box" and not self.here else Needs.of(lab)

    def taken(self) -> Taken:
        """Room for a point on each thread of its workers, and some more to be at hand."""
        most = BESIDE * max(self._threads, 1)
        return Taken(most, most)

    def begin(
        self, folder: CampaignFolder, point: CampaignPoint, number: int, words: Sequence[str]
    ) -> FarPoint:
        """Hand a point to the cluster."""
        errand = Errand(
            self.store.url, folder.name, self.token, asdict(point), number, bool(words), self.limit
        )
        one = FarPoint(self, folder, point, errand, self.needs(point.lab))
        self.working.append(one)
        return one

    def hand_over(self, errand: Errand) -> Any:
        """A task for an errand; None while there is no scheduler."""
        if not self._reached():
            return None
        name = resource(str(errand.point["lab"]))
        point = CampaignPoint(**errand.point)
        task = self.client.submit(
            self.see_to, errand.word, __version__, pure=False, retries=0, priority=-point.number,
            key=f"{errand.campaign}-{point.name}-{errand.number}-{secrets.token_hex(4)}",
            resources={name: 1} if name else None,
        )  # fmt: skip
        task.add_done_callback(lambda _: self.news.set())
        return task

    def release(self, task: Any) -> None:
        """Have the cluster forget a task."""
        if task is not None and self.client.status == "running":
            with suppress(OSError, TimeoutError, RuntimeError):
                self.client.cancel([task], force=True)

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a task has ended."""
        self.news.wait(seconds)
        self.news.clear()
        time.sleep(BATCH_SECONDS)
        self.working = [one for one in self.working if not (one.kept and one.kept.done())]
        if time.monotonic() > self._hearing and (self._heard is None or self._heard.done()):
            self._hearing = time.monotonic() + HEAR_SECONDS
            self._heard = self.pool.submit(self._hear, self.working[:HEARD])

    # A store that cannot be read now is no matter for what is only shown.
    def _hear(self, those: Sequence[FarPoint]) -> None:
        for one in those:
            with suppress(StoreRefused):
                if pulse := one.tried.pulse():
                    one.said, one.seconds_left = str(pulse["said"]), pulse["seconds_left"]
        if time.monotonic() > self._counted + COUNT_SECONDS and self.client.status == "running":
            with suppress(OSError, TimeoutError, RuntimeError):
                self._counted = time.monotonic()
                self.count()

    def count(self) -> None:
        """See how many workers there are now, and whether one offers each lab."""
        self._threads = threads(self.client)
        there = offered(self.client)
        wanted = {name for one in self.working if (name := resource(one.point.lab))}
        for name in sorted(wanted - there.keys() - self._missed):
            self.note(f"no worker offers {name} any more; its points wait for one")
        self._missed = wanted - there.keys()

    def _reached(self) -> bool:
        if self.client is not None and self.client.status == "running":
            if self._lost is not None:
                self.note(f"the scheduler at {self.address} is back")
            self._lost = None
            return True
        if time.monotonic() < self._looked + AGAIN_SECONDS:
            return False
        self._looked = time.monotonic()
        return self._join_again()

    def _join_again(self) -> bool:
        if self._lost is None:
            self._lost = time.monotonic()
            self.note(f"the scheduler at {self.address} is gone; points at work go on meanwhile")
        if self.client is not None and self.client.status == "connecting":
            return False
        try:
            self.client = connected(self.address, TRY_SECONDS, self.pair)
        except NoScheduler:
            if time.monotonic() > self._lost + LOST_SECONDS:
                raise
            return False
        return self._reached()

    def close(self) -> None:
        """Let the cluster go."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.keepers.shutdown(wait=False, cancel_futures=True)
        let_go(self.client)
