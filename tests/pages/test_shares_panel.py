"""Dials of one uplink: what their positions mean, and what the picture shows."""

import numpy as np
import pytest

from labkit.errors import Unknown
from labkit.host import Host
from labkit.lab import Lab
from labkit.pages.dial_panel import PRESENT, would_be
from labkit.pages.shares_panel import SHARES, SharesPanel, Sharing
from labkit.studies.netioc_v6 import LIMIT, RESERVED, study
from labkit.transports.local import Local
from labkit.workload import Sample


@pytest.fixture
def lab():
    hosts = {r: Host(r, "127.0.0.1", Local(r), interface="data0") for r in ("client", "server")}
    return Lab("two", hosts)


def queue(**position):
    return Sharing.settings({k.replace("_", " "): v for k, v in position.items()})[-1]


def test_the_first_positions_are_the_shares_of_the_study():
    assert queue() in study.condition("NetIOC, contended").settings


def test_each_turn_changes_the_queue_and_what_is_no_dial_is_refused():
    for dial, (_, *others) in SHARES.items():
        assert all(Sharing.settings({dial: choice}) != Sharing.settings({}) for choice in others)
    assert queue(storage_has_reserved=f"{RESERVED} Mbit/s").traffic[1].reservation_mbit == RESERVED
    assert queue(a_migration_may_have=f"{LIMIT} Mbit/s").traffic[3].limit_mbit == LIMIT
    with pytest.raises(Unknown, match="known:"):
        Sharing.settings({"shares of storage": "0"})


def test_figures_are_means_of_each_kind_and_turns_keep_those_before(lab):
    dials = Sharing(lab)
    names = ("throughput", "bulk throughput", "migration throughput")
    for level in (100, 200):
        figures = [Sample(name, "Mbit/s", np.array([level + n])) for n, name in enumerate(names)]
        dials.now.append(dials.figures(figures))
    assert list(dials.rates()[PRESENT]) == [150, 151, 152]
    dials.turn("shares of bulk", "100")
    assert PRESENT not in dials.rates() and dials.words() == [
        "before the last turn: storage 150, bulk 151, migration 152 Mbit/s"
    ]
    rows = dials.picture().to_dict()["datasets"].values()
    assert [row["size"] for part in rows for row in part if "size" in row] == [150, 151, 152]


def test_without_a_lab_the_panel_says_what_each_turn_would_change(lab, capsys):
    SharesPanel(None)._ipython_display_()
    SharesPanel(lab)._ipython_display_()
    assert "they need a lab" in capsys.readouterr().out
    assert len(would_be(Sharing).rows) == sum(len(choices) - 1 for choices in SHARES.values())
