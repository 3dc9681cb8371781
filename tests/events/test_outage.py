"""An outage as its lines tell it: who saw what and when, and which step is lacking."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest

from labkit.charts.curves import detection
from labkit.errors import BadInput, ResultsError
from labkit.events import host_failure
from labkit.events.host_failure import HostFailure, ServerReboot
from labkit.events.network_hiccup import NetworkHiccup
from labkit.lab import Lab

HOST = "[24] failo-server2 corosync notice  [TOTEM ]"
HEARD = f"""\
Nov 27 04:42:14.205 {HOST} A new membership (1.9) was formed. Members joined: 1
Nov 27 04:42:20.193 {HOST} A processor failed, forming new configuration: token timed out (1000ms)
Nov 27 04:42:21.393 {HOST} A new membership (2.d) was formed. Members left: 1
"""
FAILURE = 1795754539.3
LOG = "start 1795754400.5\nready 1795754410.1\nasked 1795754542.4\nfenced 1795754542.45\n"
SEEN = {"down": 100.0, "silent": 101.0, "lost": 102.2, "asked": 103.2, "fenced": 103.5,
        "start": 103.6, "boot": 103.9, "database": 105.0, "ready": 107.0}  # fmt: skip
REBOOT = {"down": 100.0, "boot": 100.5, "database": 100.9, "ready": 103.0}


def lines(seen):
    rows = ({"t": 1.0, "event": one, "at": at} for one, at in seen.items())
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def answers(lists, logins=None):
    def series(moments):
        return np.array(moments), np.zeros(len(moments))

    return {"list": series(lists), "login": series(logins or lists)}


def figures(event, seen, lists, logins=None):
    found = event.parse(lines(seen), answers(lists, logins))
    return {one.metric: round(float(one.values[0]), 1) for one in found}


def test_real_lines_of_corosync_tell_when_a_host_was_missed_and_when_it_was_given_up():
    found = host_failure.heard(HEARD, FAILURE)
    assert found == {"silent": pytest.approx(1795754540.193), "lost": pytest.approx(1795754541.393)}
    assert host_failure.heard(HEARD, FAILURE + 60) == {}


def test_the_time_line_of_a_failure_has_every_step_one_after_the_other():
    phases = HostFailure.time_line(lines(SEEN)).phases
    assert [round(phase.seconds, 1) for phase in phases] == [2.2, 1.3, 0.1, 1.4, 2.0]
    assert all(one.ended == other.begun for one, other in pairwise(phases))


def test_both_downtimes_are_measured_by_who_asks():
    """From the last answer to the next full list; from the failure to the next login."""
    got = figures(HostFailure, SEEN, [99, 99.8, 107.4], [99.9, 105.2])
    assert (got["failover downtime"], got["login downtime"]) == (7.6, 5.2)
    assert got["ha time"] == 3.6
    assert set(got) == set(HostFailure.measures)


def test_a_reboot_is_counted_from_its_command_and_detects_nothing():
    got = figures(ServerReboot, REBOOT, [99.8, 100.3, 103.1])
    assert got["failover downtime"] == 3.1
    assert not {"detection time", "ha time"} & set(got)
    assert [phase.name for phase in ServerReboot.time_line(lines(REBOOT)).phases] == [
        "stop", "boot", "loading"]  # fmt: skip


@pytest.mark.parametrize("moments, said", [
    ([101, 107], "no answer before it was gone"), ([99], "no answer again"),
])  # fmt: skip
def test_an_outage_without_an_end_or_a_beginning_is_no_figure(moments, said):
    with pytest.raises(ResultsError, match=said):
        HostFailure.parse(lines(SEEN), answers(moments))


def test_lines_that_lack_a_step_are_refused():
    for lacking in ("fenced", "database"):
        seen = {event: at for event, at in SEEN.items() if event != lacking}
        with pytest.raises(ResultsError, match=f"an outage without {lacking}"):
            HostFailure.time_line(lines(seen))


def test_hosts_of_ones_own_keep_their_power():
    assert "takes no power" in HostFailure().refusal(Lab("own", {}))
    assert HostFailure().refusal(Lab("box", {}, tier="root")) == ""


def test_a_hiccup_is_a_false_failover_only_where_somebody_asked_for_the_hosts_power():
    """The longest time without a list spans it; what was asked of whom is in the lines."""
    lived = {"cut": 100.0, "healed": 103.0}
    taken = lived | {"asked": 102.5, "ready": 106.0}
    for seen, ends, wanted in ((lived, 103.2, 0), (taken, 106.4, 1)):
        got = figures(NetworkHiccup, seen, [99, 99.9, ends, ends + 0.1])
        assert got == {"failover downtime": round(ends - 99.9, 1), "false failovers": wanted}
    phases = NetworkHiccup.time_line(lines(taken)).phases
    assert [phase.name for phase in phases] == ["hiccup", "false failover"]
    with pytest.raises(ResultsError, match="no answer before or after"):
        NetworkHiccup.parse(lines(lived), answers([99.0]))
    with pytest.raises(ResultsError, match="a hiccup without healed"):
        NetworkHiccup.time_line(lines({"cut": 100.0}))


def test_the_chart_of_time_outs_says_what_each_detected_and_mistook():
    """A figure that was not measured is left out; without any there is no chart."""
    drawn = detection({0.5: (1.2, 1.0), 4.0: (8.9, 0.0), 2.0: (math.nan, math.nan)}, 3.0)
    text = drawn.to_json()
    assert "100% taken for a failure" in text and "0% taken for a failure" in text
    assert "0.5 s: detected in 1.2 s" in text and "nan" not in text.lower()
    with pytest.raises(BadInput, match="no time-out was measured"):
        detection({2.0: (math.nan, math.nan)}, 3.0)
