"""A Dask cluster on this machine, for as long as a campaign runs.

Any client of a scheduler can have its workers run any program. So all of them, the client too,
prove themselves by a TLS pair that is made for this cluster and never leaves its folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from labkit.campaign.cluster.extra import needing_extra
from labkit.campaign.cluster.scheduler import resource
from labkit.errors import ClusterError, last_words
from labkit.machine import own_place

PROGRAMS = ("setpriv",)

SCHEDULER = "distributed.cli.dask_scheduler"
WORKER = "distributed.cli.dask_worker"
UP_SECONDS, END_SECONDS = 60.0, 10.0
LOOK_SECONDS = 0.1
# Each has a web server beside its port, for all networks unless it is told otherwise.
QUIET = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
NO_PAGES = {f"DASK_DISTRIBUTED__{role}__HTTP__ROUTES": "[]" for role in ("SCHEDULER", "WORKER")}
TEMPORARY = "labkit-dask-"


@contextmanager
def cluster_here(workers: int, labs: Collection[str]) -> Iterator[tuple[str, Any]]:
    """A scheduler with this number of workers, which share the labs: its address and TLS pair."""
    with needing_extra():
        from distributed.security import Security

        pair = Security.temporary()  # type: ignore[no-untyped-call]
    names = sorted({name for lab in labs if (name := resource(lab))})
    shares = [names[n::workers] for n in range(workers)]
    with own_place.temporary(TEMPORARY) as place, ExitStack() as running:
        common = [*QUIET, *_keep(pair, place), "--scheduler-file", _file(place)]
        words = [*common, "--protocol", "tls", "--port", "0", "--host", "127.0.0.1"]
        one = running.enter_context(_running(SCHEDULER, words, place / "scheduler.log"))
        _wait(Path(_file(place)), one, place / "scheduler.log")
        for number, share in enumerate(shares):
            log = place / f"worker-{number}.log"
            words = [*common, *_worker(place, number, share)]
            running.enter_context(_running(WORKER, words, log))
        yield str(json.loads(Path(_file(place)).read_text("utf-8"))["address"]), pair


# The pair is one file for each role of Dask's, with the same content.
def _keep(pair: Any, place: Path) -> list[str]:
    words = []
    texts = {"ca-file": pair.tls_ca_file, "cert": pair.tls_worker_cert, "key": pair.tls_worker_key}
    for name, text in texts.items():
        file = place / f"{name}.pem"
        file.touch(0o600)
        file.write_text(text, "ascii")
        words += [f"--tls-{name}", str(file)]
    return words


def _file(place: Path) -> str:
    return str(place / "scheduler.json")


def _worker(place: Path, number: int, share: Sequence[str]) -> list[str]:
    offers = ["--resources", " ".join(f"{name}=1" for name in share)] if share else []
    return [
        "--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--host", "127.0.0.1",
        "--name", f"worker-{number}", "--local-directory", str(place), *offers,
    ]  # fmt: skip


# They have sessions of their own, so that Ctrl-C is for the campaign, and none outlives it.
@contextmanager
def _running(module: str, words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", module, *words]
    with log.open("wb") as said:
        one = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            env={**os.environ, **NO_PAGES},
        )  # fmt: skip
    try:
        yield one
    finally:
        one.terminate()
        try:
            one.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


def _wait(file: Path, one: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + UP_SECONDS
    while not file.exists():
        if one.poll() is not None or time.monotonic() > until:
            said = last_words(log.read_text("utf-8", "replace"))
            raise ClusterError("no scheduler could be started here", said=said)
        time.sleep(LOOK_SECONDS)
