"""What happens to runs while something is wrong with their hosts, which are this machine."""

import re
import shutil
import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from waiting import alive

from labkit import studies
from labkit.condition import Condition
from labkit.errors import ResultsError, Stopped, Unknown
from labkit.gates import counter, gate
from labkit.gates.watch import Watch, left_out, remarks
from labkit.host import Host
from labkit.judging import judge
from labkit.lab import Lab
from labkit.pages.answer import Answer, _describe_figures, _rows, rendered
from labkit.running import loop
from labkit.running.open_lab import stored_results
from labkit.transports.local import Local
from tests.running.test_study import A, B, a_study

PROGRAMS = ("dash", "ping")

pytestmark = pytest.mark.skipif(not shutil.which("ping"), reason="needs iputils-ping")


class Jumping(Local):
    """This machine, whose time of day is a minute ahead in the collections of these numbers.

    Number 0 is the one that has it begin to count, before the first run.
    """

    def __init__(self, name, jumps):
        super().__init__(name)
        object.__setattr__(self, "jumps", jumps)
        object.__setattr__(self, "asked", [])

    @contextmanager
    def raw(self, words, **options):
        with super().raw(words, **options) as pipe:
            yield Asked(pipe, self) if words == counter.WORDS else pipe


class Asked:
    """What counts there; as many bytes as it said, but for the time of day."""

    def __init__(self, pipe, host):
        self.pipe, self.host = pipe, host

    def send(self, content):
        self.host.asked.append(len(self.host.asked))
        return self.pipe.send(content)

    def recv(self, most):
        part = self.pipe.recv(most)
        if self.host.asked[-1] not in self.host.jumps:
            return part
        return re.sub(rb"(?<=date:)\d+", lambda found: b"%d" % (int(found[0]) + 60), part)


def a_lab(transport, *, tier="loopback", tolerates=()):
    hosts = {role: Host(role, "127.0.0.1", transport) for role in ("client", "server")}
    return Lab("here", {"client": hosts["client"], "server": hosts["client"]}, tier,
               tolerates=tolerates)  # fmt: skip


def states(results):
    return [(run.condition, run.block, run.state) for run in results.runs()]


@pytest.mark.slow
def test_a_run_whose_host_jumped_in_time_is_kept_as_invalid_and_measured_again(results):
    told = []
    loop.run(a_study(A), a_lab(Jumping("j", {2})), results, repeats=2, tell=told.append)
    assert states(results) == [("a", 1, "invalid"), ("a", 1, "finished"), ("a", 2, "finished")]
    first = results.runs()[0]
    assert "client: clock step: its time of day moved +" in first.why
    assert "clock step" in first.gates["client"] and told[-1].done == told[-1].of == 2
    assert any("a was invalid: client: clock step" in progress.remark for progress in told)
    (said,) = [line for line in remarks(results) if "invalid" in line]
    assert said.startswith("1 of 3 runs were invalid and are not used: a in block 1 (client: clock")


@pytest.mark.slow
def test_the_raw_counts_are_kept_and_say_the_same_when_they_are_read_again(results):
    loop.run(a_study(A), a_lab(Jumping("j", {2})), results, repeats=1)
    first = results.runs()[0]
    before, after = (first.text(f"gates-0-{when}.txt") for when in ("before", "after"))
    found = gate.gates(before, after, 1.0, slack=60)
    assert "clock step" in {one.name for one in gate.tripped(found)}
    assert set(first.untold.get("client", {})) == {one.name for one in found if one.ok is None}


@pytest.mark.slow
def test_what_a_host_does_not_count_is_untold():
    host = Host("here", "127.0.0.1", Local("here"))
    lines = gate.collect(host).splitlines(keepends=True)
    without = "".join(line for line in lines if not line.startswith("/proc/net/snmp"))
    watch = Watch({"server": host}, ("server",), collect=lambda host: without)
    watch.begin()
    watch.end()
    assert watch.untold()["server"]["retransmits"] == "this host does not count TCP segments"
    assert "retransmits" not in watch.tripped().get("server", {})


@pytest.mark.slow
def test_each_host_is_asked_once_before_a_run_and_once_after_it(results):
    host = Jumping("j", ())
    loop.run(a_study(A), a_lab(host), results, repeats=3)
    assert len(host.asked) == 1 + 2 * 3


@pytest.mark.slow
def test_a_stop_ends_what_would_be_tried_again(results):
    stop = threading.Event()
    with pytest.raises(Stopped, match="after 0 of 1 runs"):
        loop.run(a_study(A), a_lab(Jumping("j", {2})), results, repeats=1, stop=stop,
                 tell=lambda _: stop.set())  # fmt: skip
    assert states(results) in ([], [("a", 1, "invalid")])


@pytest.mark.slow
def test_what_stays_invalid_is_left_out_and_the_study_goes_on_and_says_so(results):
    study = a_study(A, B)
    first = loop._order([A, B], 1, 1)[0].condition.name
    told = []
    loop.run(study, a_lab(Jumping("j", {2, 4, 6})), results, repeats=1, tell=told.append)
    other = "b" if first == "a" else "a"
    assert states(results) == [(first, 1, "invalid")] * 3 + [(other, 1, "finished")]
    assert [p.step for p in told].count("left out") == 1 and (told[-1].done, told[-1].of) == (1, 2)
    assert left_out(results)[first].startswith("none of its 3 runs was valid: client: clock step")
    (verdict,) = judge(study, results)
    assert verdict.verdict == "not testable here" and "none of its 3 runs" in verdict.why
    assert "1 of them have no valid repetition" in remarks(results)[0]


@pytest.mark.slow
def test_when_no_run_can_be_used_the_reason_is_the_error(results):
    jumps = {n for n in range(2, 100) if n % 2 == 0}
    with pytest.raises(ResultsError, match=r"(?s)no run of lat_ping could be used.*clock step"):
        loop.run(a_study(A), a_lab(Jumping("j", jumps)), results, repeats=1)


@pytest.mark.slow
@pytest.mark.parametrize(("jumps", "lost"), [((), 0), ((2, 4, 6), 1), ((2, 4, 6, 8, 10, 12), 2)])
def test_a_study_that_lost_more_than_half_of_its_runs_is_no_success(results, jumps, lost):
    loop.run(a_study(A), a_lab(Jumping("j", {*jumps})), results, repeats=3)
    answer = Answer("s", "lab.toml", "", "", str(results.path), "", "", [], [], [], [], "")
    assert sum(run.state == "finished" for run in results.runs()) == 3 - lost
    if lost < 2:
        return answer.insist()
    with pytest.raises(ResultsError, match=r"(?s)2 of 3 runs of lat_ping have no valid.*clock st"):
        answer.insist()
    # What is judged again was lost when it was measured.
    replace(answer, where=str(results.path)).insist()


@pytest.mark.slow
def test_a_left_out_block_is_measured_when_the_study_is_run_again(results):
    study = a_study(A, B)
    loop.run(study, a_lab(Jumping("j", {2, 4, 6})), results, repeats=1)
    loop.run(study, a_lab(Jumping("j", ())), results, repeats=1)
    assert len(results.finished()) == 2 and left_out(results) == {}
    assert judge(study, results)[0].verdict != "not testable here"


@contextmanager
def a_neighbour(tmp_path):
    """A program of its own name that takes all the CPU time it gets."""
    shutil.copy(shutil.which("dash") or "/bin/sh", tmp_path / "neighbour")
    with alive([tmp_path / "neighbour", "-c", "while :; do :; done"]):
        yield


STRICT = tuple(name for name in gate.NAMES if name != "foreign load")


@pytest.mark.slow
def test_a_busy_neighbour_spoils_a_run_on_hosts_of_ones_own(results, tmp_path):
    with a_neighbour(tmp_path), pytest.raises(ResultsError, match=r"foreign load: .* of a CPU"):
        lab = a_lab(Local("here"), tier="hosts", tolerates=STRICT)
        loop.run(a_study(A), lab, results, repeats=1)
    assert [run.state for run in results.runs()] == ["invalid"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("tier, tolerates, expects", [
    ("loopback", (), ()), ("hosts", gate.NAMES, ()), ("hosts", STRICT, ("foreign load",)),
], ids=["in a box", "tolerated by the lab", "expected by the condition"])  # fmt: skip
def test_a_busy_neighbour_that_is_no_surprise_is_shown(results, tmp_path, tier, tolerates, expects):
    condition = Condition("a", "a", "a", expects=expects)
    with a_neighbour(tmp_path):
        lab = a_lab(Local("here"), tier=tier, tolerates=tolerates)
        loop.run(a_study(condition), lab, results, repeats=1)
    (run,) = results.runs()
    assert run.state == "finished" and " of a CPU" in run.gates["client"]["foreign load"]
    assert "client: gate foreign load tripped in 1 of 1 runs" in "\n".join(remarks(results))


def test_a_gate_that_is_none_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(Unknown, match="foreign load"):
        Condition("a", "a", "a", expects=("heat",))
    for said, why in [('["heat"]', "foreign load"), ('"steal"', "list of gates")]:
        file = tmp_path / "lab.toml"
        file.write_text(f'tolerates = {said}\n[hosts.client]\ncontrol = "192.0.2.1"\n')
        with pytest.raises(Exception, match=why):
            Lab.read(file)


@pytest.mark.slow
def test_percentiles_with_too_few_samples_say_how_many_they_need(results):
    study = a_study(A)
    loop.run(study, a_lab(Local("here")), results, repeats=3)
    said = _describe_figures(study, _rows(study, results))
    text = " ".join(said.split())
    assert "p99 of 120 samples has 1 beyond it; 10 beyond it, or 1000 samples in all" in text
    assert "higher percentiles need more" in text and text.count("samples in all") == 1
    assert "p90 of" not in said


def test_a_study_of_one_figure_a_run_is_told_by_the_mean_of_the_runs():
    study, results = studies.find("lat_vmxnet3"), stored_results("lat_vmxnet3", "recorded")
    rows = _rows(study, results)
    means = [np.mean([*blocks.values()]) for blocks in study.blocks(results).values()]
    assert [row["value"] for row in rows] == pytest.approx(means)
    assert all(row["low"] < row["value"] < row["high"] for row in rows)
    said = _describe_figures(study, rows)
    assert "mean of the runs" in said and "beyond it" not in said
    assert "99" not in said.split("\n")[0]


def test_what_is_told_of_results_of_others_is_text_for_a_terminal():
    taken = "\x1b]0;taken\x07\u202e"
    answer = Answer("s", taken, taken, taken, taken, taken, taken, [], [], [taken], [taken], taken)
    said = rendered(a_study(A), answer)
    assert "\x1b" not in said and "\u202e" not in said
    assert said.count("\\x1b") == 7, "answer, note, remark, notebook, report, runs, cost"
