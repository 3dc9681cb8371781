"""Servers that a killed run has left: seen, named, and ended by whoever comes next."""

import contextlib
import multiprocessing
import os
import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
import shops

from labkit.changes.restore import restore
from labkit.check import FAILURE, OK, WARNING, Subject
from labkit.checks.host import unfinished
from labkit.condition import Condition
from labkit.errors import HostError
from labkit.host import Host
from labkit.job import of_runs
from labkit.lab import Lab
from labkit.results import Results
from labkit.running import left_over, loop
from labkit.studies import find
from labkit.study import Study
from labkit.transports.local import Local
from labkit.workloads import _database, _lasting
from labkit.workloads._database import WantedShop, serving_shop
from labkit.workloads._lasting import key_of
from labkit.workloads._server import serving_on
from labkit.workloads.dvdstore import DvdStore
from labkit.workloads.ping import Ping
from labkit.workloads.redis import server_words

PROGRAMS = ("ping", "redis-server")
POSTGRES = WantedShop("10MB", 1, False, True, 32, 8)
ASKED = {"study": "lat_ping", "seed": 1, "refused": {}}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_JOBS", str(tmp_path / "jobs"))
    monkeypatch.setenv("LABKIT_CHANGES", str(tmp_path / "changes"))
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    host = Host("here", "127.0.0.1", Local("here"))
    yield host
    for job in host.jobs():
        job.cancel()
        job.forget()


def of_run(host, name):
    return replace(host, measuring=key_of(name, "", ""), run_name=f"docker_redis/{name}")


def redis(port):
    return server_words("127.0.0.1", port)


def killed(serve):
    """Serve in a process of its own until that is killed."""
    reads, writes = os.pipe()

    def wait():
        with serve():
            os.write(writes, b"!")
            signal.pause()

    process = multiprocessing.get_context("fork").Process(target=wait)
    process.start()
    assert os.read(reads, 1) == b"!"
    process.kill()
    process.join()
    return process.pid


@pytest.fixture
def left(here):
    """The number of the killed process."""
    first = of_run(here, "first")
    yield killed(lambda: serving_on(first, first, redis, 600))


def looked(here):
    lab = Lab("loopback", {"here": here}, tier="loopback", path=Path("lab.toml"))
    return list(unfinished.look(Subject(lab, ("here",))))


@pytest.mark.slow
def test_it_is_seen_by_the_doctor_and_ended_by_restore_which_name_it(here, left):
    (one,) = looked(here)
    assert one.state == FAILURE and one.fix == "labkit restore here --lab lab.toml"
    for part in ("the server of docker_redis/first", f"process {left}", "since 20"):
        assert part in one.found, one.found
    (line,) = left_over.put_back_on(Lab("loopback", {"here": here}, tier="loopback"))
    assert "the next run continues or ends it" in line
    done = restore(here)
    (line,) = done.lines
    assert done.ok and f"process {left}" in line and "is ended" in line
    assert here.jobs() == {} and str(restore(here)) == "nothing to put back"
    assert [one.state for one in looked(here)] == [OK]


@pytest.mark.slow
def test_the_next_run_of_other_results_ends_it_and_one_of_the_same_goes_on_with_it(
    here, left, tmp_path
):
    (job,) = here.jobs()
    first = of_run(here, "first")
    with serving_on(first, first, redis, 600) as port:
        assert job.key.endswith(f"-{port}") and list(here.jobs()) == [job]
        (one,) = of_runs.of_runs(here)
        assert one.owner.pid == str(os.getpid()) and not one.left
        assert [one.state for one in looked(here)] == [WARNING]
        (line,) = restore(here).lines
        assert "is left alone" in line and of_runs.end_left(here) == []
    assert here.jobs() == {}
    killed(lambda: serving_on(first, first, redis, 600))
    hosts = dict.fromkeys(("client", "server", "host"), here)
    lab = Lab("loopback", hosts, tier="loopback")
    told = []
    study = Study(
        name="lat_ping", title="t", question="q", source="s", workload=Ping(count=5, interval=0.01),
        conditions=(Condition("a", "a", "a"),), claims=(), metric="round trip", unit="us",
    )  # fmt: skip
    loop.run(study, lab, Results.begin(tmp_path / "other", ASKED), repeats=1, tell=told.append)
    assert here.jobs() == {}
    assert [one for one in told if "the server of docker_redis/first" in one.remark]


@pytest.mark.slow
def test_who_else_serves_is_named_where_a_server_does_not_begin(here):
    first, second = of_run(here, "first"), of_run(here, "second")
    with (
        serving_on(first, first, redis, 600),
        pytest.raises(HostError, match=r"docker_redis/first, followed by .*restore here --break"),
        serving_on(second, second, lambda _: ("sh", "-c", "exit 1"), 600),
    ):
        pass


@pytest.mark.slow
@pytest.mark.when_changed("labkit/workloads/_database.py", "labkit/job/")
@pytest.mark.parametrize("in_run", [False, True])
def test_a_database_that_a_killed_run_left_does_not_keep_the_next_from_its_files(
    here, monkeypatch, in_run
):
    with shops.place() as folder:
        monkeypatch.setattr(_database, "KEPT", str(folder / "kept"))
        first = dict.fromkeys(("client", "server"), of_run(here, "first"))
        killed(lambda: serving_shop(first, POSTGRES, 1, 600))
        assert len(here.jobs()) == 1
        next_one = of_run(here, "second") if in_run else here
        with serving_shop(dict.fromkeys(first, next_one), POSTGRES, 1, 600) as served:
            assert served.address.startswith("shop@127.0.0.1:")
            assert len(here.jobs()) == in_run
    assert here.jobs() == {}


SHOP = DvdStore(users=2, duration=6, warm_up=1, buffers=32)


def measure(here, path):
    hosts = dict.fromkeys(("client", "server", "host"), here)
    load = replace(find("dvdstore_docker"), workload=SHOP, claims=(),
                   conditions=(Condition("a", "a", "a"),))  # fmt: skip
    results = Results.begin(path, {"study": load.name, "seed": 1, "refused": {}})
    loop.run(load, Lab("loopback", hosts, tier="loopback"), results, repeats=1)
    return results


@pytest.mark.torture
def test_however_often_a_run_is_killed_the_next_of_any_results_is_made(here, tmp_path, monkeypatch):
    monkeypatch.setattr(_lasting, "LASTS_SECONDS", 3.0)
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    print(f"seed {seed}")
    with shops.place() as folder:
        monkeypatch.setattr(_database, "KEPT", str(folder / "kept"))
        for number in range(8):
            path = tmp_path / f"killed-{number}"
            run = multiprocessing.get_context("fork").Process(target=measure, args=(here, path))
            run.start()
            run.join(moments.uniform(2, 14))
            with contextlib.suppress(ProcessLookupError):
                os.kill(run.pid, signal.SIGKILL)
            run.join()
            if number % 2:
                start = time.monotonic()
                (done,) = measure(here, tmp_path / f"whole-{number}").finished()
                assert done.state == "finished" and time.monotonic() - start < 120
            else:
                assert restore(here).ok and here.jobs() == {}
    assert here.jobs() == {}
