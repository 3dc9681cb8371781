"""`labkit prepare`: what each host lacks for studies, and the command that brings it."""

import json
import shutil

import pytest
from sshd import serving

from labkit import studies
from labkit.cli import main
from labkit.commands.prepare import rendered
from labkit.errors import HostError
from labkit.lab import opened
from labkit.programs import simulator
from labkit.running.preparing import LOOK, THIS_MACHINE, _lack, lacking, needed
from labkit.workloads import _hadoop
from tests.checks.test_checks import written

PROGRAMS = ("sockperf",)

SYSTEMS = {
    "debian": "apt-get install -y --no-install-recommends iputils-ping sockperf",
    "fedora": "dnf install -y iputils sockperf",
    "suse": "zypper --non-interactive install iputils sockperf",
    "alpine": "apk add iputils sockperf",
}
CALLS = {"ping": "Ping", "sockperf": "Sockperf"}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with serving(tmp_path) as server:
        yield written(server, ("client", "server"))


def test_each_study_names_what_its_workloads_call_on_this_machine():
    calls = {"lat_ping": "ping", "lat_10us": "sockperf", "lat_netperf": "netperf"}
    for name, program in calls.items():
        assert program in needed([studies.find(name)], None)[THIS_MACHINE]
    assert "netperf" not in needed([studies.find("lat_ping")], None)[THIS_MACHINE]


@pytest.mark.slow
def test_a_lab_of_ones_own_is_asked_over_ssh_for_the_roles_that_call_it(lab):
    with opened(lab) as hosts:
        found = {one.host: one for one in lacking([studies.find("lat_10us")], hosts)}
    assert found.keys() == {"client", "server"}
    for one in found.values():
        assert ("sockperf" in one.programs) == (not shutil.which("sockperf"))
        assert one.trouble == ""


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_command_is_that_of_the_system(system):
    one = _lack("client", system, CALLS, non_free=False)
    assert one.command == SYSTEMS[system]
    assert f"as root: {SYSTEMS[system]}" in rendered([one])


def test_what_is_not_free_is_named_with_what_is_used_instead():
    one = _lack("client", "debian", {"netperf": "Netperf", "netserver": "Netperf"}, non_free=False)
    assert (one.packages, one.not_free) == ((), {"netperf": "sockperf and iperf3"})
    wanted = "is not free: --non-free installs it; without it, sockperf and iperf3 do"
    assert wanted in rendered([one])
    asked = _lack("client", "debian", {"netperf": "Netperf"}, non_free=True)
    assert (asked.packages, asked.not_free) == (("netperf",), {})


def test_what_no_package_brings_is_named_with_who_has_it():
    one = _lack("client", "debian", {"onload": "Sockperf"}, non_free=False)
    assert (one.packages, one.command) == ((), "")
    assert "onload comes with OpenOnload" in rendered([one])


@pytest.mark.slow
def test_a_host_that_cannot_be_asked_is_named_and_ends_with_1(lab, typed):
    lab.write_text(lab.read_text().replace("port = ", "port = 1 # ", 1))
    output = typed("prepare", "lat_ping", "--lab", lab, code=1)
    assert "client: cannot be asked" in output and "server: " in output


@pytest.mark.slow
def test_the_answer_for_scripts_has_its_keys(lab, capsys):
    code = main(["prepare", "--all", "--lab", str(lab), "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer.keys() == {"ready", "hosts"} and answer["ready"] == (code == 0)
    assert {one["host"] for one in answer["hosts"]} == {"client", "server", THIS_MACHINE}


@pytest.mark.slow
def test_what_no_package_brings_and_labkit_fetches_is_named_with_its_size(monkeypatch, capsys):
    monkeypatch.setattr(_hadoop, "HOME", "/nowhere")
    assert main(["prepare", "hadoop_v6"]) == 1
    size = f"Hadoop {_hadoop.VERSION} (74 MB from Maven Central, 310 MB on each host)"
    assert f"this machine: {size} is missing (for terasort)" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["prepare"], ["prepare", "lat_ping", "--all"]])
def test_studies_are_named_or_all_of_them_are_meant(words, typed):
    assert "name studies, or say --all" in typed(*words, code=2)


def test_what_is_compiled_takes_a_compiler_here_and_none_on_the_hosts(lab):
    with opened(lab) as hosts:
        found = needed([studies.find("docker_linpack")], hosts)
    assert "gcc" in found[THIS_MACHINE]
    assert not any("gcc" in programs for host, programs in found.items() if host != THIS_MACHINE)


def test_a_program_that_is_named_by_its_path_is_looked_for_as_a_pattern(lab, tmp_path):
    (tmp_path / "15").mkdir()
    (tmp_path / "15/postgres").touch()
    asked = ("sh", "-c", LOOK, "labkit", f"{tmp_path}/*/postgres", "/no/*/such", "sh", "no-such")
    with opened(lab) as hosts:
        lines = hosts.host("client").check(*asked).splitlines()
    assert [line for line in lines if line.startswith("-")] == ["-/no/*/such", "-no-such"]


def test_vcsim_is_built_by_labkit_and_its_size_is_told_first(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "vcsim" in needed([studies.find("vcenter_ha")], None)[THIS_MACHINE]
    one = _lack(THIS_MACHINE, "debian", {"vcsim": "Management"}, non_free=False)
    assert "downloads Go (82 MB, 240 MB unpacked), builds" in rendered([one])
    assert simulator.lacking().endswith("to get it: labkit prepare vcenter_ha")
    simulator.place().parent.mkdir(parents=True)
    simulator.place().write_text("a program")
    assert (simulator.vcsim(), simulator.lacking()) == (b"a program", "")


def test_a_build_that_fails_says_why_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (go := tmp_path / "go").write_text("#!/bin/sh\necho no network >&2; exit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(HostError, match="Go cannot build") as error:
        simulator.build(print)
    assert "no network" in str(error.value.said)
    assert list(simulator.place().parent.iterdir()) == []
