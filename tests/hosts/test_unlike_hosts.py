"""One lab of unlike hosts: a study runs on each unchanged, and settings go back byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
import unlike

from labkit.changes.in_force import applied
from labkit.changes.plan import plan
from labkit.gates import gate
from labkit.lab import opened
from labkit.results import Results
from labkit.settings.mtu import Mtu
from labkit.settings.sockets import SocketBuffers, Sysctl

pytestmark = [pytest.mark.slow, pytest.mark.box]
SETTINGS = [Sysctl("net.core.somaxconn", "777"), Mtu(1400),
            SocketBuffers("receive", 4096, 100000, 3000000)]  # fmt: skip


@pytest.fixture(scope="module")
def hosts():
    with ExitStack() as held:
        kept = tempfile.TemporaryDirectory(dir="/var/tmp", prefix="labkit-unlike-")
        yield held.enter_context(unlike.hosts(Path(held.enter_context(kept))))


@pytest.fixture(params=unlike.KINDS)
def lab_file(hosts, request, tmp_path):
    """A lab of the client and one of them as its server."""
    (tmp_path / "lab.known_hosts").write_text("".join(one.known for one in hosts.values()))
    roles = {"client": hosts["client"], "server": hosts[request.param]}
    text = "".join(f"[hosts.{role}]\n{one.toml}" for role, one in roles.items())
    (tmp_path / "ssh_config").write_text(f"Host *\nIdentityFile {hosts['client'].key}\n")
    head = 'known_hosts = "lab.known_hosts"\nssh_config = "ssh_config"\n'
    # All of them share this machine, whose other work is no fault of theirs.
    head += f"tolerates = {json.dumps(list(gate.NAMES))}\n"
    (tmp_path / "lab.toml").write_text(head + text)
    return tmp_path / "lab.toml"


def labkit(lab_file, *words):
    return subprocess.run(
        [sys.executable, "-m", "labkit", *words], capture_output=True, text=True, timeout=120,
        env={**os.environ, "LABKIT_OUT": str(lab_file.parent / "out")},
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_lat_ping_runs_unchanged_between_each_of_them_and_a_client(lab_file):
    words = ("lat_ping", "--where", str(lab_file), "-p", "count=200", "-p", "repeats=3")
    done = labkit(lab_file, "run", *words, "--json")
    assert done.returncode == 0, done.stderr
    results = Results.open(Path(json.loads(done.stdout)["results"]))
    assert [run.condition for run in results.finished()] == ["Native"] * 3


@pytest.mark.torture
def test_lat_netperf_runs_unchanged_between_each_of_them_and_a_client(lab_file):
    words = ("lat_netperf", "--quick", "--where", str(lab_file))
    done = labkit(lab_file, "run", *words, "--json")
    assert done.returncode == 0, done.stderr
    results = Results.open(Path(json.loads(done.stdout)["results"]))
    (run,) = results.finished()
    assert run.condition == "Native" and {"netperf.txt", "sockperf.txt"} < run.raw.keys()


def test_settings_are_made_on_each_of_them_and_go_back_byte_for_byte(lab_file):
    with opened(lab_file) as lab:
        before = {step.thing: (step.text, step.why) for step in plan(SETTINGS, lab.hosts).steps}
        assert {why for _, why in before.values()} == {""}
        with applied(SETTINGS, lab.hosts):
            steps = plan(SETTINGS, lab.hosts).steps
            assert [step.current for step in steps] == [one.wanted for one in SETTINGS]
        after = {step.thing: (step.text, step.why) for step in plan(SETTINGS, lab.hosts).steps}
        assert after == before
