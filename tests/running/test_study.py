"""The loop of a study, on the loopback of this machine with the real ping."""

import gzip
import multiprocessing
import os
import re
import shutil
import signal
import threading
from dataclasses import replace

import pytest
from knobs import Knob
from synthetic import write_results

from labkit import find_study
from labkit.claim import Ratio
from labkit.condition import Condition
from labkit.errors import BadInput, CommandFailed, ResultsError, SettingRefused, Stopped
from labkit.host import Host
from labkit.judging import judge
from labkit.lab import Lab
from labkit.results import Results
from labkit.running import loop, possible
from labkit.running.open_lab import with_load
from labkit.runs.progress import PROGRESS_VARIABLE, ask_to_stop
from labkit.study import Study
from labkit.transports.local import Local
from labkit.workloads import _pairs as pairs
from labkit.workloads.ping import Ping

PROGRAMS = ("ping",)

pytestmark = pytest.mark.skipif(not shutil.which("ping"), reason="needs iputils-ping")

CLAIM = Ratio(
    "c1", "b is as quick as a", "nowhere", percentile=50, over="b", under="a", published=1, within=9
)


def a_study(*conditions, claims=(CLAIM,), load=None, **knobs):
    return Study(
        name="lat_ping", title="t", question="q", source="s",
        workload=load or Ping(**{"count": 40, "interval": 0.002, **knobs}),
        conditions=conditions, claims=claims, metric="round trip", unit="us",
        absent=("a", "b"),
    )  # fmt: skip


A, B = Condition("a", "a", "a"), Condition("b", "b", "b")
TWICE = Condition("a [vms=2]", "a", "a", roles={"server": ("server", "other")})
NOWHERE = Condition("c", "c", "c", roles={"server": "moon"})


@pytest.mark.slow
def test_every_condition_is_measured_once_a_block_and_every_round_trip_is_kept(lab, results):
    study = a_study(A, B)
    loop.run(study, lab, results, repeats=3)
    blocks = {name: sorted(of) for name, of in study.blocks(results).items()}
    assert blocks == {"a": [1, 2, 3], "b": [1, 2, 3]}
    assert all(len(v) == 40 for blocks in study.blocks(results).values() for v in blocks.values())
    assert [run.order for run in results.runs()] == [1, 2, 3, 4, 5, 6]


def test_the_order_is_shuffled_by_the_kept_seed():
    orders = {seed: [s.condition.name for s in loop._order([A, B], 8, seed)] for seed in (1, 2)}
    assert orders[1] == [s.condition.name for s in loop._order([A, B], 8, 1)]
    assert orders[1] != orders[2]
    assert all({*orders[1][i : i + 2]} == {"a", "b"} for i in range(0, 16, 2))


@pytest.mark.slow
def test_what_is_finished_is_not_measured_again(lab, results):
    study = a_study(A, B)
    loop.run(study, lab, results, repeats=1)
    first = [run.started for run in results.runs()]
    told = []
    loop.run(study, lab, results, repeats=2, tell=told.append)
    assert [run.started for run in results.runs()][:2] == first
    assert len(results.runs()) == 4
    assert (told[0].done, told[-1].done, told[-1].step) == (2, 4, "finished")


@pytest.mark.slow
def test_a_stop_keeps_what_is_done_and_says_how_far_it_came(lab, results):
    study, stop = a_study(A, B), threading.Event()
    with pytest.raises(Stopped, match="after 1 of 6 runs"):
        loop.run(study, lab, results, repeats=3, stop=stop, tell=lambda p: stop.set())
    assert len(results.finished()) == 1


@pytest.mark.slow
def test_a_run_that_is_stopped_in_its_middle_stays_visible_beside_its_repetition(lab, results):
    def stop(progress):
        if progress.step == "measuring":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.run(a_study(A), lab, results, repeats=1, tell=stop)
    (run,) = results.runs()
    assert run.state == "interrupted" and run.why == "it was stopped before it had ended"
    loop.run(a_study(A), lab, results, repeats=1)
    assert [run.state for run in results.runs()] == ["interrupted", "finished"]
    assert results.gaps() == []


@pytest.mark.slow
def test_a_run_whose_measurer_was_killed_stays_visible_and_any_other_leaves_no_note(lab, results):
    def die(progress):
        if progress.step == "measuring" and progress.done == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    study = a_study(A, B)
    fork = multiprocessing.get_context("fork").Process
    child = fork(target=lambda: loop.run(study, lab, results, repeats=1, tell=die))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    first, second = results.runs()
    assert [first.state, second.state] == ["finished", "interrupted"]
    assert results.gaps() == []
    assert second.block == 1 and {first.condition, second.condition} == {"a", "b"}
    assert "was killed" in second.why and second.started and second.check() == []
    loop.run(study, lab, results, repeats=1)
    assert sorted(run.state for run in results.runs()) == ["finished", "finished", "interrupted"]
    assert results.gaps() == []
    loop.run(study, lab, results, repeats=3)
    assert results.gaps() == [] and len(results.finished()) == 6


@pytest.mark.slow
def test_whoever_watches_a_study_can_ask_it_to_stop(lab, results, tmp_path, monkeypatch):
    watched = tmp_path / "progress.jsonl"
    monkeypatch.setenv(PROGRESS_VARIABLE, str(watched))
    with pytest.raises(Stopped, match="after 1 of 3 runs"):
        loop.run(a_study(A), lab, results, repeats=3, tell=lambda p: ask_to_stop(watched))
    assert len(results.finished()) == 1


def test_a_run_that_fails_is_kept_with_its_reason(lab, results):
    gone = {**lab.hosts, "server": Host("server", "no-such-host.invalid", Local("here"))}
    with pytest.raises(CommandFailed):
        loop.run(a_study(A), Lab("loopback", gone, tier="test"), results, repeats=1)
    (run,) = results.runs()
    assert run.state == "failed" and "ping" in run.why and results.finished() == []


def test_text_that_cannot_be_read_is_kept_with_the_run_that_failed(lab, results, monkeypatch):
    text = "ping: it printed something new"
    monkeypatch.setattr(Ping, "run", lambda *_: text)
    with pytest.raises(ResultsError):
        loop.run(a_study(A), lab, results, repeats=1)
    (run,) = results.runs()
    assert run.state == "failed" and run.text("ping.txt") == text


def with_knob(tmp_path, **knobs):
    (tmp_path / "knob").write_text("old\n")
    settings = (Knob(str(tmp_path / "knob"), "new"),)
    return a_study(Condition("a", "a", "a", settings), **knobs)


def reverting(knob, often):
    """Sets the knob back, as somebody else would, in the midst of the first so many runs."""
    turns = []

    def tell(progress):
        if progress.step == "measuring":
            turns.append(threading.Timer(0.05, lambda: knob.write_text("theirs\n")))
            if len(turns) <= often:
                turns[-1].start()
        elif progress.step == "setting up":
            knob.write_text("old\n")

    return tell


@pytest.mark.slow
def test_a_run_whose_setting_changed_is_kept_and_made_again(lab, results, tmp_path):
    study, knob = with_knob(tmp_path, count=100), tmp_path / "knob"
    loop.run(study, lab, results, repeats=1, tell=reverting(knob, 1))
    first, second = results.runs()
    assert (first.state, second.state) == ("invalid", "finished")
    assert "became 'theirs' between" in first.why and first.reread_seconds == 5.0
    assert len(study.blocks(results)["a"]) == 1 and knob.read_text() == "old\n"


@pytest.mark.slow
def test_a_study_stops_when_something_keeps_changing_its_settings(lab, results, tmp_path):
    study = with_knob(tmp_path, count=100)
    with pytest.raises(SettingRefused, match=r"(?s)2 runs were invalid.*became 'theirs'"):
        loop.run(study, lab, results, repeats=1, tell=reverting(tmp_path / "knob", 9))
    assert [run.state for run in results.runs()] == ["invalid", "invalid"]
    assert results.finished() == []


@pytest.mark.slow
def test_a_run_that_cannot_be_written_ends_the_study(lab, results, tmp_path):
    steps, knob, runs = [], tmp_path / "knob", results.path / "runs"

    def tell(progress):
        steps.append(progress.step)
        if progress.step == "measuring":
            runs.rename(results.path / "elsewhere")
            runs.write_text("no folder")

    with pytest.raises(ResultsError, match="cannot keep a run"):
        loop.run(with_knob(tmp_path), lab, results, repeats=3, tell=tell)
    assert steps.count("measuring") == 1 and knob.read_text() == "old\n"


@pytest.mark.slow
def test_a_setting_that_was_other_for_a_while_is_seen(lab, results, tmp_path):
    study, knob = with_knob(tmp_path, count=1000), tmp_path / "knob"

    def tell(progress):
        kept = [run.state for run in results.runs()]
        if progress.step == "measuring" and "invalid" not in kept:
            threading.Timer(0.3, lambda: knob.write_text("theirs\n")).start()
            threading.Timer(1.5, lambda: knob.write_text("new\n")).start()

    loop.run(study, lab, results, repeats=1, tell=tell, reread_seconds=0.3)
    assert [run.state for run in results.runs()] == ["invalid", "finished"]


@pytest.mark.slow
def test_no_run_is_called_invalid_when_nobody_touches_its_settings(lab, results, tmp_path):
    loop.run(with_knob(tmp_path), lab, results, repeats=3, reread_seconds=0.02)
    assert [run.state for run in results.runs()] == ["finished"] * 3


@pytest.mark.slow
def test_a_condition_that_the_lab_cannot_do_is_said_and_the_rest_goes_on(lab, tmp_path):
    study = a_study(A, NOWHERE)
    assert "moon" in possible.refusals(study, lab)["c"]
    refused = possible.refusals(study, lab)
    results = Results.begin(tmp_path, {"study": "x", "seed": 1, "refused": refused})
    loop.run(study, lab, results, repeats=1)
    assert set(study.blocks(results)) == {"a"}
    (verdict,) = judge(study, results)
    assert verdict.verdict == "not testable here"
    of_moon = judge(replace(study, claims=(replace(CLAIM, over="c"),)), results)
    assert re.fullmatch(r"not measured: c: [^()]*moon.*", of_moon[0].why)


@pytest.mark.parametrize("condition, repeats, why", [
    (NOWHERE, 5, "no condition"), (A, 0, "repeats"), (A, -1, "repeats"),
])  # fmt: skip
def test_a_study_that_could_measure_nothing_is_refused(lab, results, condition, repeats, why):
    with pytest.raises(BadInput, match=why):
        loop.run(a_study(condition), lab, results, repeats=repeats)


@pytest.mark.slow
def test_several_servers_are_under_the_load_at_once_and_what_each_said_is_kept(lab, results):
    both = replace(lab, hosts={**lab.hosts, "other": lab.hosts["server"]})
    study = a_study(TWICE)
    assert "other" in possible.refusals(study, lab)["a [vms=2]"], "of two it has one"
    loop.run(study, both, results, repeats=1)
    (run,) = results.finished()
    assert set(pairs.texts(run.text("ping.txt"))) == {"server", "other"}
    assert len(study.sample(run).values) == 80 and run.rows[0]["n"] == 80


class Other(Ping):
    """Something else, with text and metrics of its own."""

    @staticmethod
    def parse(text):
        (sample,) = Ping.parse(text)
        return [replace(sample, metric="other trip")]


@pytest.mark.slow
def test_what_also_runs_is_kept_and_measured_beside(lab, results):
    study = replace(a_study(A), also=(Other(count=20, interval=0.002),))
    loop.run(study, lab, results, repeats=2)
    assert [len(v) for v in study.measured(results)["other_trip: a"].values()] == [20, 20]
    assert [len(v) for v in study.blocks(results)["a"].values()] == [40, 40]
    assert [row["metric"] for row in results.runs()[0].rows] == ["round trip", "other trip"]
    assert study.asked("box", 1)["also"][0]["count"] == 20


def test_what_runs_beside_takes_no_longer_than_the_workload():
    study = find_study("lat_netperf")
    assert [load.duration for load in with_load(study, duration=1).loads] == [1, 1]
    assert [load.duration for load in with_load(study, duration=9).loads] == [9, 2]


def test_a_documents_number_belongs_to_the_condition_at_its_point():
    study = find_study("lat_netperf")
    medians = {r["condition"]: r["value"] for r in study.published() if r["statistic"] == "median"}
    assert medians["VM-Default"] == "47" and medians["VM-Default [vms=4]"] == "56"


def test_a_runs_text_is_read_once_and_again_when_its_file_is_another(tmp_path):
    lat_ping = find_study("lat_ping")
    results = write_results(tmp_path / "kept", lat_ping, repeats=3, count=50)
    first, again = (lat_ping.sample(results.finished()[0]) for _ in range(2))
    assert again.values is first.values and not first.values.flags.writeable
    run = results.finished()[0]
    with gzip.open(run.path / "raw" / "ping.txt.gz", "at") as file:
        file.write("something else\n")
    with pytest.raises(ResultsError, match="after its end"):
        lat_ping.sample(run)
