"""Kinds of traffic on one uplink: what is refused, and how real queues divide the line."""

import socket
from dataclasses import replace

import pytest
from figures import figures

from labkit import studies
from labkit.changes.in_force import in_force
from labkit.errors import BadInput, HostError, ResultsError
from labkit.host import Host
from labkit.lab import opened
from labkit.settings.egress import NetIoControl, Traffic
from labkit.transports.local import Local
from labkit.workloads._server import serving_at
from labkit.workloads.uplink import BULK, _write_rate

STUDY = studies.find("netioc_v6")


def test_shares_that_add_up_to_nothing_are_refused():
    with pytest.raises(BadInput, match="some kinds of traffic"):
        NetIoControl(500, ())
    with pytest.raises(BadInput, match="shares is a number from 1 to 100"):
        Traffic(BULK, 0)


def test_a_port_that_somebody_else_has_is_named_and_nothing_is_served():
    host = Host("peer", "127.0.0.1", Local("peer"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        serving = serving_at(host, port, ("sleep", "60"))
        with pytest.raises(HostError, match=f"somebody else has TCP port {port}"), serving:
            pytest.fail("it must not serve")


@pytest.mark.parametrize("text", ["", "{}", '{"jobs": [{}]}', "fio: connection refused"])
def test_storage_that_was_not_written_is_no_figure(text):
    with pytest.raises(ResultsError, match="fio: its output cannot be read"):
        _write_rate(text)


def test_an_error_of_storage_is_named():
    with pytest.raises(ResultsError, match="ended with error 5"):
        _write_rate('{"jobs": [{"error": 5, "write": {"bw_bytes": 1}}]}')


@pytest.mark.box
@pytest.mark.slow
def test_real_queues_divide_by_shares_keep_a_reservation_and_hold_a_limit(box_of):
    """Each against the other: without control storage is crowded out, and with it it is not."""
    got = {}
    names = ("No NetIOC, contended", "NetIOC, contended", "Reserved, contended",
             "Limited, contended")  # fmt: skip
    with opened(box_of("uplink")) as lab, in_force(lab.hosts, "shares") as changes:
        for name in names:
            condition = STUDY.condition(name)
            load = replace(condition.load(STUDY.workload), duration=2)
            changes.move_to(list(condition.settings))
            text = load.run({role: lab.host(role) for role in load.roles})
            got[name] = figures(load, text)
    free, shared, reserved, limited = (got[name] for name in names)
    assert free["throughput"] < 150 < 190 < shared["throughput"]
    assert shared["latency"] < free["latency"] / 2
    assert 2 < shared["migration throughput"] / shared["bulk throughput"] < 5
    assert 0.9 < reserved["share of reservation"] < 1.3
    assert 0.7 < reserved["bulk throughput"] / reserved["migration throughput"] < 1.4
    assert limited["migration throughput"] < 65 < shared["migration throughput"]
