"""Fifty campaigns, each with a death at a random moment: of a process, a scheduler or a host.

Half of them run here, half on a Dask cluster. What each leaves is what an undisturbed one leaves.
"""

import random
import shutil
import time
from types import SimpleNamespace

import pytest
from campaigns import (
    CONTROLLER,
    KERNEL,
    TWO,
    WORKER,
    asked,
    begun,
    folder,
    host_dies,
    kill,
    labkit,
    processes,
    runs,
    written,
)
from campaigns import insist_whole as insist_all
from dask_here import dask_here
from waiting import awaited

from labkit.campaign.folder import DIED, FAILED, FINISHED

pytestmark = [pytest.mark.torture]
HOST, SCHEDULER, DASK_WORKER = "host", "scheduler", "Dask worker"
HERE = (CONTROLLER, WORKER, KERNEL, HOST)
THERE = (*HERE, SCHEDULER, DASK_WORKER)
LONG = 300
ENDS = {FINISHED, DIED, FAILED, "stopped"}


@pytest.fixture(scope="module")
def undisturbed(lab, tmp_path_factory):
    """The same campaign, whole: what its results say was asked, and its seconds."""
    out, begin = tmp_path_factory.mktemp("undisturbed") / "out", time.monotonic()
    assert labkit("campaign", "run", written(lab, TWO), out=out).returncode == 0
    return SimpleNamespace(seconds=time.monotonic() - begin, asked=asked(folder(out)))


def insist_whole(out, undisturbed):
    """All points as in the undisturbed campaign, each run measured once, nobody left at work."""
    campaign = insist_all(out, kind=WORKER)
    assert asked(campaign) == undisturbed.asked
    assert {tried.state for p in campaign.points for tried in campaign.attempts(p)} <= ENDS
    states = {run[3] for some in runs(campaign).values() for run in some}
    assert states <= {"finished", "interrupted", "failed"}


@pytest.mark.parametrize("number", range(0, 50, 2))
def test_a_death_at_any_moment_changes_nothing(lab, undisturbed, tmp_path, number):
    chosen = random.Random(number)
    file, out = written(lab, TWO), tmp_path / "out"
    first = begun("campaign", "run", file, out=out)
    time.sleep(chosen.uniform(0, undisturbed.seconds))
    what = chosen.choice(HERE)
    die(what, lab, out)
    if what != CONTROLLER and chosen.random() < 0.5:  # and soon after it the controller too
        time.sleep(chosen.uniform(0, 8))
        first.kill()
    first.communicate(timeout=LONG)
    print(f"{what} died; the campaign ended with {first.returncode}")
    again = labkit("campaign", "run", file, out=out)
    assert again.returncode == 0, again.stderr
    insist_whole(out, undisturbed)
    awaited(lambda: not processes(out), 20)
    shutil.rmtree(out)


@pytest.mark.parametrize("number", range(1, 50, 2))
def test_a_death_at_any_moment_changes_nothing_on_a_cluster(lab, undisturbed, tmp_path, number):
    chosen = random.Random(number)
    file, out = written(lab, TWO), tmp_path / "out"
    with dask_here(tmp_path, out) as dask:
        scheduler, worker = dask.scheduler(), dask.worker("lab-loopback")
        words = ("campaign", "run", file, "--scheduler", dask.address)
        awaited(lambda: b"Registered" in (tmp_path / "dask-1.log").read_bytes())
        first = begun(*words, out=out)
        dask.running.append(first)
        time.sleep(chosen.uniform(0, 1.5 * undisturbed.seconds))
        what = chosen.choice(THERE)
        if what in (SCHEDULER, DASK_WORKER):
            for one in (worker, scheduler) if what == SCHEDULER else (worker,):
                one.kill()
                one.wait()
            time.sleep(chosen.uniform(0, 5))
            if what == SCHEDULER:
                dask.scheduler()
            dask.worker("lab-loopback")
        else:
            die(what, lab, out)
        first.communicate(timeout=LONG)
        print(f"{what} died; the campaign ended with {first.returncode}")
        again = labkit(*words, out=out)
        assert again.returncode == 0, again.stderr
        insist_whole(out, undisturbed)
    shutil.rmtree(out)


def die(what, lab, out):
    if what == HOST:
        host_dies(lab / "loopback-server")
    else:
        kill(out, what)
