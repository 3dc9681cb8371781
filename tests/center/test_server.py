"""The management server by itself, on a disk of this machine: what it loads and refuses."""

import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from simulator import simulator_or_skip

from labkit.center import server, simulator
from labkit.shop.kit import SERVE_DATABASE

PROGRAMS = ("mount", "/usr/lib/postgresql/*/bin/postgres", "unshare")
pytestmark = [pytest.mark.box, pytest.mark.slow]


@pytest.fixture
def place():
    """A shared disk that the database's own user may look into, and a server of it."""
    disk = Path(tempfile.mkdtemp(prefix="labkit-test-", dir="/var/tmp"))
    disk.chmod(0o711)
    program = disk / "vcsim"
    program.write_bytes(simulator_or_skip())
    program.chmod(0o755)
    files = [str(disk / "inventory"), str(SERVE_DATABASE), str(program), str(disk / "log")]
    yield server.CenterPlace(*files, "here")
    shutil.rmtree(disk)


def words(place, *more):
    fields = (place.folder, place.script, place.simulator, place.log, place.host)
    return [sys.executable, "-m", "labkit.center", "serve", *fields, "127.0.0.1", *more]


def test_a_start_recovers_checks_and_loads_each_row_or_says_which_is_damaged(place):
    server.make(place, 2, 30)
    with place.database():
        hosts, names = place.inventory()
        assert (hosts, len(names)) == (2, 30)
        with simulator.simulating(place.simulator, server.SIMULATOR, hosts):
            simulator.fill(server.SIMULATOR, names)
            assert sorted(
                simulator.SoapSession(server.SIMULATOR).names("VirtualMachine")
            ) == sorted(names)
        with closing(place.asked) as database:
            database.query("UPDATE vms SET name = 'stolen' WHERE id = 7")
        with pytest.raises(server.Broken, match="a row of the inventory is damaged: stolen"):
            place.inventory()


def test_a_full_shared_disk_is_named_and_nothing_is_served(place):
    """A disk of 20 MB, in a view of the files that ends with the server."""
    disk = Path(place.folder).parent
    seen = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=20m x "$0" && exec "$@"']
    result = subprocess.run([*seen, str(disk), *words(place)], capture_output=True, text=True)
    assert result.returncode and f"MB are free on the shared disk {disk}" in result.stderr


def test_a_server_that_never_becomes_ready_says_why_in_its_log(place):
    server.make(place, 1, 1)
    broken = server.CenterPlace(place.folder, place.script, "/bin/false", place.log, place.host)
    subprocess.run(words(broken), capture_output=True, timeout=60)
    last = Path(place.log).read_text().splitlines()[-1]
    assert last.startswith("failed the simulator ended")
