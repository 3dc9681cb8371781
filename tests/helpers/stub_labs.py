"""A campaign of stub points on as many labs as wanted: the real scheduler, and nothing measured.

`python stub_labs.py ADDRESS FIRST LAST FOLDER` is a process of Dask workers, one for each lab.
"""

import asyncio
import resource
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dask_here import dask_here, stub_point

from labkit.campaign import report
from labkit.campaign.asked import CampaignPoint
from labkit.campaign.cluster import OnCluster
from labkit.campaign.conductor import Conductor
from labkit.campaign.folder import CampaignFolder
from labkit.campaign.foreseen import Foreseen
from labkit.campaign.scheduler import connected

LAB = """name = "{name}"
ssh_config = "none"
[hosts.client]
control = "198.18.{a}.{b}"
[hosts.server]
control = "198.19.{a}.{b}"
"""
PROCESSES = 2


@dataclass(frozen=True)
class Simulated:
    """What a campaign of stub points took; memory is the peak of each process, in MiB."""

    labs: int
    points: int
    seconds: float
    finished: int
    scheduler: float
    conductor: float
    workers: float
    folder: CampaignFolder

    @property
    def rate(self):
        return self.points / self.seconds

    def ends(self):
        """How often each point has finished, by all records in the folder."""
        found = Counter()
        for file in self.folder.path.glob("points/*/attempt-*.json"):
            found[file.parent.name] += 1
        return found

    def report(self):
        """The report: seconds to write, bytes of the index, and of the whole folder."""
        start = time.monotonic()
        index = report.write(self.folder)
        took = time.monotonic() - start
        whole = sum(file.stat().st_size for file in index.parent.rglob("*") if file.is_file())
        return took, index.stat().st_size, whole


def made_up(folder, labs, points):
    """A campaign of `points` points, in turns on `labs` labs that nobody has."""
    (folder / "labs").mkdir()
    files = []
    for number in range(labs):
        file = folder / "labs" / f"stub{number}.toml"
        file.write_text(LAB.format(name=file.stem, a=number // 250, b=number % 250 + 1))
        files.append(str(file))
    those = tuple(
        CampaignPoint(n + 1, "lat_ping", files[n % labs], {"count": 300}, n // labs + 1)
        for n in range(points)
    )
    path = folder / "out" / "campaigns" / "stub"
    return CampaignFolder(path, "stub", those, "", "")._keep()


@contextmanager
def labs_offered(folder, labs, out, **env):
    """A scheduler and a worker for each lab, as a client and the process of the scheduler."""
    with dask_here(folder, out, **env) as dask, ExitStack() as ending:
        scheduler = dask.scheduler()
        begin_labs(dask, labs)
        client = connected(dask.address)
        ending.callback(client.close)
        client.wait_for_workers(labs, timeout=600)
        yield dask, client, scheduler


def begin_labs(dask, labs):
    """Begin the workers of these labs, in a few processes."""
    share = -(-labs // PROCESSES)
    for first in range(0, labs, share):
        last = min(first + share, labs)
        words = [sys.executable, __file__, dask.address, str(first), str(last), str(dask.folder)]
        dask.running.append(subprocess.Popen(words, env=dask.env, start_new_session=True))


def simulated(folder, labs, points):
    """Run it; LABKIT_OUT has to be folder / "out"."""
    campaign, out = made_up(folder, labs, points), folder / "out"
    with labs_offered(folder, labs, out) as (dask, client, scheduler):
        conductor = conducting(campaign, dask, client)
        start = time.monotonic()
        conductor.conduct()
        took = time.monotonic() - start
        memory = [peak(one.pid) for one in (scheduler, *dask.running[1:])]
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Simulated(
        labs, points, took, conductor.finished, memory[0], own, sum(memory[1:]), campaign
    )


def conducting(campaign, dask, client, retries=2):
    """The conductor of stub points on a cluster, with room for all of its workers."""
    on_cluster = OnCluster(dask.address, client, print, see_to=stub_point)
    on_cluster.count()
    foreseen = {point.name: Foreseen(0.01, "a stub") for point in campaign.points}
    return Conductor(campaign, foreseen, lambda _: None, print, retries, at=on_cluster)


def peak(pid):
    """The most memory that a process had so far, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(found) / 1024


async def workers(address, first, last, folder):
    """Be the workers of these labs until the scheduler is gone."""
    import dask
    from distributed import Worker

    # Each worker looks at its loop and at its process many times a second: with hundreds of them in
    # one process nothing else gets done.
    dask.config.set({
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": "10s",
        "distributed.admin.system-monitor.interval": "1h",
    })  # fmt: skip
    async with asyncio.TaskGroup() as group:
        for number in range(first, last):
            worker = await Worker(
                address, nthreads=1, name=f"stub{number}", local_directory=folder,
                resources={f"lab-stub{number}": 1}, memory_limit=0, dashboard=False,
            )  # fmt: skip
            group.create_task(worker.finished())


if __name__ == "__main__":
    asyncio.run(workers(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
