"""One try at a point on a machine of a cluster, in a process that outlives its Dask worker.

`python -m labkit.campaign.cluster.bringing ERRAND` claims the try and runs the point as any
campaign does. It beats meanwhile, and ends the try once all that it made is in the store.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from labkit.campaign.at_work import AtWork
from labkit.campaign.attempts import FAILED, STOPPED, Attempt
from labkit.campaign.cluster.carrying import Courier, PapermillWay
from labkit.campaign.cluster.store import CampaignStore, open_store
from labkit.campaign.cluster.tries import BEAT_SECONDS, SILENCE_SECONDS, Tried
from labkit.campaign.folder import CampaignFolder, holding
from labkit.campaign.points import CampaignPoint
from labkit.campaign.worker import PUT_BACK
from labkit.errors import LabkitError, StoreRefused
from labkit.machine.places import out

TICK_SECONDS = 0.1
STRAY_SECONDS = SILENCE_SECONDS * 2 / 3
"""Without its store for so long, a point stops: others may soon count it as dead."""
SEND_SECONDS = 600.0
SHARED = ("columns", "journal", "noise")
"""Folders that the measurements of one machine share, whichever point makes them."""
FENCED = "another process ended this try, because nothing was heard from it"


@dataclass(frozen=True)
class Errand:
    """The content of a Dask task: the store, the point, and which try at it."""

    store: str
    campaign: str
    token: str
    point: Mapping[str, Any]
    number: int
    putting_back: bool = False
    limit: float | None = None

    @classmethod
    def read(cls, text: str) -> Errand:
        """The errand that a word holds."""
        return cls(**json.loads(text))

    @property
    def word(self) -> str:
        """The same as a word of a command."""
        return json.dumps(asdict(self))

    def tried(self, store: CampaignStore) -> Tried:
        """The try, by its records."""
        return Tried(store, CampaignPoint(**self.point).name, self.number)


@dataclass
class Pulse:
    """Beats in a thread of its own; hears whether to stop, and whether it counts as dead."""

    tried: Tried
    one: AtWork | None = None
    stops: int = 0
    why: str = ""
    heard: float = field(default_factory=time.monotonic)
    fenced: bool = False
    _count: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def beating(self) -> Iterator[Pulse]:
        """Beat until the end of the block."""
        thread = threading.Thread(target=self._beat_on, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    @property
    def strays(self) -> bool:
        """Whether the store could not be written for long."""
        return time.monotonic() - self.heard > STRAY_SECONDS

    def _beat_on(self) -> None:
        while not self._ended.is_set():
            with suppress(StoreRefused):
                self._beat()
            self._ended.wait(BEAT_SECONDS)

    def _beat(self) -> None:
        self._count += 1
        said = self.one.said if self.one else "getting ready"
        self.tried.beat(self._count, said, self.one.seconds_left if self.one else None)
        self.heard = time.monotonic()
        self.stops, self.why = self.tried.stop_asked()
        self.fenced = self.fenced or self.tried.ended() is not None


def main(words: list[str]) -> None:
    """Do what the errand says; a try that somebody else has is left alone."""
    errand = Errand.read(words[0])
    store = open_store(errand.store)
    PapermillWay(store).register()
    bring(errand, errand.tried(store))


def bring(errand: Errand, tried: Tried) -> None:
    """Run the try to its end, if nobody else has it; what could not be sent stays on this disk."""
    if not tried.claim(Attempt.begin(errand.number, "")):
        return
    scratch = _scratch(errand)
    try:
        tried.end(_brought(errand, tried, scratch))
    except LabkitError as failed:
        begun = Attempt.begin(errand.number, "")
        tried.end(begun.ended(FAILED, str(failed), type(failed).__name__))
    else:
        shutil.rmtree(scratch, ignore_errors=True)


# The same for all tries at a point here: what one has left half done, the next one goes on with.
def _scratch(errand: Errand) -> Path:
    digest = hashlib.sha256(f"{errand.store} {errand.token}".encode()).hexdigest()[:12]
    return out() / "cluster" / digest / CampaignPoint(**errand.point).name


def _brought(errand: Errand, tried: Tried, scratch: Path) -> Attempt:
    point = CampaignPoint(**errand.point)
    with holding(scratch / ".held", f"the point {point.name}"), Pulse(tried).beating() as pulse:
        _furnish(scratch)
        os.environ["LABKIT_OUT"] = str(scratch)
        folder = CampaignFolder.alone(errand.campaign, point)
        courier = Courier(tried, folder, point, scratch)
        courier.fetch_runs()
        words = [PUT_BACK] if errand.putting_back else []
        pulse.one = AtWork.begin(folder, point, errand.number, words)
        attempt = _accompanied(pulse.one, pulse, courier, errand.limit)
        _send(courier)
        why = pulse.one.why if attempt.state == STOPPED else ""
        return replace(attempt, why=why or attempt.why)


def _furnish(scratch: Path) -> None:
    for name in SHARED:
        there = out() / name
        there.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            (scratch / name).symlink_to(there)


def _accompanied(one: AtWork, pulse: Pulse, courier: Courier, limit: float | None) -> Attempt:
    sent = time.monotonic()
    while (attempt := one.ended()) is None:
        one.insist()
        if pulse.fenced or pulse.strays:
            _stop(one, 1, FENCED if pulse.fenced else "its store is out of reach")
        if limit is not None and one.seconds > limit:
            _stop(one, 1, f"it took longer than its limit of {limit:.0f} s")
        _stop(one, pulse.stops, pulse.why)
        if time.monotonic() - sent > BEAT_SECONDS:
            sent = time.monotonic()
            with suppress(StoreRefused, OSError):
                courier.send_runs()
        time.sleep(TICK_SECONDS)
    return attempt


def _stop(one: AtWork, times: int, why: str) -> None:
    while len(one.asked) < times:
        one.stop(why)


# What was measured is not lost because a network is away for a while.
def _send(courier: Courier) -> None:
    until = time.monotonic() + SEND_SECONDS
    while True:
        try:
            return courier.send_all()
        except StoreRefused:
            if time.monotonic() > until:
                raise
            time.sleep(BEAT_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
