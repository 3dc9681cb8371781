"""The task of a Dask worker: to see to one try at a point, which a process brings about."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import asdict
from typing import Any

from labkit import __version__
from labkit.campaign.cluster.bringing import Errand
from labkit.campaign.cluster.store import open_store
from labkit.errors import ClusterError, LabkitError, UnlikeVersions, last_words
from labkit.machine import lean

BRINGING = "labkit.campaign.cluster.bringing"
Said = dict[str, Any]


def see_to(word: str, version: str) -> Said:
    """Return what became of a try, or why it is unknown; a Dask task may begin this twice."""
    try:
        if version != __version__:
            raise UnlikeVersions(f"labkit is {__version__} on a worker and {version} with you")
        return asdict(_seen_to(Errand.read(word)))  # a task gives back what any process can read
    except LabkitError as failed:
        return {"refused": str(failed), "kind": type(failed).__name__}


def _seen_to(errand: Errand) -> Any:
    tried = errand.tried(open_store(errand.store))
    if tried.claimed() is None:
        _bring(errand)
    return tried.outcome()


# In a session of its own: it ends its work also where its worker was killed.
def _bring(errand: Errand) -> None:
    with tempfile.TemporaryFile() as log:
        words = lean.words(BRINGING, errand.word)
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        log.seek(0)
        said = last_words(log.read().decode("utf-8", "replace"))
    if done.returncode:
        what = f"the process of a point ended with code {done.returncode}"
        raise ClusterError(what, said=said)
