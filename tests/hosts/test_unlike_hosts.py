"""One lab of unlike hosts: a study runs on each unchanged, and settings go back byte for byte."""

import json
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import unlike
from lab_toml import lab_toml, table
from pairs_tried import texts

from labkit import studies
from labkit.changes.in_force import applied
from labkit.changes.journal import hello
from labkit.changes.plan import plan
from labkit.gates import gate
from labkit.lab import opened
from labkit.results import Results
from labkit.running import loop, possible
from labkit.running.open_lab import study_results, with_load
from labkit.settings.mtu import Mtu
from labkit.settings.sockets import SocketBuffers, Sysctl
from labkit.workloads import _pairs as pairs

PROGRAMS = ("busybox", "ip", "netserver")
pytestmark = [pytest.mark.slow, pytest.mark.box]
ABOUT = pytest.mark.when_changed(
    "labkit/workloads/", "labkit/changes/", "labkit/transports/", "labkit/host.py"
)
SETTINGS = [Sysctl("net.core.somaxconn", "777"), Mtu(1400),
            SocketBuffers("receive", 4096, 100000, 3000000)]  # fmt: skip
# The one that has least is tried each time.
LONG = [
    pytest.param(kind, marks=[] if kind == "busybox" else [pytest.mark.torture])
    for kind in unlike.KINDS
]


@pytest.fixture(scope="module")
def hosts():
    with ExitStack() as held:
        kept = tempfile.TemporaryDirectory(dir="/var/tmp", prefix="labkit-unlike-")
        yield held.enter_context(unlike.hosts(Path(held.enter_context(kept))))


# A study on each takes seconds, so most of them wait for `make torture`; settings do not.
EVERY = (*unlike.KINDS, unlike.CLOUD)
STUDIED = {
    "busybox": [], "sudo": [ABOUT], unlike.CLOUD: [ABOUT],
}  # fmt: skip
of_some = pytest.mark.parametrize(
    "lab_file",
    [pytest.param(kind, marks=STUDIED.get(kind, [pytest.mark.torture])) for kind in EVERY],
    indirect=True,
)


@pytest.fixture(params=EVERY)
def lab_file(hosts, request, tmp_path):
    """A lab of the client and one of them as its server."""
    return written(hosts, tmp_path, {"client": "client", "server": request.param})


@pytest.fixture
def all_of_them(hosts, tmp_path):
    """One lab of the client and all six."""
    return written(hosts, tmp_path, {kind: kind for kind in ("client", *unlike.KINDS)})


def written(hosts, folder, roles):
    (folder / "lab.known_hosts").write_text("".join(host.known for host in hosts.values()))
    tables = (table(role, **hosts[kind].fields) for role, kind in roles.items())
    (folder / "ssh_config").write_text(f"Host *\nIdentityFile {hosts['client'].key}\n")
    # All of them share this machine, whose other work is no fault of theirs.
    return lab_toml(folder / "lab.toml", *tables, known_hosts="lab.known_hosts",
                    ssh_config="ssh_config", tolerates=gate.NAMES)  # fmt: skip


@of_some
def test_lat_ping_runs_unchanged_between_each_of_them_and_a_client(lab_file, labkit):
    words = ("lat_ping", "--where", str(lab_file), "-p", "count=200", "-p", "repeats=3")
    result = labkit("run", *words, "--json", timeout=120)
    assert result.returncode == 0, result.stderr
    results = Results.open(Path(json.loads(result.stdout)["results"]))
    assert [run.condition for run in results.finished()] == ["Native"] * 3


@ABOUT
@pytest.mark.parametrize("lab_file", LONG, indirect=True)
def test_lat_netperf_runs_unchanged_between_each_of_them_and_a_client(lab_file, labkit):
    words = ("lat_netperf", "--quick", "--where", str(lab_file))
    result = labkit("run", *words, "--json", timeout=120)
    assert result.returncode == 0, result.stderr
    results = Results.open(Path(json.loads(result.stdout)["results"]))
    (run,) = results.finished()
    # netperf is a check, made where it is: it is not free.
    loads = {"sockperf.txt", *(["netperf.txt"] if shutil.which("netserver") else [])}
    assert run.condition == "Native" and loads < run.raw.keys()


# No test traffic can pass them; what lab.toml names is made beside the interface of logins.
DOWN = {
    "eth2 is down": ("eth2", ["eth2", "type", "veth", "peer", "eth5"], "ip link set eth2 up"),
    "eth3 has no link": ("eth3", ["eth3", "up", "type", "veth", "peer", "eth4"], "its other end"),
}


@ABOUT
@pytest.mark.parametrize("why", DOWN)
def test_an_interface_that_is_down_is_refused_before_anything_is_changed(
    hosts, why, tmp_path, labkit
):
    interface, made, mend = DOWN[why]
    file = written(hosts, tmp_path, {"client": "client", "server": "sudo"})
    client, server = file.read_text().split("[hosts.server]")
    file.write_text(f"{client}[hosts.server]{server.replace('eth1', interface)}")
    space = ("ip", "-n", hosts["sudo"].space, "link")
    subprocess.run([*space, "add", *made], check=True)
    try:
        result = labkit("run", "lat_ping", "--where", str(file), "--quick")
        assert result.returncode == 2
        assert f"no test traffic can get to server or from it: {why}" in result.stderr
        assert mend in result.stderr and "Traceback" not in result.stderr
        assert not (tmp_path / "results").exists()
        doctor = labkit("doctor", "--lab", str(file))
        assert why in doctor.stdout and mend in doctor.stdout
        with opened(file) as lab:
            assert hello(lab.hosts["server"]).open == ()
            possible.check_links(studies.find("docker_stream"), lab)  # of one host: no link
    finally:
        subprocess.run([*space, "del", interface], check=True)


def test_settings_are_made_on_each_of_them_and_go_back_byte_for_byte(lab_file):
    with opened(lab_file) as lab:
        before = texts(lab.hosts, SETTINGS)
        assert {why for _, why in before.values()} == {""}
        with applied(SETTINGS, lab.hosts):
            steps = plan(SETTINGS, lab.hosts).steps
            assert [step.current for step in steps] == [one.wanted for one in SETTINGS]
        assert texts(lab.hosts, SETTINGS) == before


@ABOUT
def test_a_study_changes_all_six_at_once_for_its_runs_and_puts_each_back(all_of_them):
    """lat_ping between the client and all of them together, which have settings of root's."""
    ping = with_load(studies.find("lat_ping"), count=100, interval=0.01)
    asked = tuple(replace(one, role=kind) for kind in unlike.KINDS for one in SETTINGS)
    native = replace(
        ping.condition("Native"), settings=asked, optional=(), roles={"server": unlike.KINDS}
    )
    study = replace(ping, conditions=(native,), claims=())
    with opened(all_of_them) as lab:
        before = texts(lab.hosts, asked)
        results = study_results(study, lab, str(all_of_them), label="six", seed=1)
        loop.run(study, lab, results, repeats=2)
        assert texts(lab.hosts, asked) == before
        assert {hello(host).open for host in lab.hosts.values()} == {()}
    for run in results.finished():
        assert set(pairs.texts(run.text("ping.txt"))) == set(unlike.KINDS)
        assert dict(run.settings) == {one.thing: one.wanted for one in asked}
    assert len(results.finished()) == 2
