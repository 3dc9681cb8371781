"""The picture of orders a second grows while customers buy."""

import os
import signal
import time
from pathlib import Path

import pytest
import shops
from brought import HERE

from labkit.errors import CommandFailed
from labkit.pages.live import watch_orders
from labkit.workloads import _database
from labkit.workloads.dvdstore import DvdStore, seconds_in

PROGRAMS = ("postgres",)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/usr/lib/postgresql").exists(), reason="needs PostgreSQL"),
]


@pytest.fixture
def kept(monkeypatch):
    with shops.place() as folder:
        monkeypatch.setattr(_database, "KEPT", str(folder / "kept"))
        yield folder / f"kept-{os.geteuid()}"


def seen(picture):
    """How many seconds a picture shows."""
    return max(len(rows) for rows in picture.to_dict()["datasets"].values())


def test_a_picture_with_more_seconds_is_shown_again_and_again_while_the_run_goes_on(kept):
    load, shown = DvdStore(users=2, duration=4, warm_up=2, buffers=32), []
    text = watch_orders(
        load,
        {"client": HERE, "server": HERE},
        lambda picture: shown.append((seen(picture), time.monotonic())),
    )
    grown = [many for many, _ in shown]
    assert grown == sorted(grown) and len(set(grown)) >= 3
    assert grown[-1] == len(seconds_in(text)) == 6
    assert shown[-1][1] - shown[0][1] > 2, "the first picture comes long before the last"


def test_a_run_that_fails_says_so_and_shows_what_there_is(kept):
    load = DvdStore(users=2, duration=60, warm_up=0, buffers=32)

    def killed(_):
        pid = next((kept / "postgresql-1/cluster").glob("postmaster.pid")).read_text().split()[0]
        os.kill(int(pid), signal.SIGKILL)

    with pytest.raises(CommandFailed) as error:
        watch_orders(load, {"client": HERE, "server": HERE}, killed)
    assert "closed the connection during the run" in error.value.said
