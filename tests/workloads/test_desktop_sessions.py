"""Users of remote desktops: more of them wait longer, and one who fails is counted as failed."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labkit.errors import BadInput, HostError, ResultsError, Unknown
from labkit.host import Host
from labkit.transports.local import Local
from labkit.workloads import _desktop
from labkit.workloads import _desktop_users as users
from labkit.workloads.desktop_sessions import DesktopSessions, curve, slowest

PROGRAMS = ("Xvnc", "mupdf-gl")
OURS = tuple(
    f"labkit/{name}" for name in
    ("workloads/_desktop", "workloads/desktop_sessions.py", "studies/horizon_rdsh.py")
)  # fmt: skip
AT = f"127.80.{os.getpid() % 250}.{1 + os.getpid() // 250 % 250}"
TASK = users.DesktopTask([], "tight", "keys", [1], 30, 0.4, 0.2, 1, warm_up=1.0)


@pytest.fixture
def hosts():
    """Both are this machine."""
    for program in PROGRAMS:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    return {role: Host(role, AT, Local(role)) for role in DesktopSessions.roles}


@pytest.mark.parametrize(("knobs", "error"), [
    ({"encoding": "jpeg"}, Unknown), ({"steps": ""}, BadInput), ({"steps": "2 7"}, BadInput),
    ({"steps": "0"}, BadInput), ({"think": 0}, BadInput), ({"good": 61}, BadInput),
    ({"duration": 0.1}, BadInput), ({"warm_up": -1}, BadInput),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused_by_name(knobs, error):
    with pytest.raises(error, match=next(iter(knobs)).replace("_", ".")):
        DesktopSessions(**knobs)


def test_a_seed_draws_the_same_keys_and_each_of_them_changes_the_picture():
    plans = [[*users.schedule(TASK, user)] for user in (0, 0, 1)]
    assert plans[0] == plans[1] != plans[2]
    gaps = [
        later - earlier for (earlier, _), (later, _) in zip(plans[2], plans[2][1:], strict=False)
    ]
    assert 0.2 < sum(gaps) / len(gaps) < 0.8 and max(gaps) <= users.LONGEST_THINK * 0.4
    page, size = 0, "out"
    for _, key in plans[0]:
        page += {"next": 1, "back": -1}.get(key, 0)
        assert page >= 0 and key != size
        size = key if key in ("in", "out") else size


def sessions(times, failed=""):
    """Two sessions: one with these times, and one that ended well or not."""
    mine, other = users.DesktopSession(TASK, 0), users.DesktopSession(TASK, 1)
    mine.times = times
    other.times = [0.01 for due, _ in other.plan if due >= TASK.warm_up]
    other.failed = failed
    return mine, other


@pytest.mark.parametrize(("late", "failed", "passed"), [
    (0, "", True), (0.04, "", True), (0.2, "", False), (0, "it died", False),
])  # fmt: skip
def test_the_gate_takes_95_of_100_answers_of_sessions_that_all_last(late, failed, passed):
    keys = sum(due >= TASK.warm_up for due, _ in users.schedule(TASK, 0))
    slow = round(late * 2 * keys)
    row = users._row(TASK, sessions([0.3] * slow + [0.1] * (keys - slow), failed), 0.1)
    assert row["passed"] is passed and row["failed"] == ({failed: 1} if failed else {})
    assert row["keys"] > row["good"] if late or failed else row["keys"] == row["good"]


def test_a_key_without_a_picture_is_slower_than_any_other():
    row = {"keys": 10, "times": [0.1] * 9}
    assert slowest(row) > slowest({"keys": 10, "times": [0.1] * 10}) == pytest.approx(100)


def test_users_are_those_of_the_largest_trial_that_passed():
    lines = [
        {"users": n, "keys": 10 * n, "good": 10 * n - late, "passed": not late, "seconds": 3,
         "bytes": 9000 * n, "times": [0.05] * 10 * n, "opened": [0.2] * n, "why": [], "failed": {}}
        for n, late in ((2, 0), (4, 0), (6, 20))
    ]  # fmt: skip
    text = "\n".join(map(json.dumps, lines))
    levels = {sample.metric: sample.values.mean() for sample in DesktopSessions.parse(text)}
    assert levels["users"] == 4 and levels["bandwidth"] == pytest.approx(3)
    assert curve(text)[-1] == (6, pytest.approx(2 / 3))
    with pytest.raises(ResultsError, match="did not finish"):
        DesktopSessions.parse("")


@pytest.mark.slow
def test_more_users_are_sent_more_and_nothing_is_left(hosts):
    load = DesktopSessions(steps="2 6", duration=2, good=5)
    few, many = map(json.loads, load.run(hosts).splitlines())
    assert few["keys"] == len(few["times"]) and not few["why"] + many["why"]
    assert many["bytes"] > 2 * few["bytes"]
    assert not left_over()


@pytest.mark.torture
def test_more_users_wait_longer(hosts):
    """The slowest answers of six desktops on this machine are slower than those of one."""
    load = DesktopSessions(steps="1 6", duration=6, good=5)
    runs = [[slowest(json.loads(line)) for line in load.run(hosts).splitlines()] for _ in range(3)]
    few, many = np.median(runs, axis=0)
    assert many > few


def left_over():
    words = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return [word for word in words if AT.encode() in word]


@pytest.mark.slow
@pytest.mark.when_changed(*OURS)
def test_a_session_that_dies_is_counted_as_failed_and_named(hosts, monkeypatch):
    """The fourth of all desktops, in the second trial, ends before it shows anything."""
    dying = replace(_desktop.APPLICATIONS["reader"], words=("sh", "-c", "echo gone >&2; exit 3"))
    desktop, begun = _desktop.desktop, []

    def fourth(host, application):
        begun.append(host)
        return desktop(host, dying if len(begun) == 4 else application)

    monkeypatch.setattr(_desktop, "desktop", fourth)
    load = DesktopSessions(steps="2 4 6", duration=1, good=5)
    text = load.run(hosts)
    first, second = map(json.loads, text.splitlines())
    assert first["passed"] and not second["passed"] and second["good"] < second["keys"]
    assert second["why"] == ["sh ended in mid-session with code 3: gone"] and not left_over()
    assert [sample.values[0] for sample in load.parse(text) if sample.metric == "users"] == [2]


@pytest.mark.slow
def test_where_no_session_lasts_there_is_no_result(hosts, monkeypatch):
    dying = replace(_desktop.APPLICATIONS["reader"], words=("false",))
    monkeypatch.setitem(_desktop.APPLICATIONS, "reader", dying)
    with pytest.raises(HostError, match="no session lasts") as refused:
        DesktopSessions(steps="1").run(hosts)
    assert "false ended in mid-session with code 1" in str(refused.value) and not left_over()
