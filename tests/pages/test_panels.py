"""Panels are views over plain Python: they work with no browser, no notebook, no lab."""

import asyncio
import re
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import synthetic

from labkit import charts, find_study
from labkit.charts.tradeoff import means
from labkit.errors import CommandFailed, Stopped
from labkit.gates import watch
from labkit.host import Host
from labkit.lab import Lab
from labkit.machine.places import HOME
from labkit.machine.units import figure
from labkit.pages import lab_panel, study_panel
from labkit.pages.dial_panel import DialPanel
from labkit.pages.growing import EDGE, WIDE, Median, lines, median
from labkit.pages.lab_panel import LabPanel, LadderPanel
from labkit.pages.study_panel import StudyPanel
from labkit.results import Results, Run
from labkit.running.open_lab import named_results
from labkit.runs.progress import Progress
from labkit.statistics.measurand import plain
from labkit.statistics.percentiles import interval
from labkit.transports.local import Local

BAD = "<img src=x onerror=alert(1)>"


class Silent(Local):
    def run(self, words, **options):
        raise CommandFailed(f"far: no route {BAD}\nsecond line")


@pytest.fixture
def lab():
    hosts = {"client": Host("client", "127.0.0.1", Local("client"))}
    hosts["server"] = Host("far", "192.0.2.1", Silent("far"))
    return Lab("two hosts", hosts)


class Counting:
    """A study of two conditions whose runs are instant, or wait until they are let go."""

    name, metric, unit = "counting", "round trip", "us"
    conditions = tuple(SimpleNamespace(name=n, means=n, here=f"{n} here") for n in "AB")

    def __init__(self, fails=None):
        self.fails, self.go, self.began = fails, threading.Event(), threading.Event()
        self.go.set()

    def sample(self, run):
        rows = {row["metric"]: row["p50"] for row in run.rows}
        return SimpleNamespace(values=np.array([rows.get(self.metric, 1.0)]))

    def measured(self, lab, results, *, repeats, tell, stop):
        kept = {(run.condition, run.block) for run in results.finished()}
        steps = [(c.name, b) for b in range(1, repeats + 1) for c in self.conditions]
        for order, (name, block) in enumerate(steps, 1):
            if (name, block) in kept:
                continue
            if stop.is_set():
                raise Stopped(f"stopped after {len(results.finished())} runs")
            tell(Progress("measuring", name, block, order - 1, len(steps), 7.0))
            self.began.set()
            if self.fails:
                raise self.fails
            self.go.wait(10)
            results.keep(Run(name, block, order, "finished"), {})


@pytest.fixture(autouse=True)
def instant(monkeypatch):
    # Nothing is claimed about a count of runs, so there is no answer to show.
    monkeypatch.setattr(StudyPanel, "_show_answer", lambda self: None)

    def run(study, lab, results, **asked):
        study.measured(lab, results, **asked)

    monkeypatch.setattr(study_panel.loop, "run", run)
    monkeypatch.setattr(study_panel, "remarks", lambda _, results: watch.remarks(results))


@pytest.fixture
def results(tmp_path):
    return Results.begin(tmp_path / "results", {"study": "counting", "seed": 1, "refused": {}})


@pytest.fixture
def watched(monkeypatch):
    """As if a notebook were open; what is displayed is kept."""
    seen = []
    for module in (lab_panel, study_panel):
        monkeypatch.setattr(module, "alone", lambda: False)
        monkeypatch.setattr(module, "show", seen.append)
    return seen


def words(panel):
    return panel._view.words.value


def test_nobody_is_there_in_plain_python_nor_in_a_batch(monkeypatch):
    assert lab_panel.alone()
    monkeypatch.setenv("LABKIT_BATCH", "1")
    assert lab_panel.alone()


@pytest.mark.slow
def test_alone_a_study_prints_two_short_lines_and_measures_nothing_twice(lab, results, capsys):
    assert asyncio.run(StudyPanel(Counting(), None, results).run()) is results
    assert "(recorded)" in capsys.readouterr().out
    assert asyncio.run(StudyPanel(Counting(), lab, results, repeats=3).run()) is results
    first, last = capsys.readouterr().out.splitlines()
    assert first == "counting: 0 of 6 runs are there"
    assert last.startswith("Finished in") and last.endswith("6 of 6 runs")
    asyncio.run(StudyPanel(Counting(), lab, results, repeats=3).run())
    assert len(results.runs()) == 6 and "6 of 6 runs are there" in capsys.readouterr().out
    asyncio.run(StudyPanel(Counting(), None, results, repeats=5).run())
    assert "6 of 6 runs are there (recorded)" in capsys.readouterr().out, "there will be no more"


@pytest.mark.slow
def test_watched_the_bars_fill_and_the_buttons_follow(lab, results, watched):
    panel = StudyPanel(Counting(), lab, results, repeats=2)
    asyncio.run(panel.run())
    view = panel._view
    assert watched == [view.whole]
    assert [lane.value for lane in view.lanes.values()] == [2, 2]
    assert all("<circle" in drawn.value for drawn in view.figures.values())
    assert (view.all.value, view.all.max, view.all.bar_style) == (4, 4, "success")
    assert view.start.disabled and view.stop.disabled and "Finished" in words(panel)


async def _stop_when_begun(panel, study, press):
    running = asyncio.ensure_future(panel.run())
    while not study.began.is_set():
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    assert not panel._view.stop.disabled and "about 7 s left" in words(panel)
    press(panel, running)
    await asyncio.sleep(0.3)
    assert "stopping" in words(panel) and not running.done()
    study.go.set()
    return await running


@pytest.mark.slow
@pytest.mark.parametrize("press", [
    lambda panel, running: panel._view.stop.click(),
    # What an interrupt of the kernel becomes in a cell that awaits.
    lambda panel, running: running.cancel(),
], ids=["the Stop button", "an interrupt"])  # fmt: skip
def test_stop_lets_the_run_end_keeps_it_and_raises_stopped(lab, results, watched, press):
    study = Counting()
    study.go.clear()
    panel = StudyPanel(study, lab, results, repeats=3)
    with pytest.raises(Stopped, match="the panel above says how to go on"):
        asyncio.run(_stop_when_begun(panel, study, press))
    assert len(results.finished()) == 1
    assert "Stopped; everything was put back" in words(panel)
    assert "Press Start study to go on, then run the cells below" in words(panel)
    assert not panel._view.start.disabled and panel._view.stop.disabled


@pytest.mark.slow
def test_start_goes_on_where_it_stopped(lab, results, watched):
    results.keep(Run("A", 1, 1, "finished"), {})
    panel = StudyPanel(Counting(), lab, results, repeats=2)
    panel.show()
    assert "1 of 4 runs" in words(panel) and not panel._view.start.disabled
    panel._view.start.click()
    for _ in range(100):
        if "Finished" in words(panel):
            break
        threading.Event().wait(0.05)
    assert len(results.finished()) == 4 and "Finished" in words(panel)


@pytest.mark.slow
def test_a_failure_is_raised_and_said_as_text(lab, results, watched):
    panel = StudyPanel(Counting(CommandFailed("box1: tc", said=BAD)), lab, results)
    with pytest.raises(CommandFailed):
        asyncio.run(panel.run())
    assert "Failed: box1: tc" in words(panel) and BAD not in words(panel)
    assert panel._view.all.bar_style == "danger"


def test_conditions_that_the_lab_refuses_have_no_lane(tmp_path):
    asked = {"study": "counting", "seed": 1, "refused": {"B": "no guest"}}
    now = study_panel.standing(Counting(), Results.begin(tmp_path / "r", asked), 5, "", "ready")
    assert (list(now.lanes), now.of) == (["A"], 5)


def test_each_lane_says_its_median_so_far_its_few_runs_and_from_the_fourth_how_sure_it_is(results):
    def keep(name, block, median):
        rows = ({"metric": "netperf p50", "p50": 9.0}, {"metric": "round trip", "p50": median})
        results.keep(Run(name, block, block, "finished", rows=rows), {"a.txt": "x"})
        return study_panel.standing(Counting(), results, 5, "", "running").figures

    keep("A", 1, 60.0), keep("B", 1, 2431.7)
    now = keep("A", 2, 66.0)
    assert list(now) == ["A", "B"] and now["B"].text == "2,432 µs"
    assert now["A"].text.endswith(" µs, blocks: 60, 66")
    keep("A", 3, 60.0)
    shown = r"(\S+) µs, (\S+) to (\S+) \(.* wide\)"
    value, low, high = re.match(shown, keep("A", 4, 66.0)["A"].text).groups()
    assert 60 <= float(value) <= 66 and float(low) < 60 and float(high) > 66


def test_the_lab_panel_says_who_answers_and_why_one_does_not(lab, capsys):
    client, server = LabPanel(lab).hosts().rows
    assert client[:3] == ("client", "127.0.0.1", "answers")
    assert server[2] == f"no answer: far: no route {BAD}"
    LabPanel(lab)._ipython_display_()
    assert "two hosts: real hosts" in capsys.readouterr().out


def test_the_lab_panel_as_a_widget_shows_what_hosts_say_as_text_and_asks_again(lab, watched):
    LabPanel(lab)._ipython_display_()
    badge, shown, again = watched[0].children
    assert "real hosts" in badge.value
    assert BAD not in shown.value and "&lt;img" in shown.value
    shown.value = ""
    again.click()
    assert "answers" in shown.value and not again.disabled


def test_without_a_lab_the_panel_shows_the_recorded_hosts_as_recorded():
    panel = LabPanel(None, synthetic.LAB)
    assert "guests by MADE-UP NUMBERS" in panel.badge
    assert {row[1] for row in panel.hosts().rows} == {"recorded"}


@pytest.fixture
def ladder(tmp_path):
    study = find_study("lat_ping")
    return LadderPanel(synthetic.write_results(tmp_path / "r", study, 3, 500), study)


@pytest.mark.slow
def test_alone_the_ladder_is_displayed_once_as_a_chart(ladder, monkeypatch):
    seen = []
    monkeypatch.setattr(lab_panel, "show", seen.append)
    ladder._ipython_display_()
    assert len(seen) == 1 and seen[0].to_dict()["title"]["subtitle"][0].startswith("Emulated")


@pytest.mark.slow
def test_each_choice_redraws_the_ladder(ladder):
    view = ladder.view()
    (percentiles, scale), ticks = view.children[0].children, view.children[1].children
    ladder.draw()
    pictures = [ladder.picture.data[charts.V5]]
    for control, value in ((percentiles, "median only"), (scale, "linear"), (ticks[0], False)):
        control.value = value
        pictures.append(ladder.picture.data[charts.V5])
        assert pictures[-1] != pictures[-2]
    for tick in ticks:
        tick.value = False
    assert "nothing to draw" in ladder.picture.data["text/plain"]


@pytest.mark.slow
def test_panel_table_and_chart_show_the_same_number(tmp_path, watched):
    study = find_study("lat_ping")
    results = synthetic.write_results(tmp_path / "r", study, 5, 500)
    panel = StudyPanel(study, None, results)
    panel.show()
    assert watched == [], "recorded runs need no buttons"
    kept = panel._kept.data["text/plain"]
    drawn = charts.frame(LadderPanel(results, study).chart((50,))).to_dicts()
    for name, blocks in study.blocks(results).items():
        found = interval(blocks, 50)
        said = f"{figure(found.value)} µs, {found.ends(figure)}"
        assert said in " ".join(kept.split())
        marks = {r["value"] for r in drawn if r["condition"] == name and r["runs"]}
        assert {figure(mark) for mark in marks} == {figure(found.value)}


@pytest.mark.slow
def test_of_one_figure_a_run_panel_and_table_show_the_same_mean(watched):
    study = find_study("docker_netperf")
    results = named_results(str(HOME / "data" / "recorded" / "docker_netperf.labkit"))
    panel = StudyPanel(study, None, results)
    panel.show()
    kept = " ".join(panel._kept.data["text/plain"].split())
    assert f"median {study.metric}" not in kept and study.metric in kept
    for row in means(study, results, plain(study.metric)):
        assert f"{row['mean']} µs, {row['95 % interval']}" in kept


@pytest.mark.slow
def test_the_date_of_recorded_runs_is_told(tmp_path, watched):
    results = named_results(str(HOME / "data" / "recorded" / "lat_ping.labkit"))
    panel = StudyPanel(find_study("lat_ping"), None, results)
    panel.show()
    day = results.finished()[0].started[:10]
    load = results.asked["workload"]
    said = " ".join(panel._kept.data["text/plain"].split())
    assert f"runs are there (recorded {day}, Ping(size={load['size']}, " in said
    assert f"count={load['count']})" in said


def test_status_words_are_told_to_who_listens(lab, results, watched):
    panel = StudyPanel(Counting(), lab, results, repeats=2)
    panel.show()
    assert 'aria-live="polite"' in words(panel)
    dials = DialPanel(lab)
    dials.say("x")
    assert 'aria-live="polite"' in dials.words.value
    names = [b.description for b in (panel._view.start, panel._view.stop, dials.start, dials.stop)]
    assert len(set(names)) == 4


RANDOM = np.random.default_rng(3)


def blocks(middle, number):
    """So many blocks of latencies around a middle."""
    return {n: middle * RANDOM.lognormal(0, 0.1, 200) for n in range(number)}


def places(line):
    """Where the large mark of a line stands, its small ones, and its bar."""
    circles = re.findall(r'<circle cx="([\d.]+)" cy="\d+" r="(\d)"', line)
    (large,) = (float(x) for x, r in circles if r == "4")
    bar = re.search(r'd="M([\d.]+) \d+H([\d.]+)" stroke-width', line)
    small = [float(x) for x, r in circles if r == "2"]
    return large, small, tuple(map(float, bar.groups())) if bar else ()


def test_two_times_as_slow_stands_two_times_as_far_from_the_left():
    drawn = lines({"A": median(blocks(100, 1), "us"), "B": median(blocks(200, 1), "us")})
    (a, *_), (b, *_) = places(drawn["A"]), places(drawn["B"])
    assert (b - EDGE) / (a - EDGE) == pytest.approx(2, rel=0.1) and b == WIDE - EDGE


def test_the_picture_grows_from_a_mark_to_blocks_and_to_an_interval():
    one, few, enough = (median(blocks(100, n), "us") for n in (1, 2, 6))
    assert places(lines({"A": one})["A"])[1:] == ([], ())
    at, each, bar = places(lines({"A": few})["A"])
    assert len(each) == 2 and bar == ()
    at, each, (low, high) = places(lines({"A": enough})["A"])
    assert each == [] and EDGE < low < at < high <= WIDE - EDGE
    assert re.fullmatch(r"[\d.]+ µs, [\d.]+ to [\d.]+ \(\d+% wide\)", enough.text)


def test_of_one_figure_a_run_the_mean_is_told_as_in_reports():
    found = median({n: np.array([x]) for n, x in enumerate((10.0, 11.0, 10.0, 13.0))}, "us")
    assert found.value == 11 and found.text.startswith("11 µs, ") and found.single
    assert not median(blocks(100, 4), "us").single


def test_far_apart_the_scale_is_logarithmic_and_all_marks_are_inside():
    drawn = lines({name: Median(name, 10.0**n) for n, name in enumerate("ABC")})
    a, b, c = (places(drawn[name])[0] for name in "ABC")
    assert (a, b, c) == pytest.approx((EDGE, WIDE / 2, WIDE - EDGE))


def test_what_has_no_figure_is_a_line_without_marks_and_words_are_never_markup():
    drawn = lines({"A": median({}, "us"), "<b>": Median("<i>odd</i>", 1.0)})
    assert "circle" not in drawn["A"] and drawn["A"].endswith("no figure")
    assert "<i>" not in drawn["<b>"]
