"""A thousand labs and a hundred thousand points: each point once, in bounded time and memory."""

import random
import signal
import threading

import pytest
from stub_labs import begin_labs, conducting, labs_offered, made_up, simulated
from waiting import awaited

from labkit.campaign import report

pytestmark = pytest.mark.slow


def insist_once(ends, campaign):
    assert set(ends.values()) == {1} and len(ends) == len(campaign.points)
    assert all(len(campaign.attempts(point)) == 1 for point in campaign.points)


@pytest.mark.when_changed("labkit/campaign/")
def test_each_stub_point_is_finished_once_on_the_lab_that_it_names(tmp_path, monkeypatch, own_out):
    done = simulated(tmp_path, 10, 100)
    assert done.finished == 100
    insist_once(done.ends(), done.folder)
    monkeypatch.setattr(report, "MOST_ROWS", 40)
    done.report()
    pages = sorted((done.folder.path / "report").glob("points-*.html"))
    index = (done.folder.path / "report" / "index.html").read_text()
    assert [page.name for page in pages if page.name not in index] == []
    rows = [page.read_text().count('<tr><td class="number">') for page in pages]
    assert rows == [40, 40, 20]


@pytest.mark.torture
def test_a_hundred_thousand_points_on_a_thousand_labs(tmp_path, own_out):
    done = simulated(tmp_path, 1000, 100_000)
    took, index, whole = done.report()
    print(
        f"{done.rate:.0f} points/s; MiB: scheduler {done.scheduler:.0f}, conductor"
        f" {done.conductor:.0f}, all workers {done.workers:.0f}; report: {took:.0f} s, index"
        f" {index / 1e6:.1f} MB, folder {whole / 1e6:.1f} MB"
    )
    assert done.finished == 100_000
    insist_once(done.ends(), done.folder)
    assert done.scheduler < 2000 and done.conductor < 4000


@pytest.mark.torture
@pytest.mark.parametrize("number", range(10))
def test_deaths_on_a_cluster_finish_each_point_once(tmp_path, number, own_out):
    chosen, campaign = random.Random(number), made_up(tmp_path, 20, 1000)
    with labs_offered(tmp_path, 20, tmp_path / "out", STUB_SECONDS="0.02") as (dask, client, one):
        conductor = conducting(campaign, dask, client, retries=10)
        killing = threading.Timer(chosen.uniform(0.5, 4), one.send_signal, [signal.SIGKILL])
        killing.start()
        working = threading.Thread(target=conductor.conduct, daemon=True)
        working.start()
        killing.join()
        for dead in dask.running:
            dead.wait(60)
        dask.scheduler()
        begin_labs(dask, 20)
        awaited(lambda: not working.is_alive(), 300)
    assert conductor.finished == 1000 and not conductor.failed
    states = [attempt.state for point in campaign.points for attempt in campaign.attempts(point)]
    assert states.count("finished") == 1000
