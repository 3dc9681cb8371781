"""A run that lasts is a job: a study whose process was killed goes on with the run under way."""

import importlib
import multiprocessing
import os
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import shops
from waiting import awaited

from labkit.claim import Ratio
from labkit.condition import Condition
from labkit.errors import CommandFailed, HostError, TimedOut, Unreachable
from labkit.host import Host
from labkit.lab import Lab
from labkit.results import Results
from labkit.running import loop
from labkit.study import Study
from labkit.transports.local import Local
from labkit.workload import Workload
from labkit.workloads import _database, _lasting
from labkit.workloads import _pairs as pairs
from labkit.workloads._lasting import checked, key_of
from labkit.workloads._server import serving_on
from labkit.workloads.dvdstore import DvdStore
from labkit.workloads.fio import Fio
from labkit.workloads.netperf import Netperf
from labkit.workloads.ping import Ping
from labkit.workloads.redis import Redis
from labkit.workloads.sockperf import Sockperf

PROGRAMS = ("netperf", "ping", "sockperf")

pytestmark = pytest.mark.skipif(not shutil.which("ping"), reason="needs iputils-ping")
HOME = Path(__file__).resolve().parents[2]
WORKLOADS = HOME / "labkit/workloads"
SECONDS = 9
CLAIM = Ratio("c", "s", "nowhere", percentile=50, over="a", under="a", published=1, within=9)
STUDY = Study(
    name="lat_ping", title="t", question="q", source="s",
    workload=Ping(count=SECONDS * 10, interval=0.1), conditions=(Condition("a", "a", "a"),),
    claims=(CLAIM,),
    metric="round trip", unit="us",
)  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LABKIT_JOBS", str(tmp_path / "jobs"))
    host = Host("here", "127.0.0.1", Local("here"), measuring=key_of(str(tmp_path), "", ""))
    yield host
    for job in host.jobs():
        job.cancel()
        job.forget()


@pytest.fixture
def shop():
    with shops.place() as folder:
        yield folder / "kept"


def killed(here, target, *args, **how):
    """The key of the one job of a process that was killed as soon as that had begun."""
    process = multiprocessing.get_context("fork").Process(target=target, args=args, kwargs=how)
    process.start()
    (key,) = awaited(lambda: clients(here), pause=0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    return key


def clients(here):
    return [job.key for job in here.jobs() if _lasting.SERVES not in job.key]


def starts_of_loads(monkeypatch):
    """The keys of all jobs that this process starts from now on, but for those of servers."""
    started, start = [], Host.start

    def spied(self, *words, key, **how):
        if _lasting.SERVES not in key:
            started.append(key)
        return start(self, *words, key=key, **how)

    monkeypatch.setattr(Host, "start", spied)
    return started


def measure(path, study=STUDY):
    transport = Local("here")
    roles = ("client", "server", "host")
    hosts = {role: Host(role, "127.0.0.1", transport) for role in roles}
    lab = Lab("loopback", hosts, tier="loopback")
    results = Results.begin(path, {"study": "lat_ping", "seed": 1, "refused": {}})
    loop.run(study, lab, results, repeats=1)


@pytest.mark.slow
def test_a_study_whose_process_was_killed_goes_on_with_the_run_that_is_still_running(
    here, tmp_path, monkeypatch
):
    path = tmp_path / "results"
    key = killed(here, measure, path)
    started = starts_of_loads(monkeypatch)
    measure(path)
    (run,) = Results.begin(path, {"study": "lat_ping", "seed": 1, "refused": {}}).finished()
    assert key in run.text("under_way.txt")
    assert run.text("ping.txt").count(" bytes from ") == SECONDS * 10
    assert started == []
    assert here.jobs() == {}


def of(load):
    """What the study above asks, of another load."""
    sample = {"Fio": ("max iops", "1/s"), "Redis": ("throughput", "1/s"),
              "Netperf": ("netperf rate", "1/s"), "Sockperf": ("round trip", "us"),
              "DvdStore": ("orders per minute", "1/min")}  # fmt: skip
    metric, unit = sample[type(load).__name__]
    return replace(STUDY, workload=load, metric=metric, unit=unit)


# One with a server, and one with two; the rest in `make torture`.
LOADS = (
    Sockperf(duration=7), DvdStore(users=2, duration=6, warm_up=1, buffers=32, instances=2),
    *(pytest.param(one, marks=pytest.mark.torture) for one in
      (Netperf(duration=7), Redis(duration=7, clients=50),
       Fio(mebibytes=8, duration=2, jobs=1))),
)  # fmt: skip


@pytest.mark.when_changed("labkit/workloads/", "labkit/job/", "labkit/running/")
@pytest.mark.slow
@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_so_does_one_whose_load_has_a_server_or_a_program_of_ours(
    here, tmp_path, monkeypatch, load, shop
):
    if why := lacking(here, load):
        pytest.skip(why)
    monkeypatch.setattr(_lasting, "LASTS_SECONDS", 3.0)
    monkeypatch.setattr(_database, "KEPT", str(shop))
    study, path = of(load), tmp_path / "results"
    before = set(Path("/tmp").glob("labkit-programs.*"))
    key = killed(here, measure, path, study)
    started = starts_of_loads(monkeypatch)
    measure(path, study)
    (run,) = Results.begin(path, {"study": "lat_ping", "seed": 1, "refused": {}}).finished()
    assert key in run.text("under_way.txt") and load.parse(run.text(f"{load.name}.txt"))
    assert started == []
    assert here.jobs() == {}
    # Other tests bring programs at the same time, and take them away again.
    awaited(lambda: not set(Path("/tmp").glob("labkit-programs.*")) - before)


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
@pytest.mark.parametrize("gone", [False, True])
def test_a_server_of_a_run_is_found_again_unless_it_ended_unasked(here, gone):
    command = server_at("127.0.0.1")
    with pytest.raises(Unreachable), serving_on(here, here, command, 60) as port:
        raise Unreachable("as if the connection had been lost")
    (job,) = here.jobs()
    if gone:
        job.cancel()
    with serving_on(here, here, command, 60) as again:
        assert (again == port) is not gone
        assert answers(here, "127.0.0.1", again)
    assert here.jobs() == {}


@pytest.mark.slow
@needs_sockperf
def test_two_servers_of_a_run_on_one_host_serve_beside_each_other(here):
    first, second = "127.0.0.1", "127.0.0.2"
    with (
        serving_on(here, here, server_at(first), 60) as one,
        serving_on(here, here, server_at(second), 60) as two,
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
        serving_on(here, here, lambda _: failing, 60),
    ):
        pass
    assert here.jobs() == {}


@pytest.mark.slow
def test_a_command_of_a_run_is_started_once_however_often_it_is_asked_for(here, tmp_path):
    words = ("sh", "-c", f"echo once >> {tmp_path}/started; sleep 2; echo done")
    killed(here, checked, here, *words, seconds=30)
    assert checked(here, *words, seconds=30) == "done\n"
    assert (tmp_path / "started").read_text() == "once\n"


@pytest.mark.slow
def test_what_a_try_of_the_run_under_other_changes_left_is_ended_first(here, tmp_path):
    other = key_of(str(tmp_path), "", "other changes")
    left = here.start("sleep", "100", key=f"{other}-{_lasting.digest('x')}", seconds=200)
    assert checked(here, "echo", "new", seconds=30) == "new\n"
    assert left.key not in [job.key for job in here.jobs()]


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
