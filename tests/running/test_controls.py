"""The controls of a lab in known numbers, and what a lab says that nothing can be put into."""

import json
from dataclasses import replace

import numpy as np
import pytest

from labkit import controls
from labkit.controls import FIRST_SIDE, MORE_DELAY, NONE_KEPT, SECOND_SIDE, SOME_DELAY
from labkit.errors import ResultsError
from labkit.host import Host
from labkit.lab import Lab
from labkit.pages.report_head import ReportHead
from labkit.pages.scorecard import scorecard
from labkit.results import Results, Run
from labkit.running import control_runs
from labkit.running.open_lab import recorded
from labkit.transports.local import Local

ASKED = {"study": "controls", "lab": {"name": "a", "hosts": {"client": {}}}, "when": "2026-01-01",
         "put_in": 500.0, "lacking": "", "label": "a"}  # fmt: skip


def said(values):
    lines = [f"64 bytes from 192.0.2.1: icmp_seq={n} ttl=64 time={v / 1000:.3f} ms"
             for n, v in enumerate(values, 1)]  # fmt: skip
    end = f"{len(values)} packets transmitted, {len(values)} received, 0% packet loss, time 9ms"
    head = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data."
    return "\n".join([head, *lines, "", "--- 192.0.2.1 ping statistics ---", end, ""])


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Controls with sides of these medians, each measured in five blocks."""
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    rng = np.random.default_rng(1)

    def with_medians(label="a", **medians):
        names = {"one": FIRST_SIDE, "other": SECOND_SIDE, "less": SOME_DELAY, "more": MORE_DELAY}
        results = Results.begin(controls.folder("a") / label, {**ASKED, "label": label})
        for block in range(1, 6):
            for side, median in medians.items():
                luck = median * np.exp(0.01 * rng.standard_normal())
                text = said(luck * rng.lognormal(0, 0.05, 300))
                results.keep(Run(names[side], block, block, "finished"), {"ping.txt": text})
        return controls.of_results(results)

    return with_medians


def test_what_was_put_in_is_found_with_its_size_and_equal_is_equal(measured):
    found = measured(one=50, other=50, less=600, more=1100)
    assert found.passed and not found.failed
    positive, negative, smallest = found.lines()
    assert "passed: 0.50 ms put in, 0." in positive and "passed" in negative
    assert 0 < found.smallest < 0.1 and "this lab can see: " in smallest


def test_another_size_than_was_put_in_fails_and_is_said(measured):
    found = measured(one=50, other=50, less=600, more=1400)
    assert not found.size_found and found.failed
    assert "FAILED" in found.lines()[0] and "do not trust sizes" in found.lines()[0]


def test_equal_that_comes_out_different_fails_and_is_said(measured):
    found = measured(one=50, other=60, less=600, more=1100)
    assert found.size_found and not found.nothing_found and found.failed
    assert "FAILED" in found.lines()[1]


def test_a_lab_that_nothing_can_be_put_into_says_why_and_has_not_failed(measured):
    found = replace(measured(one=50, other=50), lacking="no right to make queues")
    assert found.lines()[0] == "Positive control not made: no right to make queues."
    assert not found.passed and not found.failed


def test_too_few_blocks_are_no_controls(measured, tmp_path):
    whole = measured(one=50, other=50)
    results = Results.open(controls.folder("a") / "a")
    for run in results.runs():
        if run.block > 2:
            (run.path / "run.json").unlink()
    with pytest.raises(ResultsError, match="fewer than 3 blocks"):
        controls.of_results(results)
    assert controls.kept("a") is None and whole.blocks == 5


def test_results_keep_the_controls_of_their_lab_and_say_them_everywhere(measured, tmp_path):
    found = measured(one=50, other=50, less=600, more=1100)
    fields = json.loads(json.dumps(found.kept_as()))
    assert controls.from_kept(fields) == replace(found, results=fields["results"])
    assert found.results.endswith(fields["results"]) and not fields["results"].startswith("/")
    lab = {"name": "b", "hosts": {"client": {}}}
    other = Results.begin(tmp_path / "elsewhere", {"study": "lat_ping", "lab": lab})
    assert controls.said_of(other) == [NONE_KEPT]
    results = Results(tmp_path, {"study": "lat_ping", "lab": lab, "controls": fields})
    assert controls.said_of(results) == found.lines()


def test_the_newest_controls_of_a_lab_count(measured):
    measured("a", one=50, other=50)
    newer = measured("b", one=70, other=70)
    assert controls.kept("a") == newer


@pytest.mark.slow
def test_hosts_of_which_the_kernel_cannot_delay_say_so(monkeypatch, tmp_path, capsys):
    """Or, where it can, find it: then this machine's loopback is held up meanwhile."""
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    local = Local("here")
    hosts = {role: Host(role, "127.0.0.1", local) for role in ("client", "server")}
    found = control_runs.measure(Lab("mine", hosts), label="a", blocks=3)
    assert found.found is None and found.lacking and found.blocks == 3
    assert found.lines()[0].startswith("Positive control not made: ")


@pytest.mark.parametrize(("words", "reason"), [
    (["--repeats", "2"], "controls take"), (["--where", "recorded"], "controls are run on a lab"),
    (["lat_pign"], "lat_ping"),
])  # fmt: skip
def test_controls_that_cannot_be_run_are_refused(words, reason, typed):
    assert reason in typed("controls", *words, code=2)


@pytest.mark.slow
def test_the_head_of_a_report_and_the_scorecard_say_the_controls(tmp_path):
    head = ReportHead("", controls=("Positive control passed: <b>.",)).html()
    assert "Controls of this lab" in head and "&lt;b&gt;" in head
    assert "controls" not in ReportHead("").html()

    card = scorecard(recorded("docker_linpack"), study="docker_linpack")
    assert NONE_KEPT.split(" (")[0] in card.text().replace("\n", " ")
    card = scorecard(recorded("docker_fio"), study="docker_fio")
    assert "Positive control passed" in card.text()
