"""Dials: what their positions mean, the picture of a turn, and the panel with nobody there."""

import threading

import numpy as np
import pytest

from labkit.errors import Unknown
from labkit.host import Host
from labkit.lab import Lab
from labkit.pages.dial_panel import (
    BEFORE,
    DIALS,
    PRESENT,
    Dialling,
    DialPanel,
    would_be,
)
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.neighbour import PLACES, Halting, Neighbour
from labkit.transports.local import Local


@pytest.fixture
def lab():
    return Lab("two", {r: Host(r, "127.0.0.1", Local(r)) for r in ("client", "server")})


def test_every_position_of_every_dial_means_settings_that_differ():
    usual = Dialling.settings({})
    for dial, (first, *others) in DIALS.items():
        assert Dialling.settings({dial: first}) == usual
        for choice in others:
            assert Dialling.settings({dial: choice}) != usual


def test_a_guest_that_owns_its_cpu_has_its_neighbour_elsewhere_and_stays_awake_if_it_can():
    position = {"CPU": "owned", "neighbour": "busy", "batching and merging": "off"}
    nic, _, cpu, neighbour = Dialling.settings(position)
    assert (nic, cpu) == (GuestNic("bridge", 1, False), ExclusiveCpu(True))
    assert neighbour == Neighbour("busy", PLACES[1])
    assert Dialling.settings(position, apart=False)[-1] == Neighbour("busy", PLACES[0])
    awake = {"idle guest": "stays awake"}
    assert Dialling.settings({"CPU": "owned", **awake})[-1] == Halting(False)
    assert Halting(False) not in Dialling.settings({"CPU": "owned", **awake}, apart=False)
    assert Halting(False) in Dialling.settings(awake, apart=False)


@pytest.mark.parametrize("dial, choice", [("colour", "red"), ("CPU", "mine")])
def test_what_is_no_dial_is_answered_with_the_known_ones(lab, dial, choice):
    with pytest.raises(Unknown, match="known:"):
        Dialling(lab).turn(dial, choice)


def test_a_turn_keeps_what_was_measured_before_it_to_compare(lab):
    dials = Dialling(lab)
    dials.now.append(np.array([1.0, 2.0]))
    dials.turn("CPU", "shared")
    assert list(dials.values()) == [PRESENT], "it stood there already"
    dials.turn("CPU", "owned")
    assert list(dials.values()) == [BEFORE]
    dials.now.append(np.array([3.0]))
    assert {name: list(v) for name, v in dials.values().items()} == {PRESENT: [3], BEFORE: [1, 2]}


def test_what_was_measured_is_told_in_words_and_in_a_picture_of_both(lab):
    panel = DialPanel(lab)
    panel._tell("nothing yet")
    assert not panel.picture.data
    panel.dialling.now.append(np.array([10.0, 20, 20, 900]))
    panel.dialling.before.append(np.array([5.0]))
    panel._tell("4 measurements")
    assert "4 measurements; now: median 20, 99 % 900 µs; before" in panel.words.value
    assert f"of {PRESENT}, {BEFORE}" in panel.picture.data["text/plain"]


def test_a_lab_without_the_guest_says_so_and_starts_nothing(lab):
    panel = DialPanel(lab)
    panel.begin()
    assert "the lab has no guest" in panel.words.value and not panel.running


def test_a_widget_that_is_turned_turns_the_dial(lab):
    panel = DialPanel(lab)
    panel.dials["neighbour"].value = "memory"
    assert panel.dialling.position["neighbour"] == "memory"


def test_alone_or_without_a_lab_it_says_in_a_line_what_it_is(lab, capsys):
    DialPanel(None)._ipython_display_()
    DialPanel(lab)._ipython_display_()
    first, *_, last = capsys.readouterr().out.splitlines()
    assert "they need a lab" in first and "nobody is here" in last
    rows = would_be().rows
    assert len(rows) == sum(len(choices) - 1 for choices in DIALS.values())
    assert all(changes for *_, changes in rows), "each turn changes something"


def test_a_failure_is_shown_and_the_panel_can_start_again(lab, monkeypatch):
    panel = DialPanel(lab)
    monkeypatch.setattr(panel.dialling, "refusals", list)
    panel.begin()
    panel._thread.join()
    assert "Failed: " in panel.words.value
    assert not panel.start.disabled and panel.stop.disabled


def test_a_stop_before_the_first_measurement_measures_nothing(lab):
    stop, dials = threading.Event(), Dialling(lab)
    stop.set()
    with pytest.raises(Unknown):
        dials.measure(stop, print)  # the lab has no guest at all
    assert dials.measured == 0
