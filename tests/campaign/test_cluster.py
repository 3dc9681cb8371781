"""A campaign on a Dask cluster measures each point once, whatever dies, and stops cleanly."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from campaigns import (
    ONE,
    WORKER,
    begun,
    folder,
    insist_whole,
    labkit,
    processes,
    written,
)
from dask_here import dask_here
from waiting import awaited

from labkit import __version__, errors
from labkit.campaign import cluster, scheduler
from labkit.campaign.folder import DIED, FINISHED
from labkit.campaign.scheduler import COMMAND

LONG = 300
"""So many processes begin one after the other that a busy machine takes its time."""
RECORDED = 'labs = ["recorded"]\n[[study]]\nname = "lat_vmxnet3"\n'


def test_without_the_packages_the_command_that_brings_them_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    words = r"checkout of labkit: pip install -e '\.\[cluster\]'"
    with pytest.raises(errors.NotInstalled, match=words) as error:
        scheduler.connected("tcp://127.0.0.1:1")
    assert error.value.exit_code == 2


@pytest.mark.when_changed("labkit/campaign/")
@pytest.mark.slow
def test_an_address_without_a_scheduler_is_refused(tmp_path):
    file = written(tmp_path, RECORDED)
    result = labkit("campaign", "run", file, "--scheduler", "tcp://127.0.0.1:9", out=tmp_path)
    assert result.returncode == 1 and "no scheduler answers at tcp://127.0.0.1:9" in result.stderr


def told(here, *workers):
    """What a cluster says whose workers have these versions, and all others those of `here`."""
    packages = [{"packages": worker} for worker in workers]
    names = [f"tcp://worker-{n}" for n in range(len(workers))]
    here = {"packages": here}
    return {"client": here, "scheduler": here, "workers": dict(zip(names, packages, strict=True))}


def test_other_versions_are_named_with_their_place():
    here = {"python": "3.11.7", "dask": "2026.8.0", "distributed": "2026.8.0",
            "cloudpickle": "3", "msgpack": "1", "labkit": __version__}  # fmt: skip
    scheduler.insist_alike(told(here, here, {**here, "python": "3.11.2"}))
    with pytest.raises(errors.UnlikeVersions, match=r"dask is 2025\.1 on tcp://worker-0, 2026"):
        scheduler.insist_alike(told(here, {**here, "dask": "2025.1"}))
    with pytest.raises(errors.UnlikeVersions, match="labkit is missing on tcp://worker-1") as error:
        scheduler.insist_alike(told(here, here, {**here, "labkit": None}))
    assert COMMAND in str(error.value), "the index has another project of that name"
    with pytest.raises(errors.UnlikeVersions, match=r"python is 3\.12 on"):
        scheduler.insist_alike(told(here, {**here, "python": "3.12.1"}))


@pytest.mark.when_changed("labkit/campaign/")
@pytest.mark.slow
def test_a_lab_that_no_worker_or_two_workers_offer_is_refused(tmp_path):
    with dask_here(tmp_path, tmp_path / "out") as dask:
        dask.scheduler()
        dask.worker("lab-other")
        client = scheduler.connected(dask.address)
        try:
            client.wait_for_workers(1, timeout=60)
            with pytest.raises(errors.NoWorker, match='--resources "lab-here=1"'):
                scheduler.insist_offered(client, ["/x/here.toml"], dask.address)
            scheduler.insist_offered(client, ["/x/other.toml", "recorded"], dask.address)
            with pytest.raises(errors.BadInput, match="would both be lab-other"):
                scheduler.insist_offered(client, ["/x/other.toml", "/y/other.toml"], dask.address)
            scheduler.insist_alike(scheduler.versions(client))
            with pytest.raises(errors.ClusterError, match="does not see /x/campaigns/lost"):
                cluster._insist_shared(client, "/x/campaigns/lost")
            dask.worker("lab-other")
            client.wait_for_workers(2, timeout=60)
            with pytest.raises(errors.NoWorker, match="offer lab-other 2 times"):
                scheduler.insist_offered(client, ["/x/other.toml"], dask.address)
        finally:
            scheduler.let_go(client)


@pytest.mark.when_changed("labkit/campaign/")
@pytest.mark.slow
def test_a_campaign_on_workers_made_here_is_as_one_without_them(tmp_path):
    file, out = written(tmp_path, RECORDED), tmp_path / "out"
    words = ("campaign", "run", file, "--local", "1")
    result = labkit(*words, "--json", out=out)
    assert result.returncode == 0, result.stderr
    (point,) = json.loads(result.stdout)["points"]
    assert point["state"] == "finished" and point["verdicts"] and point["attempts"] == 1
    own = out / "campaigns/small/points" / point["name"]
    answer = json.loads((own / "answer.json").read_text())
    assert Path(answer["notebook"]) == own / "notebook.ipynb" and (own / "notebook.html").exists()
    assert Path(answer["report"]).is_file()
    assert (out / "campaigns/small/report/index.html").is_file()
    again = labkit(*words, out=out)
    assert again.returncode == 0 and "finished in" not in again.stderr
    awaited(lambda: not processes(out), 20)


@pytest.mark.torture
@pytest.mark.slow
def test_a_point_whose_machine_died_is_tried_again_and_its_runs_are_kept(lab, tmp_path):
    file, out = written(lab, ONE), tmp_path / "out"
    with dask_here(tmp_path, out) as dask:
        dask.scheduler()
        dask.worker("lab-loopback")
        awaited(lambda: b"Registered" in (tmp_path / "dask-1.log").read_bytes())
        run = begun("campaign", "run", file, "--scheduler", dask.address, out=out)
        dask.running.append(run)
        awaited(lambda: [*out.glob("results/lat_ping/*/runs/*.begun")], LONG)
        for pid in processes(out, WORKER):
            os.kill(pid, signal.SIGKILL)
        said = run.communicate(timeout=LONG)[1]
        assert run.returncode == 0, said
    insist_whole(out, [1], WORKER)
    died, done = folder(out).attempts(folder(out).points[0])
    assert died.state == DIED and done.state == FINISHED


@pytest.mark.torture
@pytest.mark.slow
def test_a_stop_reaches_the_cluster_and_the_next_run_goes_on(lab, tmp_path):
    # A stop takes seconds to arrive where much else runs; the point takes longer than that.
    file, out = written(lab, ONE.replace("300", "2000")), tmp_path / "out"
    words = ("campaign", "run", file, "--local", "1")
    run = begun(*words, out=out)
    awaited(lambda: [*out.glob("results/lat_ping/*/runs/*.begun")], LONG)
    os.kill(run.pid, signal.SIGINT)
    said = run.communicate(timeout=LONG)[1]
    assert run.returncode == 130 and "0 of 1 points are finished" in said, said
    awaited(lambda: not processes(out), 20)
    (point,) = folder(out).points
    assert {attempt.state for attempt in folder(out).attempts(point)} == {"stopped"}
    again = labkit(*words, out=out)
    assert again.returncode == 0, again.stderr
    insist_whole(out, [1], WORKER)
