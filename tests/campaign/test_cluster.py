"""A campaign on a Dask cluster measures each point once, whatever dies, and stops cleanly."""

import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from campaigns import (
    ONE,
    TWO,
    WORKER,
    begun,
    folder,
    insist_whole,
    labkit,
    made_up,
    processes,
    wait_for,
    written,
)
from dask_here import dask_here, s3_here

from labkit import __version__, errors
from labkit.campaign.attempts import DIED, FINISHED, Attempt
from labkit.campaign.cluster import scheduler
from labkit.campaign.cluster.on_cluster import gather
from labkit.campaign.cluster.store import COMMAND, CampaignStore
from labkit.machine import records

LONG = 300
"""So many processes begin one after the other that a busy machine takes its time."""
RECORDED = 'labs = ["recorded"]\n[[study]]\nname = "lat_vmxnet3"\n'


@pytest.fixture(scope="module")
def s3():
    """A real S3 server with a bucket; its environment is that of this process meanwhile."""
    with s3_here("labkit") as env, pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        yield env


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.slow)])
def kept(request, tmp_path):
    """A store of each kind, with nothing in it."""
    if request.param == "folder":
        return CampaignStore.open(str(tmp_path / "store"))
    request.getfixturevalue("s3")
    return CampaignStore.open(f"s3://labkit/{tmp_path.name}")


def test_a_store_gives_back_what_was_written_last(kept):
    kept.prove()
    kept.put("points/a/files/x", b"1")
    kept.put("points/a/files/x", b"2")
    assert kept.read("points/a/files/x") == b"2" and kept.read("points/b") is None
    kept.put("points/a/attempt-1.json", b"{}")
    assert kept.below("points/a") == ["points/a/attempt-1.json", "points/a/files/x"]
    assert kept.below("points/b") == []


@pytest.mark.slow
def test_what_is_wrong_with_a_store_is_said_by_class(s3, tmp_path, monkeypatch):
    with pytest.raises(errors.StoreRefused, match="make the bucket first"):
        CampaignStore.open("s3://nobodys/x").prove()
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.StoreRefused, match="cannot be used"):
        CampaignStore.open(str(tmp_path / "file" / "x")).prove()
    with pytest.raises(errors.BadInput, match="is not a store"):
        CampaignStore.open("nothing://x")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    store_of = CampaignStore.open("s3://labkit/other")
    store_of.fs.clear_instance_cache()
    with pytest.raises(errors.NoCredentials, match="AWS_PROFILE"):
        CampaignStore.open("s3://labkit/other").prove()


def test_without_the_packages_the_command_that_brings_them_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        errors.NotInstalled, match=r"checkout of labkit: pip install -e '\.\[cluster\]'"
    ):
        scheduler.connected("tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(errors.NotInstalled) as error:
        CampaignStore.open("s3://x/y")
    assert error.value.exit_code == 2 and COMMAND in str(error.value)


@pytest.mark.when_changed("labkit/campaign/")
@pytest.mark.slow
def test_an_address_without_a_scheduler_is_refused(tmp_path):
    file = written(tmp_path, RECORDED)
    result = labkit("campaign", "run", file, "--scheduler", "tcp://127.0.0.1:9", out=tmp_path)
    assert result.returncode == 1 and "no scheduler answers at tcp://127.0.0.1:9" in result.stderr
    alone = labkit("campaign", "run", file, "--store", "/x", out=tmp_path)
    assert alone.returncode == 2 and "--scheduler ADDRESS" in alone.stderr


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
            dask.worker("lab-other")
            client.wait_for_workers(2, timeout=60)
            with pytest.raises(errors.NoWorker, match="offer lab-other 2 times"):
                scheduler.insist_offered(client, ["/x/other.toml"], dask.address)
        finally:
            scheduler.let_go(client)


@pytest.mark.when_changed("labkit/campaign/")
@pytest.mark.slow
def test_a_campaign_on_workers_made_here_is_as_one_without_them(s3, tmp_path):
    file, out = written(tmp_path, RECORDED), tmp_path / "out"
    words = ("campaign", "run", file, "--local", "1", "--store", f"s3://labkit/{tmp_path.name}")
    result = labkit(*words, "--json", out=out)
    assert result.returncode == 0, result.stderr
    (point,) = json.loads(result.stdout)["points"]
    assert point["state"] == "finished" and point["verdicts"] and point["attempts"] == 1
    own = out / "campaigns/small/points" / point["name"]
    answer = json.loads((own / "answer.json").read_text())
    assert Path(answer["notebook"]) == own / "notebook.ipynb" and (own / "notebook.html").exists()
    assert Path(answer["report"]).is_file()
    assert (out / "campaigns/small/report/index.html").is_file()
    again = labkit(*words, out=tmp_path / "elsewhere")
    assert again.returncode == 0 and "finished in" not in again.stderr, "another machine sees it"
    wait_for(lambda: not processes(out), 20)
    assert not [*out.glob("cluster/*/*")]


# `test_any_death.py` has the same at random moments.
@pytest.mark.torture
def test_a_killed_worker_and_a_scheduler_that_is_lost_change_nothing(lab, tmp_path):
    file, out = written(lab, TWO), tmp_path / "out"
    with dask_here(tmp_path, out) as dask:
        first, worker = dask.scheduler(), dask.worker("lab-loopback")
        wait_for(lambda: b"Registered" in (tmp_path / "dask-1.log").read_bytes())
        run = begun("campaign", "run", file, "--scheduler", dask.address, out=out)
        dask.running.append(run)
        wait_for(lambda: processes(out, WORKER), LONG)
        worker.kill()
        dask.worker("lab-loopback")
        wait_for(lambda: [*out.glob("stores/*/points/0001*/attempt-*.json")], LONG)
        first.kill()
        first.wait()
        dask.scheduler()
        dask.worker("lab-loopback")
        said = run.communicate(timeout=LONG)[1]
        assert run.returncode == 0, said
    assert "is gone; runs that are kept stay" in said and "is back" in said
    insist_whole(out, kind=WORKER)


@pytest.mark.torture
@pytest.mark.slow
def test_a_point_whose_machine_died_is_tried_again_and_its_runs_are_kept(lab, tmp_path):
    file, out = written(lab, ONE), tmp_path / "out"
    with dask_here(tmp_path, out) as dask:
        dask.scheduler()
        dask.worker("lab-loopback")
        wait_for(lambda: b"Registered" in (tmp_path / "dask-1.log").read_bytes())
        run = begun("campaign", "run", file, "--scheduler", dask.address, out=out)
        dask.running.append(run)
        wait_for(lambda: [*out.glob("cluster/*/*/results/lat_ping/*/runs/*.begun")], LONG)
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
    wait_for(lambda: [*out.glob("cluster/*/*/results/lat_ping/*/runs/*.begun")], LONG)
    os.kill(run.pid, signal.SIGINT)
    said = run.communicate(timeout=LONG)[1]
    assert run.returncode == 130 and "0 of 1 points are finished" in said, said
    wait_for(lambda: not processes(out), 20)
    (point,) = folder(out).points
    assert {attempt.state for attempt in folder(out).attempts(point)} == {"stopped"}
    again = labkit(*words, out=out)
    assert again.returncode == 0, again.stderr
    insist_whole(out, [1], WORKER)


@pytest.mark.when_changed("labkit/campaign/")
@pytest.mark.slow
def test_what_ended_while_nobody_looked_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    half = made_up(tmp_path, "half", 2)
    point = half.points[1]
    (half.of(point) / "attempt-1.json").unlink()
    store = CampaignStore.open(str(tmp_path / "stores/half"))
    attempt = Attempt.begin(1, "").ended(FINISHED)
    store.put(f"points/{point.name}/attempt-1.json", records.pretty(asdict(attempt)))
    store.put(f"points/{point.name}/results/lat_ping/x/study.json", b"{}")
    gather(store, half)
    assert half.finished(point) and (tmp_path / "results/lat_ping/x/study.json").exists()
