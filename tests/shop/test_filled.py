"""A shop that was filled here and is brought: whole, made once, and nothing of it left running."""

import os
import pwd
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import shops
from brought import HERE
from waiting import awaited

from labkit.machine import account
from labkit.shop import filling
from labkit.shop.stock import Size
from labkit.workloads import _brought


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield account.cache() / "shops"


# A guest of a box knows nobody but nobody; here the server runs as the account that is there.
def owned(folder):
    with suppress(KeyError):
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres").pw_uid
            subprocess.run(["chown", "-R", str(owner), folder / "cluster"], check=True)


@pytest.mark.slow
def test_a_shop_that_is_brought_is_whole_and_need_not_be_filled(caches):
    with shops.place() as place:
        folder = place / "postgresql"
        _brought.bring_shop(HERE, str(folder), "10MB", 3)
        owned(folder)
        brought, told = shops.Served(place), []
        brought.start()
        try:
            found = filling.fresh(brought.at, brought.secret, "10MB", 3, told.append)
        finally:
            brought.stop()
        assert told == [] and found["customers"][0] == Size.of("10MB").customers
        (kept,) = caches.iterdir()
        made = kept.stat().st_mtime_ns
        (folder / "cluster" / "ours").touch()
        _brought.bring_shop(HERE, str(folder), "10MB", 3)
        assert (folder / "cluster" / "ours").exists(), "what is there already stays"
        _brought.bring_shop(HERE, str(place / "other"), "10MB", 3)
        assert kept.stat().st_mtime_ns == made, "it is made once"


WAITS = """\
import sys, time
from pathlib import Path
from labkit.workloads import _brought
with _brought._served_here(Path(sys.argv[1])) as at:
    print(at.port, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_the_database_that_fills_it_ends_when_who_began_it_is_killed():
    with shops.place() as place:
        words = [sys.executable, "-c", WAITS, place / "postgresql"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as filler:
            port = int(filler.stdout.readline())
            pid = int((place / "postgresql/cluster/postmaster.pid").read_text().split()[0])
            os.kill(pid, 0)
            filler.send_signal(signal.SIGKILL)
        why = f"the database on port {port} goes on"
        awaited(lambda pid=pid: not Path(f"/proc/{pid}").exists(), 30, why)
