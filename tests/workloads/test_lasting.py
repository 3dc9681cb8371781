"""A run that lasts is a job: it goes on while nobody is connected, and nothing of it is left."""

import importlib
import re
import shutil
from pathlib import Path

import pytest
import shops
from leftovers import awaited

from labkit.errors import CommandFailed, HostError, TimedOut
from labkit.host import Host
from labkit.job.of_runs import SERVES
from labkit.transports.local import Local
from labkit.workload import Workload
from labkit.workloads import _database, _lasting
from labkit.workloads import _pairs as pairs
from labkit.workloads._lasting import checked, key_of
from labkit.workloads._server import serving_on
from labkit.workloads.dvdstore import DvdStore
from labkit.workloads.fio import Fio
from labkit.workloads.netperf import Netperf
from labkit.workloads.redis import Redis
from labkit.workloads.sockperf import Sockperf

PROGRAMS = ("netperf", "sockperf")

HOME = Path(__file__).resolve().parents[2]
WORKLOADS = HOME / "labkit/workloads"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_JOBS", str(tmp_path / "jobs"))
    host = Host("here", "127.0.0.1", Local("here"), measuring=key_of(tmp_path))
    yield host
    for job in host.jobs():
        job.cancel()
        job.forget()


# One with a server, and one with two; the rest in `make torture`.
LOADS = (
    Sockperf(duration=1), DvdStore(users=2, duration=2, warm_up=1, buffers=32, instances=2),
    *(pytest.param(one, marks=pytest.mark.torture) for one in
      (Netperf(duration=1), Redis(duration=1, clients=50),
       Fio(mebibytes=8, duration=1, jobs=1))),
)  # fmt: skip


@pytest.mark.when_changed("labkit/workloads/", "labkit/job/", "labkit/running/")
@pytest.mark.slow
@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_a_load_that_lasts_is_run_by_jobs_and_leaves_neither_them_nor_its_programs(
    here, tmp_path, monkeypatch, load
):
    if why := lacking(here, load):
        pytest.skip(why)
    started, start = [], Host.start

    def spied(self, *words, key, **how):
        started.append(SERVES in key)
        return start(self, *words, key=key, **how)

    monkeypatch.setattr(Host, "start", spied)
    monkeypatch.setattr(_lasting, "LASTS_SECONDS", 1.0)
    before = set(Path("/tmp").glob("labkit-programs.*"))
    with shops.place() as folder:
        monkeypatch.setattr(_database, "KEPT", str(folder / "kept"))
        text = pairs.run(load, {"": dict.fromkeys(load.roles, here)}, tmp_path)
    assert load.parse(text) and started.count(False) == 1
    assert here.jobs() == {}
    # Other tests bring programs at the same time, and take them away again.
    awaited(lambda: not set(Path("/tmp").glob("labkit-programs.*")) - before, 60)


def lacking(here, load):
    hosts = dict.fromkeys(load.roles, here)
    absent = pairs.absent([(load, {"": hosts})])
    return pairs.missing_tool(load, {"": hosts}, absent) or load.lacking(hosts)


def server_at(address):
    return lambda port: ("sockperf", "server", "--tcp", "-i", address, "-p", str(port))


def answers(here, address, port):
    """Whether what serves there answers a client, whose command is a job of the run."""
    words = ("sockperf", "ping-pong", "--tcp", "-i", address, "-p", str(port), "-t", "1")
    return "percentile" in checked(here, *words, seconds=30)


needs_sockperf = pytest.mark.skipif(not shutil.which("sockperf"), reason="needs sockperf")


@pytest.mark.slow
@needs_sockperf
def test_two_servers_of_a_run_on_one_host_serve_beside_each_other(here):
    first, second = "127.0.0.1", "127.0.0.2"
    with (
        serving_on(here, server_at(first), 60) as one,
        serving_on(here, server_at(second), 60) as two,
    ):
        assert len(here.jobs()) == 2
        for address, port in ((first, one), (second, two)):
            assert answers(here, address, port)
    assert here.jobs() == {}


@pytest.mark.slow
def test_a_server_that_cannot_serve_says_why_and_is_not_left(here):
    failing = ("sh", "-c", "echo no such thing >&2; exit 1")
    with (
        pytest.raises(HostError, match=r"ended before it was ready[\s\S]*no such thing"),
        serving_on(here, lambda _: failing, 60),
    ):
        pass
    assert here.jobs() == {}


@pytest.mark.slow
def test_what_an_earlier_run_of_the_results_left_is_ended_first(here, tmp_path):
    left = here.start("sleep", "100", key=f"{key_of(tmp_path)}-load", seconds=200)
    other = here.start("sleep", "100", key=f"{key_of('other')}-load", seconds=200)
    assert checked(here, "echo", "new", seconds=30) == "new\n"
    assert [job.key for job in here.jobs()] == [other.key] != [left.key]


@pytest.mark.slow
def test_a_job_of_a_run_fails_as_any_command_does(here):
    with pytest.raises(CommandFailed, match="code 3") as error:
        checked(here, "sh", "-c", "echo why >&2; exit 3", seconds=30)
    assert "why" in str(error.value)
    with pytest.raises(TimedOut, match="had not ended"):
        checked(here, "sleep", "50", seconds=1)
    assert here.jobs() == {}


def of_file(path):
    """A load of the class that a file of the collection offers."""
    module = importlib.import_module(f"labkit.workloads.{path.stem}")
    offered = [
        var for var in vars(module).values() if getattr(var, "__module__", "") == module.__name__
    ]
    (load,) = [one for one in offered if isinstance(one, type) and issubclass(one, Workload)]
    return load()


def test_the_page_names_each_load_whose_commands_are_no_jobs():
    page = (HOME / "notebooks/docs/hosts.md").read_text("utf-8")
    said = page.partition("restart their run instead:")[2].partition(". ")[0]
    none = {load.name for load in map(of_file, WORKLOADS.glob("[!_]*.py")) if not load.longest}
    assert set(re.findall(r"`(\w+)`", said)) == none
