"""Changes whose connection is cut or falls silent: made once or not at all, and all go back."""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
from knobs import NEW, OLD, Bench, Knob
from leftovers import BESIDE
from sshd import known, reached, serving
from waiting import awaited
from wire import DOWN, UP, Wire

from labkit.changes.in_force import InForce
from labkit.changes.journal import hello
from labkit.changes.lease import Owner
from labkit.errors import LabkitError
from labkit.setting import Way
from tests.changes.test_deadman import behind_a_link, needs_root

PROGRAMS = ("ip",)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.when_changed("labkit/changes/", "labkit/ssh/", "labkit/transports/"),
]
PATIENCE = 20
# What is written is written down, too: whatever was sent twice is made once.
COUNTED = 'echo "$2" >>"$1.log"; echo "$2" >"$1"'
DROP = """\
add table inet labkit
add chain inet labkit in { type filter hook input priority 0; policy drop; }
add chain inet labkit out { type filter hook output priority 0; policy drop; }
"""


@dataclass(frozen=True)
class Counted(Knob):
    """A knob that remembers each value that it was given."""

    def way(self, kind, host):
        writes = ("sh", "-c", f"sleep {dict(self.more).get('takes', 0)}; {COUNTED}", "sh")
        return Way(("cat", self.path), lambda value: ((*writes, self.path, value),))


def settings(folder, takes=0):
    more = (("takes", takes),) if takes else ()
    return [Counted(str(folder / name), "new", more) for name in ("a", "b")]


def given(folder):
    logs = (folder / f"{name}.log" for name in ("a", "b"))
    return [log.read_text().split() if log.exists() else [] for log in logs]


def is_whole(bench):
    """What another process finds on the host itself, once it has put back what is left."""
    bench.run("restore", "all", token="other", flags="breaking")
    assert bench.values() == OLD and bench.left() == []
    assert all(log in ([], ["new", "old"]) for log in given(bench.folder)), given(bench.folder)


@pytest.fixture
def place(tmp_path, own_out):
    with serving(tmp_path) as server:
        yield Bench(tmp_path), server


@contextmanager
def changing(server, wire):
    public = (server.folder / "host_ed25519.pub").read_text()
    (server.folder / "known_wire").write_text(known(wire.port, public))
    files = (str(server.folder / "known_wire"),)
    with reached(server.address(port=wire.port, known_hosts=files)) as host:
        host.check("true")
        yield InForce({"server": host}, Owner.me("cut"))


def cut_at(place, phase, way, size):
    """Whether an error was told of the cut, how often each was made by then, what passed."""
    bench, server = place
    bench.reset()
    for name in bench.names:
        (bench.folder / f"{name}.log").unlink(missing_ok=True)
    with Wire(server.port) as wire, changing(server, wire) as changes:
        if phase == "put back":
            changes.move_to(settings(bench.folder))
        before = list(wire.passed)
        wire.cut_after(way, size, reset=size % 2 == 1)
        try:
            changes.move_to(settings(bench.folder)) if phase == "make" else changes.put_back()
            failed = False
        except LabkitError as cut:
            assert "box1" in str(cut)
            failed = True
        used = wire.passed[way] - before[way]
    # What was sent may still be at work.
    time.sleep(0.3 if failed else 0)
    made = len(given(bench.folder)[1])
    is_whole(bench)
    return (failed, made), used


def all_ways(place, phase, parts):
    outcomes = set()
    for way in (UP, DOWN):
        # How much passes is a little different each time, so nothing is cut in the first.
        found, whole = cut_at(place, phase, way, 1 << 30)
        outcomes.add(found)
        for n in range(parts + 1):
            outcomes.add(cut_at(place, phase, way, whole * n // parts)[0])
    return outcomes


@pytest.mark.parametrize("phase", ["make", "put back"])
def test_a_cut_at_some_bytes_of_a_change_makes_it_once_or_not_at_all(place, phase):
    """F01, F04 (I-CUT)"""
    outcomes = all_ways(place, phase, 6)
    assert {failed for failed, _ in outcomes} == {True, False}
    assert len({made for _, made in outcomes}) == 2, outcomes


@pytest.mark.torture
@pytest.mark.parametrize("phase", ["make", "put back"])
def test_a_cut_at_many_bytes_of_a_change_makes_it_once_or_not_at_all(place, phase):
    assert len(all_ways(place, phase, 400)) > 2


# --- nobody is told -------------------------------------------------------------------------


@contextmanager
def dropped(network):
    """No packet comes in or goes out, and no link goes down."""
    nft = ["ip", "netns", "exec", network, "nft"]
    subprocess.run([*nft, "-f", "-"], input=DROP, text=True, check=True)
    try:
        yield time.monotonic()
    finally:
        subprocess.run([*nft, "delete", "table", "inet", "labkit"], check=True)


@pytest.fixture
def far(tmp_path, own_out):
    bench = Bench(tmp_path)
    bench.reset()
    with behind_a_link(tmp_path, name=(name := f"{BESIDE}{time.monotonic_ns() % 10**8}")) as host:
        yield bench, replace(host, name="far"), name


@needs_root
def test_what_was_made_before_a_host_fell_silent_is_not_measured_and_goes_back_afterwards(far):
    """F03 (I-DROP)"""
    bench, host, network = far
    changes = InForce({"server": host}, Owner.me("silent"))
    changes.move_to(wanted := settings(bench.folder))
    with dropped(network) as begun:
        with pytest.raises(LabkitError) as error:
            changes.check(wanted)
        assert time.monotonic() - begun <= PATIENCE and "far" in str(error.value)
        assert bench.values() == NEW
    changes.put_back()
    assert hello(host).open == ()
    is_whole(bench)


@needs_root
def test_a_host_that_fell_silent_while_it_put_back_finishes_without_us(far):
    """F04 (I-DROP)"""
    bench, host, network = far
    changes = InForce({"server": host}, Owner.me("silent"))
    changes.move_to(settings(bench.folder, takes=1))
    with ThreadPoolExecutor(1) as pool:
        back = pool.submit(changes.put_back)
        awaited(lambda: "old" in given(bench.folder)[1], PATIENCE)
        with dropped(network) as begun:
            with pytest.raises(LabkitError, match="far"):
                back.result()
            assert time.monotonic() - begun <= PATIENCE
            awaited(lambda: bench.values() == OLD, PATIENCE)
    is_whole(bench)
