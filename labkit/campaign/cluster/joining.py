"""A campaign joins a cluster: store and workers are proven, and what has ended is fetched."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.campaign.cluster.carrying import collected
from labkit.campaign.cluster.far import FEW, OnCluster
from labkit.campaign.cluster.made_here import cluster_here
from labkit.campaign.cluster.scheduler import (
    connected,
    insist_alike,
    insist_offered,
    versions,
)
from labkit.campaign.cluster.store import CampaignStore, open_store, prove
from labkit.campaign.cluster.tries import Tried
from labkit.campaign.folder import CampaignFolder
from labkit.errors import BadInput, NoWorker
from labkit.machine import records
from labkit.machine.places import out

BEGUN = "begun.json"
ENDED = re.compile(r"points/([^/]+)/end-(\d+)\.json")
WORKERS_SECONDS = 60


@dataclass(frozen=True)
class Cluster:
    """The place where a campaign runs: the cluster at an address, or some workers made here."""

    address: str = ""
    local: int = 0
    store: str = ""

    @contextmanager
    def joined(
        self, folder: CampaignFolder, limit: float | None, note: Callable[[str], None]
    ) -> Iterator[OnCluster]:
        """The place where the points of a campaign are begun."""
        store = open_store(f"{self._root(folder)}/{folder.name}")
        prove(store)
        token = begun(store, folder)
        gather(store, folder)
        labs = {point.lab for point in folder.points}
        with self._open_cluster(labs) as (address, pair):
            client = connected(address, pair=pair)
            cluster = OnCluster(
                address, store, token, note, limit, bool(self.local), client=client, pair=pair
            )
            try:
                self._insist(client, labs, address)
                cluster.count()
                yield cluster
            finally:
                cluster.close()

    @contextmanager
    def _open_cluster(self, labs: set[str]) -> Iterator[tuple[str, Any]]:
        if self.address:
            yield self.address, None
            return
        with cluster_here(self.local, labs) as cluster:
            yield cluster

    def _insist(self, client: Any, labs: set[str], address: str) -> None:
        if self.local:
            try:
                client.wait_for_workers(self.local, timeout=WORKERS_SECONDS)
            except TimeoutError as late:
                raise NoWorker("no worker could be started here", said=str(late)) from None
        insist_alike(versions(client))
        insist_offered(client, labs, address)

    # A folder of ours is seen by workers on other machines only where they share it.
    def _root(self, folder: CampaignFolder) -> str:
        return self.store.rstrip("/") or str(out() / "stores")


def begun(store: CampaignStore, folder: CampaignFolder) -> str:
    """The token of a campaign in its store, new or to go on with; other points are refused."""
    keys = "\n".join(point.name for point in folder.points)
    digest = hashlib.sha256(keys.encode()).hexdigest()
    mine = {"token": secrets.token_hex(8), "points": digest}
    if store.create(BEGUN, json.dumps(mine).encode()):
        store.put("campaign.json", folder.record)
    kept = records.parse_json(store.read(BEGUN) or b"", f"{store.url}/{BEGUN}")
    if kept.get("points") != digest:
        what = f"{store.url} holds a campaign of other points"
        raise BadInput(what, hint="another --store, or another name for this campaign")
    return str(kept["token"])


def gather(store: CampaignStore, folder: CampaignFolder) -> None:
    """Bring here what has ended while no conductor was there."""
    points = {point.name: point for point in folder.points}
    ended = (ENDED.fullmatch(name) for name in store.below("points"))
    with ThreadPoolExecutor(FEW) as pool:
        missing = [
            Tried(store, one[1], int(one[2])) for one in ended
            if one and one[1] in points and not _is_here(folder.of(points[one[1]]), one[2])
        ]  # fmt: skip
        list(pool.map(lambda one: _bring(one, folder, points[one.point]), missing))


def _is_here(own: Path, number: str) -> bool:
    return (own / f"attempt-{number}.json").exists()


def _bring(tried: Tried, folder: CampaignFolder, point: Any) -> None:
    collected(tried, folder, point, out())
    if attempt := tried.ended():
        attempt.keep(folder.of(point))
