"""Users of remote desktops: more of them wait longer, and one who fails is counted as failed."""

import json
import socket
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import count

import numpy as np
import pytest
from brought import commands, need, own_address, run_program
from figures import figures

from labkit.errors import HostError, ResultsError
from labkit.host import Host
from labkit.lab import opened
from labkit.running import possible
from labkit.studies.horizon_rdsh import study
from labkit.transports.local import Local
from labkit.workloads import _desktop
from labkit.workloads import _desktop_users as users
from labkit.workloads.desktop_sessions import DesktopSessions, curve, slowest

PROGRAMS = ("Xvnc", "lowriter", "mupdf-gl", "netsurf-gtk", "xfreerdp", "xrdp")
OURS = tuple(
    f"labkit/{name}" for name in
    ("workloads/_desktop", "workloads/desktop_sessions.py", "studies/horizon_rdsh.py")
)  # fmt: skip
AT = own_address(80)
TASK = users.DesktopTask([], "tight", "keys", 1, 30, 0.4, 0.2, 1, warm_up=1.0)


@pytest.fixture
def hosts():
    """Both are this machine."""
    need("Xvnc", "mupdf-gl")
    return {role: Host(role, AT, Local(role)) for role in DesktopSessions.roles}


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
    levels = figures(DesktopSessions, text)
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


@pytest.mark.slow
@pytest.mark.when_changed(*OURS)
@pytest.mark.parametrize(("task", "program"), [
    ("writing", "lowriter"), ("browsing", "netsurf-gtk"),
])  # fmt: skip
def test_each_key_of_a_task_changes_the_picture(hosts, task, program):
    need(program)
    load = DesktopSessions(task=task, steps="1", duration=4, good=5)
    row = json.loads(load.run(hosts))
    assert row["passed"] and row["keys"] == len(row["times"]) == row["good"] > 4
    assert row["bytes"] > 1000 * row["keys"] and program in load.tools and not left_over()


@pytest.mark.slow
@pytest.mark.when_changed(*OURS)
def test_by_rdp_each_key_changes_the_picture_on_the_client_s_screen(hosts):
    """The bytes are those of RDP, not of the screen: that has two megabytes in each picture."""
    need("xrdp", "xfreerdp")
    if why := _desktop.unreachable(hosts["server"]):
        pytest.skip(f"an IPv6 address is missing on this machine: {why}")
    load = DesktopSessions(protocol="rdp", steps="2", duration=3, good=5)
    row = json.loads(load.run(hosts))
    assert row["passed"] and row["keys"] == len(row["times"]) == row["good"] > 4
    assert 1000 < row["bytes"] / row["keys"] < 1_000_000 and not left_over()


@pytest.mark.slow
@pytest.mark.when_changed(*OURS)
def test_a_server_of_rdp_that_shows_another_certificate_is_refused(hosts, monkeypatch):
    need("xrdp", "xfreerdp")
    viewer = _desktop._viewer
    monkeypatch.setattr(_desktop, "_viewer", lambda *at: viewer(*at[:-1], 64 * "0"))
    with pytest.raises(HostError, match="no session lasts") as refused:
        DesktopSessions(protocol="rdp", steps="1", duration=1).run(hosts)
    assert "ertificate" in str(refused.value) and not left_over()


@pytest.mark.box
@pytest.mark.slow
@pytest.mark.when_changed(*OURS)
def test_where_xrdp_reaches_no_display_rdp_is_left_out_and_named(box_of):
    """The hosts of a box have no address of IPv6."""
    need(*PROGRAMS)
    with opened(box_of(study.topology)) as lab:
        refused = possible.refusals(study, lab)
    assert [*refused] == ["RDP", "RDP, slow line"] and "no IPv6 address" in refused["RDP"]


@pytest.mark.torture
def test_more_users_wait_longer(hosts):
    """The slowest answers of six desktops on this machine are slower than those of one."""
    load = DesktopSessions(steps="1 6", duration=6, good=5)
    runs = [[slowest(json.loads(line)) for line in load.run(hosts).splitlines()] for _ in range(3)]
    few, many = np.median(runs, axis=0)
    assert many > few


def change_fourth(monkeypatch, change):
    """The fourth of all desktops from now on is another one."""
    desktop, numbers = _desktop.desktop, count(1)

    def counted(*words):
        return desktop(*(change(*words) if next(numbers) == 4 else words))

    monkeypatch.setattr(_desktop, "desktop", counted)


def left_over():
    return [words for words in commands() if AT.encode() in words]


@pytest.mark.slow
@pytest.mark.when_changed(*OURS)
def test_a_session_that_dies_is_counted_as_failed_and_named(hosts, monkeypatch):
    """The fourth of all desktops, in the second trial, ends before it shows anything."""
    dying = replace(_desktop.APPLICATIONS["reader"], words=("sh", "-c", "echo gone >&2; exit 3"))
    change_fourth(monkeypatch, lambda host, application: (host, dying))
    load = DesktopSessions(steps="2 4 6", duration=1, good=5)
    text = load.run(hosts)
    first, second = map(json.loads, text.splitlines())
    assert first["passed"] and not second["passed"] and second["good"] < second["keys"]
    assert second["why"] == ["sh ended in mid-session with code 3: gone"] and not left_over()
    assert [sample.values[0] for sample in load.parse(text) if sample.metric == "users"] == [2]


@pytest.mark.slow
def test_a_display_that_does_not_come_up_is_a_session_that_failed(hosts, monkeypatch):
    """The fourth of all desktops, in the second trial, is to listen where no address is."""
    change_fourth(
        monkeypatch, lambda host, application: (replace(host, address="192.0.2.1"), application)
    )
    first, second = map(
        json.loads, DesktopSessions(steps="2 4", duration=1, good=5).run(hosts).splitlines()
    )
    (why,) = second["why"]
    assert first["passed"] and not second["passed"] and "the display did not come up" in why
    assert [*second["failed"].values()] == [1] and second["good"] < second["keys"]
    assert not left_over()


def run_users(files=0, **more):
    """What the users' program says of four users of a server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = [*silent.getsockname(), "password"]
        task = asdict(replace(TASK, desktops=[at] * 4, users=4, seconds=1, begin=0.3, **more))
        return run_program(users.__file__, files=files, input=json.dumps(task))


@pytest.mark.slow
def test_a_desktop_that_does_not_answer_fails_and_used_up_file_descriptors_are_named():
    silent = json.loads(run_users().stdout)
    assert silent["failed"] == {"no answer in 0.3 s": 4} and not silent["passed"]
    short = json.loads(run_users(files=8).stdout)["failed"]
    (used_up,) = [why for why in short if why.startswith("file descriptors used up")]
    assert sum(short.values()) == 4 and short[used_up] >= 2


@pytest.mark.parametrize(
    "late, busy, refused", [(0.2, 0.9, True), (0.2, 0.2, False), (0, 0.9, False)]
)
def test_a_client_that_saturates_decides_nothing(late, busy, refused):
    """One that was late because others had the CPU is known by its lateness, as a gate."""
    waited = sessions([1.0])
    waited[0].late = [late] * 20
    row = users._row(TASK, waited, busy)
    with pytest.raises(SystemExit, match="saturates") if refused else nullcontext():
        users._refuse_own_fault(TASK, row)
    assert DesktopSessions().behind(json.dumps(row)) == (1 if late else 0)
    assert DesktopSessions().behind(json.dumps({})) is None


@pytest.mark.slow
def test_where_no_session_lasts_there_is_no_result(hosts, monkeypatch):
    dying = replace(_desktop.APPLICATIONS["reader"], words=("false",))
    monkeypatch.setitem(_desktop.APPLICATIONS, "reader", dying)
    with pytest.raises(HostError, match="no session lasts") as refused:
        DesktopSessions(steps="1").run(hosts)
    assert "false ended in mid-session with code 1" in str(refused.value) and not left_over()
