"""Events: begun when the load is steady, told on one clock, and undone whatever happens."""

import json
import time
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from waiting import awaited

from labkit.box.guests.watch_guest import Mirrors
from labkit.charts.moving import seen_live
from labkit.errors import BadInput, HostError, ResultsError
from labkit.event import Event, Say, TimeLine, happening, said
from labkit.events import _libvirt, _seen
from labkit.events.migration import LiveMigration

LAB = SimpleNamespace(fleet=SimpleNamespace(clocks=lambda: SimpleNamespace(ok={})))


@dataclass(frozen=True)
class Blinking(Event):
    """Says when it was done and undone."""

    fails: bool = False
    seen: list = field(default_factory=list, compare=False)
    seconds = 0.0

    def happen(self, lab, say):
        say(what="done")
        self.seen.append("done")
        if self.fails:
            raise HostError("it broke")

    def undo(self, lab):
        self.seen.append("undone")

    @staticmethod
    def time_line(text):
        return TimeLine("blink", ())

    @staticmethod
    def parse(text, loads):
        return []


def to_its_end(beside):
    beside.begun()
    while beside.going:
        time.sleep(0.01)


def test_an_event_begins_when_the_load_is_steady_and_is_undone_afterwards():
    event = Blinking(after=0.05, settle=0.05)
    with happening((event,), LAB) as beside:
        assert beside.going and event.seen == []
        to_its_end(beside)
        assert event.seen == ["done"]
    assert event.seen == ["done", "undone"]
    assert json.loads(beside.texts["blinking.txt"])["what"] == "done"


def test_the_clocks_are_read_while_the_load_is_prepared_and_not_in_its_midst():
    read = []

    def clocks():
        read.append(time.monotonic())
        return SimpleNamespace(ok={})

    event = Blinking(after=0.05, settle=0)
    with happening((event,), SimpleNamespace(fleet=SimpleNamespace(clocks=clocks))) as beside:
        awaited(lambda: read)
        assert len(read) == 1 and event.seen == []
        to_its_end(beside)
    assert len(read) == 1 and event.seen == ["done", "undone"]


STILL = ("MIGRATION", {"status": "pre-switchover"})
WHOLE, ENDED = ((f"BLOCK_JOB_{word}", {"device": "vda"}) for word in ("READY", "COMPLETED"))


@pytest.mark.parametrize("order", [(WHOLE, STILL), (STILL, WHOLE)])
def test_the_copy_of_a_disk_ends_once_it_is_whole_and_the_guest_stands_still(order):
    asked, copies = [], Mirrors({"vda"})
    monitor = SimpleNamespace(ask=lambda command, **_: asked.append(command))
    for number, (event, about) in enumerate(order):
        assert asked == [], number
        copies.heard(monitor, event, about)
    assert asked == ["block-job-cancel"]
    copies.heard(monitor, *ENDED)
    assert asked == ["block-job-cancel", "migrate-continue"]


def test_an_event_that_fails_is_told_of_and_undone_and_what_it_said_is_kept():
    event = Blinking(after=0, settle=0, fails=True)
    with pytest.raises(HostError, match="it broke"), happening((event,), LAB) as beside:
        to_its_end(beside)
    assert event.seen == ["done", "undone"] and beside.texts["blinking.txt"]


def test_an_event_whose_load_fails_before_it_never_happens():
    event = Blinking(after=60)
    start = time.monotonic()
    with pytest.raises(ZeroDivisionError), happening((event,), LAB) as beside:
        beside.begun()
        _ = 1 / 0
    assert event.seen == ["undone"] and time.monotonic() - start < 30


def test_times_of_hosts_become_the_controllers_and_its_own_stay():
    say = Say()
    say(clock="server", offset=2.5, bound=0.001)
    say(host="server", t=102.5, event="STOP", at=102.5)
    say(host="server", t=100.0, by="controller")
    lines = said(say.text)
    assert [line["t"] for line in lines[1:]] == [100.0, 100.0] and lines[1]["at"] == 100.0


def moved(stop=5.0, resume=5.5, rounds=(1.0, 4.0, 4.8)):
    say = Say()
    say(moves="guest", origin="server", to="server2", rate_mbit=1000, t=0.9)
    say(host="server", event="MIGRATION", status="setup", at=1.0, t=1.0)
    for n, at in enumerate(rounds, 1):
        say(host="server", event="MIGRATION_PASS", at=at, t=at, **{"pass": n})
    for n in range(45):
        at = 1.0 + n / 10
        say(host="server2", t=at, net={"data0": [0, 0], "crossing0": [int(12.5e6 * n / 2), 0]},
            cpu={"all": n / 20})  # fmt: skip
    say(host="server", event="STOP", at=stop, t=stop)
    say(host="server", event="MIGRATION", status="completed", at=resume - 0.1, t=resume)
    say(host="server2", event="RESUME", at=resume, t=resume)
    return say.text


def test_the_time_line_of_a_migration_is_its_rounds_and_standing_still():
    rows = LiveMigration.time_line(moved()).rows()
    assert [(row["phase"], row["begun"], row["seconds"]) for row in rows] == [
        ("round 1", 0.0, 3.0), ("round 2", 3.0, 0.8), ("round 3", 3.8, 0.2),
        ("switch-over", 4.0, 0.5),
    ]  # fmt: skip


def test_a_pass_that_only_counts_what_is_left_is_no_round():
    rows = LiveMigration.time_line(moved(rounds=(1.0, 4.0, 4.999))).rows()
    assert [row["phase"] for row in rows] == ["round 1", "round 2", "switch-over"]


def parsed(text):
    return {one.metric: one.values for one in LiveMigration.parse(text, {})}


def test_figures_of_a_migration_come_from_what_was_counted():
    at = parsed(moved())
    assert at["migration time"] == 4.5 and at["switchover time"] == 0.5 and at["rounds"] == 3
    assert at["bandwidth"] == pytest.approx(500, rel=0.01)
    assert at["share of line"] == pytest.approx(0.5, rel=0.01)
    assert at["cpu of the destination"] == pytest.approx(0.5, rel=0.01)
    assert at["arrived share"] == 1 and at["second pass"] == pytest.approx(0.8)


@pytest.mark.slow
def test_a_move_under_way_is_drawn_as_soon_as_something_of_it_was_seen():
    lines = moved().splitlines(keepends=True)
    assert seen_live("", "far") is None and seen_live(lines[0], "far") is None
    half, whole = (seen_live("".join(part), "far") for part in (lines[:30], lines))
    assert "far: bandwidth and CPU" in half.to_json() and "switch-over" not in half.to_json()
    assert "switch-over" in whole.to_json()


def figures(span, values):
    at = np.arange(values.size) + 0.5
    found = _seen.dips(span, {"orders": (at, values)})
    return {one.metric: float(one.values[0]) for one in found}


@pytest.mark.parametrize(("low", "steady"), [(100.0, 1), (25.0, 0)])
def test_a_load_was_steady_unless_it_was_low_while_its_guest_did_not_stand_still(low, steady):
    at = np.arange(20) + 0.5
    meanwhile = np.where((at > 8) & (at < 16), low, 100.0)
    found = figures(_seen.Span(8, 8, 15, 16, 16.2), np.where((at > 15) & (at < 16), 0.0, meanwhile))
    assert found["depth"] == 1 and found["recovery time"] == pytest.approx(0.5)
    assert found["steady share"] == steady
    assert found["load while copying"] == pytest.approx(low / 100)
    assert found["work lost"] == pytest.approx(100 + 7 * (100 - low))


def test_without_a_word_on_when_the_guest_stood_still_nothing_is_said_of_the_copying():
    assert "steady share" not in figures(_seen.Span(8, 8, None, None, 16), np.full(20, 100.0))


def test_what_is_prepared_for_an_event_lowers_no_load_before_it():
    at = np.arange(20) + 0.5
    values = np.where((at > 4) & (at < 8), 40.0, 100.0)
    assert figures(_seen.Span(4.0, 8.0, 10.0, 11.5, 12.0), values)["load before"] == 100


def test_what_a_load_does_by_itself_is_no_dip_of_an_event():
    values = np.where(np.arange(20) % 2 == 0, 80.0, 120.0)
    span = _seen.Span(10, 10, 15, 16, 16.5)
    assert figures(span, values)["steady share"] == 1
    values[11] = 20.0
    assert figures(span, values)["steady share"] == pytest.approx(3 / 4)


def given_up():
    say = Say()
    say(moves="guest", origin="server", to="server2", rate_mbit=1000, t=0.9)
    say(host="server", event="MIGRATION", status="setup", at=1.0, t=1.0)
    say(host="server", event="MIGRATION", status="failed", at=9.0, t=9.0, why="late")
    return say.text


def test_a_move_that_was_given_up_has_not_arrived_and_took_no_time():
    at = parsed(given_up())
    assert at["arrived share"] == 0 and "migration time" not in at
    assert not LiveMigration.succeeded(given_up()) and LiveMigration.succeeded(moved())


def test_a_driver_that_gives_half_is_named_with_what_it_kept_back():
    half = "".join(line for line in moved().splitlines(keepends=True) if "net" not in line)
    words = "qemu moved guest from server to server2, and gave no b"
    with pytest.raises(ResultsError, match=words):
        LiveMigration.parse(half, {})
    stood = "".join(line for line in moved().splitlines(keepends=True) if "STOP" not in line)
    with pytest.raises(ResultsError, match="no switchover time"):
        LiveMigration.parse(stood, {})


def test_a_move_with_its_disks_begins_where_these_are_copied():
    say = Say()
    say(host="server", disk={"device": "vda"}, t=0.95)
    lines = moved().splitlines(keepends=True)
    text = lines[0] + say.text + "".join(lines[1:])
    assert parsed(text)["migration time"] == pytest.approx(4.55)


def test_what_is_no_migration_is_refused():
    with pytest.raises(ResultsError):
        LiveMigration.parse('{"t": 1}\n', {})
    with pytest.raises(ResultsError):
        said("no json")
    with pytest.raises(BadInput, match="not an escape"):
        LiveMigration(escape="pray")


# In the form that virsh(1) of libvirt 9 describes, and prints.
def test_lines_of_virsh_are_said_in_the_words_of_qemu():
    say = Say()
    for line in (
        "event 'migration-iteration' for domain 'lab': iteration: '2'",
        "event 'lifecycle' for domain 'lab': Suspended Migrated",
        "event 'lifecycle' for domain 'lab': Resumed Migrated",
        "event 'lifecycle' for domain 'lab': Stopped Migrated",
        "event 'lifecycle' for domain 'lab': Started Booted",
        "event 'lifecycle' for domain 'other': Resumed Migrated",
    ):
        _libvirt.heard("server", "lab", say, f"1970-01-01 00:00:05.250+0000: {line}")
    told = [json.loads(line) for line in say.lines]
    assert [one["event"] for one in told] == ["MIGRATION_PASS", "STOP", "RESUME", "MIGRATION"]
    assert {one["at"] for one in told} == {5.25} and told[0]["pass"] == 2
    text = "Job type:         Unbounded\nMemory processed: 1.5 MiB\nIteration:        3\n"
    assert _libvirt.job(text) == {"transferred": 1.5 * 2**20, "dirty-sync-count": 3}


def test_virsh_is_told_channels_disks_and_the_way_out():
    asked = LiveMigration(channels=4, disks=True, escape="throttle")
    words = " ".join(_libvirt.words(asked, "lab", "192.0.2.7"))
    assert "--parallel --parallel-connections 4" in words and "--copy-storage-all" in words
    assert "--auto-converge" in words and "tcp://192.0.2.7" in words
