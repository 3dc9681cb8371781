"""A campaign runs its points in their order, says truly how each ended, and leaves a report."""

import json
import re
import socket
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from campaigns import begun, folder, history, labkit, loopback_lab, made_up, processes, written

from labkit import errors
from labkit.campaign.asked import CampaignPoint
from labkit.campaign.conductor import CampaignStanding
from labkit.campaign.folder import FAILED, Attempt, pause
from labkit.campaign.foreseen import Foreseen, best_known, earlier, together
from labkit.campaign.places import Needs, Waiting, held, to_begin
from labkit.campaign.report import _facts
from labkit.changes.in_force import in_force
from labkit.cli import main
from labkit.lab import opened

RECORDED = """labs = ["recorded"]
[[study]]
name = "lat_vmxnet3"
[[study]]
name = "docker_stream"
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A campaign of two recorded studies, whole: where it lies, and what the command said."""
    place = tmp_path_factory.mktemp("done")
    ran = labkit("campaign", "run", written(place, RECORDED), "--json", out=place / "out")
    assert ran.returncode == 0, ran.stderr
    return place / "out", json.loads(ran.stdout)


@pytest.mark.slow
def test_every_point_is_finished_with_its_notebook_and_its_verdicts(done):
    out, told = done
    assert [one["state"] for one in told["points"]] == ["finished", "finished"]
    by_study = {one["study"]: one for one in told["points"]}
    verdicts = {v["claim"] for v in by_study["lat_vmxnet3"]["verdicts"]}
    assert verdicts == {"lat-vmxnet3-01", "lat-vmxnet3-02"} or len(verdicts) == 2
    for one in told["points"]:
        own = out / "campaigns/small/points" / one["name"]
        cells = json.loads((own / "notebook.ipynb").read_text())["cells"]
        code = [c for c in cells if c["cell_type"] == "code"]
        assert all(c["execution_count"] for c in code)
        assert json.loads((own / "answer.json").read_text())["study"] == one["study"]
        assert Path(one["results"], "study.json").is_file()
    assert processes(out) == []


def test_the_time_of_a_report_ends_with_the_point_that_ended_last():
    began = {"2026-01-02T19:42:10.000+00:00": 120.0, "2026-01-02T19:38:00.000+00:00": 60.0, "": 0.0}
    said = _facts([{"began": at, "seconds": seconds} for at, seconds in began.items()])
    assert said.startswith("Measured 2026-01-02 19:38 to 2026-01-02 19:44 UTC, 3 min of work.")
    assert _facts([{"began": "", "seconds": 0.0}]).startswith("Made by labkit ")


class Asks(HTMLParser):
    """What a page would load or link to."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [(tag, value) for name, value in attrs if name in ("src", "href")]


@pytest.mark.slow
def test_the_report_is_one_folder_that_asks_no_network(done):
    _, told = done
    index = Path(told["report"])
    page = index.read_text("utf-8")
    asks = Asks()
    asks.feed(page)
    assert asks.found and "<script" not in page and "default-src 'none'" in page
    for tag, link in asks.found:
        assert tag == "a" and (index.parent / link).is_file(), link
    assert len([link for _, link in asks.found if link.endswith(".html")]) == 2
    for notebook in (index.parent / "points").glob("*.html"):
        text = notebook.read_text("utf-8")
        assert "connect-src" in text or "default-src 'none'" in text
        assert not re.findall(r"<(?:script|img|iframe)[^>]+src=\"?https?:", text)
    assert "Verdicts" in page and "2 of 2 points are finished" in page
    copied = json.loads((index.parent / "campaign.json").read_text())
    assert copied["points"] == told["points"]


@pytest.mark.slow
def test_points_that_took_some_time_foresee_the_next_ones(done, monkeypatch):
    out, _ = done
    monkeypatch.setenv("LABKIT_OUT", str(out))
    point = folder(out).points[0]
    took = folder(out).finished(point).seconds
    assert best_known(point, earlier([point])) == Foreseen(took, "an earlier point")
    assert best_known(point, {}).by == "a guess"


@pytest.mark.when_changed("labkit/campaign/")
@pytest.mark.slow
def test_a_host_that_cannot_be_reached_is_tried_again_and_then_a_failure(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # where nobody listens
        host = f'control = "127.0.0.1"\nport = {taken.getsockname()[1]}\n'
        lab = f'ssh_config = "none"\n[hosts.client]\n{host}[hosts.server]\n{host}'
        (tmp_path / "gone.toml").write_text(lab)
        campaign = 'labs = ["gone.toml"]\nretries = 1\n[[study]]\nname = "lat_ping"\n'
        ran = labkit("campaign", "run", written(tmp_path, campaign), out=tmp_path / "out")
    assert ran.returncode == 1, ran.stderr
    found = folder(tmp_path / "out")
    tries = found.attempts(found.points[0])
    assert [(one.state, one.kind) for one in tries] == [("failed", "Unreachable")] * 2
    assert "again in 5 s" in ran.stderr and "failed  2 " in ran.stdout
    index = (tmp_path / "out/campaigns/small/report/index.html").read_text()
    assert "failed after 2 attempts" in index and "Connection refused" in index
    pages = [*(tmp_path / "out/campaigns/small/report/points").glob("*.html")]
    assert len(pages) == 1 and "did not run to its end" in pages[0].read_text()


@pytest.mark.torture
@pytest.mark.slow
def test_a_deadline_and_a_limit_stop_points_and_leave_them_for_the_next_time(tmp_path):
    with loopback_lab(tmp_path):
        text = """labs = ["loopback.toml"]
        deadline = "6 s"
        [[study]]
        name = "lat_ping"
        parameters.count = 60000
        """
        late = labkit("campaign", "run", written(tmp_path, text), out=tmp_path / "out")
        assert late.returncode == 3, late.stderr
        found = folder(tmp_path / "out")
        (attempt,) = found.attempts(found.points[0])
        assert attempt.state == "stopped" and "the deadline came first" in late.stderr
        long = text.replace("deadline", "limit")
        limited = labkit("campaign", "run", written(tmp_path, long), out=tmp_path / "out")
        assert limited.returncode == 1 and "longer than its limit of 6 s" in limited.stderr
        assert [one.state for one in found.attempts(found.points[0])] == ["stopped", "stopped"]
    assert processes(tmp_path / "out") == []


@pytest.mark.when_changed("labkit/campaign/")
@pytest.mark.slow
def test_a_point_waits_for_a_lab_that_somebody_else_holds(tmp_path):
    with loopback_lab(tmp_path) as lab_file, opened(lab_file) as lab:
        text = 'labs = ["loopback.toml"]\n[[study]]\nname = "lat_ping"\n'
        file = written(tmp_path, f"{text}parameters.repeats = 1\nparameters.count = 100\n")
        with in_force(lab.hosts, "their study") as changes:
            changes.take(["server"])
            ours = begun("campaign", "run", file, out=tmp_path / "out")
            said = ours.stderr.readline()
            assert "waits as server is held by" in said and "their study" in said
            assert not [*(tmp_path / "out").glob("results/*/*/runs/*")]
        assert ours.communicate(timeout=90)[0] and ours.returncode == 0
    found = folder(tmp_path / "out")
    assert [attempt.state for attempt in found.attempts(found.points[0])] == ["finished"]


@pytest.mark.parametrize("kind, again", [
    ("Unreachable", True), ("OutcomeUnknown", True), ("TimedOut", True), ("Busy", True),
    ("KernelDied", True), ("LoginRefused", False), ("BadInput", False), ("Unknown", False),
    ("HostKeyRefused", False), ("JournalDamaged", False), ("ResultsError", False),
    ("SudoRefused", False), ("ZeroDivisionError", False), ("readable", False), ("", False),
])  # fmt: skip
def test_only_what_may_pass_by_itself_is_tried_again(kind, again):
    assert Attempt(1, FAILED, "", kind=kind).may_pass is again
    assert kind in ("", "ZeroDivisionError") or hasattr(errors, kind)


def test_one_line_says_how_far_it_has_come_and_how_long_it_still_takes():
    at_work = ("0003 lat_ping on box: measuring Native, 2 of 8 runs", "0004 lat_ping on b: x")
    assert str(CampaignStanding(6, 1, 14, at_work, 300)) == (
        f"[{'#' * 12}{'.' * 12}] 6 of 14 points, 1 failed, about 5 min left: "
        "0003 lat_ping on box: measuring Native, 2 of 8 runs and 1 more"
    )
    assert str(CampaignStanding(14, 0, 14, (), 0)) == f"[{'#' * 24}] 14 of 14 points"


def test_an_attempt_of_an_older_labkit_can_be_read(tmp_path):
    Attempt.begin(1).ended(FAILED, "why").keep(tmp_path)
    file = tmp_path / "attempt-1.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "pid": "7", "boot": "x"}))
    assert Attempt.read(file).why == "why"


def test_pauses_grow_up_to_five_minutes():
    assert [pause(n) for n in (1, 2, 3, 9)] == [5, 15, 45, 300]


A, B, AB = Needs(frozenset("a")), Needs(frozenset("b")), Needs(frozenset("ab"))
BOX, STORED = Needs(frozenset(["this machine"]), alone=True), Needs(stored=True)


def points_of(*needs):
    return [
        Waiting(CampaignPoint(n, "lat_ping", "box", {}, 1), one) for n, one in enumerate(needs, 1)
    ]


def rounds(*asked):
    """Which points begin together, if each round ends before the next one."""
    waiting = points_of(*asked)
    while waiting:
        chosen = to_begin(waiting, [], 0.0)
        yield [one.point.number for one in chosen]
        waiting = [one for one in waiting if one not in chosen]


def test_points_on_other_labs_run_side_by_side_and_none_overtakes_on_its_own():
    assert [*rounds(A, B, A, B)] == [[1, 2], [3, 4]]
    assert [*rounds(A, A, AB, B)] == [[1], [2], [3], [4]], "b waits behind the one that needs both"
    assert [*rounds(A, BOX, B, STORED)] == [[1], [2], [3, 4]], "the box runs alone"
    many = [*rounds(*[Needs(frozenset([str(n)])) for n in range(10)])]
    assert [len(some) for some in many] == [8, 2]


def test_a_point_that_waits_for_another_try_keeps_only_its_own_lab_waiting():
    waiting = points_of(A, A, B)
    waiting[0].after = 9.0
    assert [one.point.number for one in to_begin(waiting, [], 1.0)] == [3]
    assert [one.point.number for one in to_begin(waiting, [B], 10.0)] == [1]


def test_times_of_labs_side_by_side_do_not_add_up():
    assert together([(A, 10), (B, 7), (A, 5), (BOX, 3)]) == 15 + 3


@pytest.mark.slow
def test_a_lock_lasts_as_long_as_a_process_that_has_inherited_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "own"))
    said = []
    needs = Needs(frozenset(["one host"]))
    with held(tmp_path / "point", needs, said.append) as locks:
        words = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        heir = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=locks)

    def waiting(text):
        said.append(text)
        heir.communicate()

    with held(tmp_path / "another", needs, waiting):
        assert heir.returncode == 0
    assert said == ["waits for one host, which another campaign uses"]


@pytest.mark.slow
def test_other_points_under_a_known_name_are_refused(tmp_path, monkeypatch, typed):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    made_up(tmp_path, "taken", 2)
    text = 'labs = ["recorded"]\n[[study]]\nname = "lat_ping"\nsweep.count = [600]\n'
    file = written(tmp_path, text, "taken")
    output = typed("campaign", "run", file, code=2)
    assert "holds a campaign of other points" in output and 'name = "taken-2"' in output
    assert main(["campaign", "check", str(file)]) == 2


@pytest.mark.slow
def test_a_campaign_that_is_half_done_has_a_report_that_says_so(tmp_path, monkeypatch, typed):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    half = made_up(tmp_path, "half", 2)
    (half.of(half.points[1]) / "attempt-1.json").unlink()
    answer = typed("campaign", "report", "half", "--json")
    assert [one["state"] for one in answer["points"]] == ["finished", "not begun"]
    page = Path(answer["report"]).read_text()
    assert "1 of 2 points have not begun yet" in page and "1 of 2 points are finished" in page
    assert history(half) == [half.points[0].name]
    assert "1 finished, 1 not begun" in typed("campaign", "report", half.path)


def test_what_a_campaign_is_called_cannot_leave_its_folder_or_its_page(tmp_path, capsys):
    text = '[[study]]\nname = "lat_ping"\nlabs = ["recorded"]\n'
    for name in ("../x", "<b>x", "", "x" * 61):
        file = tmp_path / "odd.toml"
        file.write_text(f"name = {json.dumps(name)}\n{text}")
        assert main(["campaign", "check", str(file)]) == 2
    assert "at most 60 letters" in capsys.readouterr().err
