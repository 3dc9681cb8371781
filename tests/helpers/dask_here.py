"""Dask clusters and an S3 server for tests: real processes of this machine, to be killed."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from campaigns import wait_for

HELPERS = str(Path(__file__).parent)
KEYS = {
    "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}  # fmt: skip


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@dataclass
class DaskHere:
    """A scheduler at a fixed port and its workers, each of which can be killed and begun again."""

    folder: Path
    env: dict
    port: int = field(default_factory=free_port)
    running: list = field(default_factory=list)

    @property
    def address(self):
        return f"tcp://127.0.0.1:{self.port}"

    def scheduler(self):
        words = ["--port", str(self.port), "--host", "127.0.0.1", "--no-dashboard"]
        one = self._begun("distributed.cli.dask_scheduler", *words)
        wait_for(lambda: _listens(self.port))
        return one

    def worker(self, *labs, env=None):
        offers = ["--resources", " ".join(f"{name}=1" for name in labs)] if labs else []
        return self._begun(
            "distributed.cli.dask_worker", self.address, "--no-dashboard", "--no-nanny",
            "--nthreads", "1", "--host", "127.0.0.1", "--local-directory", str(self.folder),
            *offers, env=env,
        )  # fmt: skip

    def _begun(self, module, *words, env=None):
        log = (self.folder / f"dask-{len(self.running)}.log").open("wb")
        one = subprocess.Popen(
            [sys.executable, "-m", module, *words], stdout=log, stderr=log,
            env={**self.env, **(env or {})}, start_new_session=True,
        )  # fmt: skip
        self.running.append(one)
        return one


@contextmanager
def dask_here(folder, out, **env):
    """No process of it yet; what was begun is ended with the block."""
    own = {
        "LABKIT_OUT": str(out),
        "XDG_STATE_HOME": str(Path(out) / "state"),
        "PYTHONPATH": HELPERS,
    }
    here = DaskHere(folder, {**os.environ, **own, **env})
    try:
        yield here
    finally:
        for one in here.running:
            one.kill()
            one.wait()


@contextmanager
def s3_here(*buckets):
    """moto's S3 server: its environment, with buckets in it."""
    port = free_port()
    with ExitStack() as ending:
        words = ["-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        one = subprocess.Popen([sys.executable, *words], stderr=subprocess.DEVNULL)
        ending.callback(one.wait)
        ending.callback(one.kill)
        wait_for(lambda: _listens(port))
        url = f"http://127.0.0.1:{port}"
        for bucket in buckets:
            asked = urllib.request.Request(f"{url}/{bucket}", method="PUT")
            urllib.request.urlopen(asked, timeout=30).close()
        yield {**KEYS, "AWS_ENDPOINT_URL": url}


def _listens(port):
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True


def stub_point(task):
    """A stub workload: the real records in the real store, and nothing measured."""
    from dataclasses import asdict

    from labkit.campaign.attempts import FINISHED, Attempt
    from labkit.campaign.cluster.store import CampaignStore
    from labkit.machine import records

    store, at = CampaignStore.open(task.store), f"points/{task.point.name}"
    if not store.below(at):
        time.sleep(float(os.environ.get("STUB_SECONDS", "0")))
        attempt = Attempt.begin(1, "").ended(FINISHED)
        store.put(f"{at}/attempt-1.json", records.pretty(asdict(attempt)))
