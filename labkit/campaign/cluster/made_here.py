"""A Dask cluster on this machine, for as long as a campaign runs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from labkit.campaign.cluster.extra import needing_extra
from labkit.campaign.cluster.scheduler import resource
from labkit.errors import ClusterError, last_words

PROGRAMS = ("setpriv",)

SCHEDULER = "distributed.cli.dask_scheduler"
WORKER = "distributed.cli.dask_worker"
UP_SECONDS, END_SECONDS = 60.0, 10.0
LOOK_SECONDS = 0.1
QUIET = ("--no-dashboard",)


@contextmanager
def cluster_here(workers: int, labs: Collection[str]) -> Iterator[str]:
    """The address of a scheduler with this number of workers, which share the labs."""
    with needing_extra():
        import distributed  # noqa: F401
    names = sorted({name for lab in labs if (name := resource(lab))})
    shares = [names[n::workers] for n in range(workers)]
    with tempfile.TemporaryDirectory(prefix="labkit-dask-") as folder, ExitStack() as running:
        place = Path(folder)
        words = [*QUIET, "--port", "0", "--host", "127.0.0.1", "--scheduler-file", _file(place)]
        one = running.enter_context(_running(SCHEDULER, words, place / "scheduler.log"))
        _wait(Path(_file(place)), one, place / "scheduler.log")
        for number, share in enumerate(shares):
            log = place / f"worker-{number}.log"
            running.enter_context(_running(WORKER, _worker(place, number, share), log))
        yield str(json.loads(Path(_file(place)).read_text("utf-8"))["address"])


def _file(place: Path) -> str:
    return str(place / "scheduler.json")


def _worker(place: Path, number: int, share: Sequence[str]) -> list[str]:
    offers = ["--resources", " ".join(f"{name}=1" for name in share)] if share else []
    return [
        *QUIET, "--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--host", "127.0.0.1",
        "--name", f"worker-{number}", "--local-directory", str(place),
        "--scheduler-file", _file(place), *offers,
    ]  # fmt: skip


# They have sessions of their own, so that Ctrl-C is for the campaign, and none outlives it.
@contextmanager
def _running(module: str, words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", module, *words]
    with log.open("wb") as said:
        one = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
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
