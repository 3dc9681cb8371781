"""A campaign on a Dask cluster measures each point once, whatever dies, and stops cleanly."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from campaigns import (
    ONE,
    TWO,
    asked,
    begun,
    finished_runs,
    folder,
    labkit,
    measured_once,
    processes,
    wait_for,
    written,
)
from dask_here import claims, dask_here, s3_here

from labkit import __version__, errors
from labkit.campaign.attempts import DIED, FINISHED, Attempt
from labkit.campaign.cluster import extra, scheduler, store
from labkit.campaign.cluster.joining import gather
from labkit.campaign.cluster.store import FolderStore, open_store, prove
from labkit.campaign.cluster.tries import Tried

LONG = 300
"""So many processes begin one after the other that a busy machine takes its time."""
BRINGING = "labkit.campaign.cluster.bringing"
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
        return open_store(str(tmp_path / "store"))
    request.getfixturevalue("s3")
    return open_store(f"s3://labkit/{tmp_path.name}")


def test_a_name_is_given_once_however_many_ask_for_it(kept):
    prove(kept)
    won = []

    def ask(number):
        if kept.create("points/a/claim-1.json", str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(won) == 1
    assert kept.read("points/a/claim-1.json") == str(won[0]).encode()
    kept.put("points/a/files/x", b"1")
    kept.put("points/a/files/x", b"2")
    assert kept.read("points/a/files/x") == b"2" and kept.read("points/b") is None
    assert kept.below("points/a") == ["points/a/claim-1.json", "points/a/files/x"]
    assert kept.below("points/b") == []


@pytest.mark.slow
def test_a_try_ends_once_and_who_was_thought_dead_comes_too_late(kept):
    one = Tried(kept, "0001-x", 1)
    mine = Attempt.begin(1, "")
    assert one.claim(mine) and not one.claim(mine)
    one.beat(1, "measuring", 9.0)
    assert one.pulse()["said"] == "measuring" and one.stop_asked() == (0, "")
    died = one.outcome(silence=0.3, look=0.05)
    assert died.state == DIED and "has not been heard of" in died.why
    assert one.end(mine.ended(FINISHED)) == died == one.ended()


@pytest.mark.slow
def test_who_waits_for_a_try_that_beats_gets_its_end(kept):
    one = Tried(kept, "0001-x", 1)
    mine = Attempt.begin(1, "")
    assert one.claim(mine)

    def work():
        for count in range(12):
            one.beat(count, "measuring", None)
            time.sleep(0.05)
        one.end(mine.ended(FINISHED))

    worker = threading.Thread(target=work)
    worker.start()
    assert one.outcome(silence=0.5, look=0.02).state == FINISHED
    worker.join()


@pytest.mark.slow
def test_a_try_whose_process_was_killed_here_has_died_at_once(kept):
    one = Tried(kept, "0001-x", 1)
    code = (
        "import json, dataclasses\nfrom labkit.campaign.attempts import Attempt\n"
        "print(json.dumps(dataclasses.asdict(Attempt.begin(1, ''))))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert one.claim(Attempt(**json.loads(said)))
    begin = time.monotonic()
    assert "was killed" in one.outcome().why and time.monotonic() - begin < 10


class Careless(FolderStore):
    """A store that writes over what is there, as one without conditional writes does."""

    def create(self, name, whole):
        self.put(name, whole)
        return True


def test_a_store_that_gives_a_name_twice_is_refused(tmp_path):
    prove(FolderStore(str(tmp_path)))
    with pytest.raises(errors.StoreRefused, match="accepts the same name twice"):
        prove(Careless(str(tmp_path)))


@pytest.mark.slow
def test_what_is_wrong_with_a_store_is_said_by_class(s3, tmp_path, monkeypatch):
    with pytest.raises(errors.StoreRefused, match="make the bucket first"):
        prove(open_store("s3://nobodys/x"))
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.StoreRefused, match="cannot be used"):
        prove(open_store(str(tmp_path / "file" / "x")))
    with pytest.raises(errors.BadInput, match="is not a store"):
        open_store("nothing://x")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    store_of = open_store("s3://labkit/other")
    store_of.fs.clear_instance_cache()
    with pytest.raises(errors.NoCredentials, match="AWS_PROFILE"):
        prove(open_store("s3://labkit/other"))


def test_without_the_packages_the_command_that_brings_them_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        errors.NotInstalled, match=r"checkout of labkit: pip install -e '\.\[cluster\]'"
    ):
        scheduler.connected("tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(errors.NotInstalled) as refused:
        store.open_store("s3://x/y")
    assert refused.value.exit_code == 2 and extra.COMMAND in str(refused.value)


@pytest.mark.when_changed("labkit/campaign/")
@pytest.mark.slow
def test_an_address_without_a_scheduler_is_refused(tmp_path):
    file = written(tmp_path, RECORDED)
    done = labkit("campaign", "run", file, "--scheduler", "tcp://127.0.0.1:9", out=tmp_path)
    assert done.returncode == 1 and "no scheduler answers at tcp://127.0.0.1:9" in done.stderr
    alone = labkit("campaign", "run", file, "--store", "/x", out=tmp_path)
    assert alone.returncode == 2 and "--scheduler ADDRESS" in alone.stderr


def told(here, *workers):
    """What a cluster says whose workers have these versions, and all others those of `here`."""
    packages = [{"packages": one} for one in workers]
    names = [f"tcp://worker-{n}" for n in range(len(workers))]
    here = {"packages": here}
    return {"client": here, "scheduler": here, "workers": dict(zip(names, packages, strict=True))}


def test_other_versions_are_named_with_their_place():
    here = {"python": "3.11.7", "dask": "2026.8.0", "distributed": "2026.8.0",
            "cloudpickle": "3", "msgpack": "1", "labkit": __version__}  # fmt: skip
    scheduler.insist_alike(told(here, here, {**here, "python": "3.11.2"}))
    with pytest.raises(errors.UnlikeVersions, match=r"dask is 2025\.1 on tcp://worker-0, 2026"):
        scheduler.insist_alike(told(here, {**here, "dask": "2025.1"}))
    with pytest.raises(errors.UnlikeVersions, match="labkit is missing on tcp://worker-1") as odd:
        scheduler.insist_alike(told(here, here, {**here, "labkit": None}))
    assert extra.COMMAND in str(odd.value), "the index has another project of that name"
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
    done = labkit(*words, "--json", out=out)
    assert done.returncode == 0, done.stderr
    (point,) = json.loads(done.stdout)["points"]
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


def insist_whole(out, points):
    campaign = folder(out)
    assert measured_once(campaign) and len(campaign.points) == points
    wanted = {point.name: [("Native", 1, 1), ("Native", 2, 2)] for point in campaign.points}
    assert finished_runs(campaign) == wanted and asked(campaign).keys() == wanted.keys()
    wait_for(lambda: not processes(out, BRINGING), 20)
    for name, records in claims(out / "stores").items():
        ends = [one for key, one in records.items() if key.startswith("end-")]
        assert [one["state"] for one in ends].count(FINISHED) == 1, name
        assert len([key for key in records if key.startswith("claim-")]) == len(ends)


# `test_any_death.py` has the same at random moments.
@pytest.mark.torture
def test_a_killed_worker_and_a_scheduler_that_is_lost_change_nothing(lab, tmp_path):
    file, out = written(lab, TWO), tmp_path / "out"
    with dask_here(tmp_path, out) as dask:
        first, worker = dask.scheduler(), dask.worker("lab-loopback")
        wait_for(lambda: b"Registered" in (tmp_path / "dask-1.log").read_bytes())
        run = begun("campaign", "run", file, "--scheduler", dask.address, out=out)
        dask.running.append(run)
        wait_for(lambda: processes(out, BRINGING), LONG)
        worker.kill()
        dask.worker("lab-loopback")
        wait_for(lambda: len(claims(out / "stores")) > 1, LONG)
        first.kill()
        first.wait()
        dask.scheduler()
        dask.worker("lab-loopback")
        said = run.communicate(timeout=LONG)[1]
        assert run.returncode == 0, said
    assert "is gone; points at work go on" in said and "is back" in said
    insist_whole(out, 2)
    tries = [folder(out).attempts(point) for point in folder(out).points]
    assert [len(some) for some in tries] == [1, 1], "the points went on without their worker"


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
        for pid in processes(out, BRINGING):
            os.kill(pid, signal.SIGKILL)
        said = run.communicate(timeout=LONG)[1]
        assert run.returncode == 0, said
    insist_whole(out, 1)
    died, done = folder(out).attempts(folder(out).points[0])
    assert died.state == DIED and done.state == FINISHED and "again in 5 s" in said


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
    states = {one.state for point in folder(out).points for one in folder(out).attempts(point)}
    assert states == {"stopped"}
    again = labkit(*words, out=out)
    assert again.returncode == 0, again.stderr
    insist_whole(out, 1)


@pytest.mark.when_changed("labkit/campaign/")
@pytest.mark.slow
def test_what_ended_while_nobody_looked_is_fetched(tmp_path, monkeypatch):
    from campaigns import made_up

    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    half = made_up(tmp_path, "half", 2)
    point = half.points[1]
    (half.of(point) / "attempt-1.json").unlink()
    there = open_store(str(tmp_path / "stores/half"))
    Tried(there, point.name, 1).end(Attempt.begin(1, "").ended(FINISHED))
    there.put(f"points/{point.name}/results/lat_ping/x/study.json", b"{}")
    gather(there, half)
    assert half.finished(point) and (tmp_path / "results/lat_ping/x/study.json").exists()
