"""Dask clusters for tests: real processes of this machine, to be killed."""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from waiting import awaited, free_port

from labkit.campaign.folder import FINISHED, Attempt, CampaignFolder

HELPERS = str(Path(__file__).parent)


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
        awaited(lambda: _listens(self.port))
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
        "LABKIT_OUT": str(out), "XDG_STATE_HOME": str(Path(out) / "state"), "PYTHONPATH": HELPERS,
    }  # fmt: skip
    here = DaskHere(folder, {**os.environ, **own, **env})
    try:
        yield here
    finally:
        for one in here.running:
            one.kill()
            one.wait()


def _listens(port):
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True


def stub_point(path, point, run, version):
    """A stub workload: the real records in the real folder, and nothing measured."""
    folder = CampaignFolder(Path(path), Path(path).name, (point,), "", "")
    if not folder.finished(point):
        time.sleep(float(os.environ.get("STUB_SECONDS", "0")))
        number = 1 + len(folder.attempts(point))
        Attempt.begin(number).ended(FINISHED).keep(folder.of(point))
    return folder.attempts(point)[-1]
