"""Where netperf, which is not free, is missing, free tools do its tests and are named for it."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from brought import HERE
from by_hand import insist_same
from figures import figures

from labkit import studies
from labkit.condition import Condition
from labkit.errors import ResultsError
from labkit.host import Host
from labkit.lab import Lab
from labkit.running import loop, possible, sizes
from labkit.running.open_lab import note, study_results
from labkit.transports.local import Local
from labkit.workloads._pairs import FIND
from labkit.workloads._sections import parted
from labkit.workloads.five_tests import FiveTests
from labkit.workloads.netperf import Netperf
from labkit.workloads.streams import WAYS, Streams

PROGRAMS = ("iperf3", "sockperf")
THREE = Path(__file__).parents[1] / "cases/Streams/three_connections_of_send/stdout.txt"

pytestmark = pytest.mark.skipif(
    not (shutil.which("iperf3") and shutil.which("sockperf")), reason="needs iperf3 and sockperf"
)
SUMMARY = {
    "mean": "avg-rtt=", **{f"p{q}": rf"percentile {q}\.000 = +" for q in (50, 90, 99)},
    "max": "<MAX> observation = +", "min": "<MIN> observation = +",
}  # fmt: skip


class Sees(Local):
    """This machine with `more` programs, or without some; they are looked for, never run."""

    def __init__(self, name, more=(), fewer=()):
        super().__init__(name)
        self.more, self.fewer = more, fewer

    def run(self, words, **how):
        done = super().run(words, **how)
        if FIND not in words:
            return done
        lacking = {*done.stdout.split(), *self.fewer} - {*self.more}
        asked = [word for word in words[4:] if word in lacking]
        return replace(done, stdout_bytes="".join(f"{word}\n" for word in asked).encode())


def lab_of(study, **by_role):
    roles = {role for condition in study.conditions for load in study.loads
             for named in map(condition.players, load.roles) for role in named}  # fmt: skip
    usual = by_role.pop("usual", Local("here"))
    hosts = {role: Host(role, "127.0.0.1", by_role.get(role, usual)) for role in sorted(roles)}
    return Lab("loopback", hosts, tier="loopback")


def without(study):
    return lab_of(study, usual=Sees("here", fewer=("netperf", "netserver")))


@pytest.mark.slow
def test_its_figures_are_those_that_sockperf_prints_itself():
    load = Netperf(size=1, duration=1, free=True)
    text = load.run(dict.fromkeys(load.roles, HERE))
    found = figures(load, text)
    for name, pattern in SUMMARY.items():
        said = float(re.search(rf"{pattern}([\d.]+)", text)[1])
        assert found[f"netperf {name}"] == pytest.approx(said, rel=0.1, abs=0.5), name
    valid = re.search(r"\[Valid Duration\] RunTime=(\S+) sec; \S+ ReceivedMessages=(\d+)", text)
    assert found["netperf rate"] == pytest.approx(int(valid[2]) / float(valid[1]))
    assert "--msg-size=14 " in text


@pytest.mark.torture  # beside other tests, one way may have less of the CPUs than the other
@pytest.mark.parametrize(("way", "back"), [("receive", ()), ("send", ("-R",))])
def test_a_stream_is_as_fast_as_iperf3_s_own_by_hand(way, back):
    load, both = Streams(duration=1, free=True), dict.fromkeys(Netperf.roles, HERE)

    def ours():
        text = load.run(dict.fromkeys(load.roles, HERE))
        return figures(load, text)[f"throughput [way={way}]"]

    def by_hand():
        with Netperf("TCP_STREAM", load.size, 1, True).asking(both) as typed:
            words = [*typed[: typed.index("-l")], *back, "-l", str(load.size), "-t", "1", "-f", "m"]
            output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return re.search(r"([\d.]+) Mbits/sec +receiver", output)[1]

    insist_same(ours, by_hand)


@pytest.mark.parametrize("name", ["docker_netperf", "docker_overview", "kvm_docker_report"])
def test_a_study_whose_hosts_lack_netperf_is_done_with_free_tools_and_says_so(name):
    study = studies.find(name)
    lab = without(study)
    free = possible.with_free_tools(study, lab)
    assert not {"netperf", "netserver"} & {word for load in free.loads for word in load.tools}
    assert "sockperf in place of netperf, with 14 bytes for 1" in sizes.substitutes(free)
    assert free.asked("box", 1)["workload"]["free"] is True
    refused = possible.refusals(study, lab)
    assert any("netperf is missing" in why or "netserver" in why for why in refused.values())
    assert not any("netperf" in why for why in possible.refusals(free, lab).values())


@pytest.mark.parametrize("name", ["docker_netperf", "lat_netperf", "lat_ping", "docker_overview"])
def test_a_study_whose_hosts_have_netperf_stays_what_it_is_and_asks_for_the_same(name):
    study = studies.find(name)
    lab = lab_of(study, usual=Sees("here", more=("netperf", "netserver")))
    assert possible.with_free_tools(study, lab) == study
    assert "free" not in str(study.asked("box", 1)["workload"])


def test_one_host_without_netperf_gives_all_conditions_the_same_tool():
    study = studies.find("docker_netperf")
    there = Sees("here", more=("netperf", "netserver"))
    lab = lab_of(study, usual=there, guest=Sees("guest", fewer=("netserver",)))
    assert possible.with_free_tools(study, lab).workload.free


def test_what_would_ask_the_study_s_own_tool_once_more_is_left_out():
    study = studies.find("lat_netperf")
    free = possible.with_free_tools(study, without(study))
    assert free.workload == study.workload and free.also == ()
    assert sizes.substitutes(free) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["docker_netperf", "lat_netperf"])
def test_such_a_study_runs_and_its_results_are_read_as_the_study_s(tmp_path, monkeypatch, name):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    one = (Condition("Native", "m", "h"),)  # that any host can do
    study = replace(studies.find(name), conditions=one, claims=())
    lab = without(study)
    quick = sizes.fitted(replace(study, workload=replace(study.workload, duration=1)), lab)
    results = study_results(quick, lab, "loopback", label="free")
    loop.run(quick, lab, results, repeats=1)
    (run,) = results.finished()
    assert study.metric in {sample.metric for sample in studies.find(name).samples(run)}
    assert list(studies.find(name).blocks(results)["Native"]) == [1]
    if name == "docker_netperf":
        tools = "Tools here: sockperf in place of netperf, with 14 bytes for 1; iperf3 in"
        assert tools in note(results)
        assert run.text("streams.txt").count("iperf 3.") == 2
    else:
        assert "netperf.txt" not in run.raw


def test_five_tests_by_free_tools_are_asked_for_and_not_the_usual():
    assert FiveTests().freed().free and not FiveTests().free


@pytest.mark.slow
def test_what_the_server_sends_goes_over_as_many_connections_as_asked_for_and_nothing_else():
    load = Streams(duration=1, free=True)
    text = replace(load, streams=3, buffer=65_536).run(dict.fromkeys(load.roles, HERE))
    parts = parted(text, *WAYS)
    started = {way: json.loads(parts[way])["start"] for way in WAYS}
    assert {way: len(one["connected"]) for way, one in started.items()} == {"receive": 1, "send": 3}
    assert {one["sock_bufsize"] for one in started.values()} == {65_536}
    ends = json.loads(parts["send"])["end"]["streams"]
    each = [one["receiver"]["bits_per_second"] for one in ends]
    assert figures(load, text)["throughput [way=send]"] == pytest.approx(sum(each) / 1e6, rel=0.01)


def test_buffers_that_an_end_cuts_short_leave_the_condition_out_with_the_limit():
    hosts = dict.fromkeys(Streams.roles, HERE)
    most = int(HERE.check("cat", "/proc/sys/net/core/rmem_max"))
    assert Streams(buffer=most // 2).lacking(hosts) == ""
    assert f"net.core.rmem_max = {most}" in Streams(buffer=2 * most).lacking(hosts)


@pytest.mark.parametrize("cut", ["=== send 3 ===", "=== send 2 ===", "3\n=== send ==="])
def test_a_connection_whose_figures_are_lost_is_missed(cut):
    text = THREE.read_text()
    assert Streams.parse(text) and cut in text
    with pytest.raises(ResultsError):
        Streams.parse(text.replace(cut, cut.replace("3", "x").replace("2", "x")))
