"""Pairs of settings that touch one device: put back byte for byte, or refused before any change.

The table of these pairs is in notebooks/docs/proof/devices.md; each is nested and asked together.
"""

import re
from pathlib import Path

import pytest
from boxes import OTHER
from leftovers import another
from pairs_tried import BACK, REFUSED, Pair, as_told, of_part, pairs, texts, tried

from labkit.changes.in_force import in_force
from labkit.changes.plan import plan
from labkit.settings.egress import Link
from labkit.settings.exclusive_cpu import ExclusiveCpu, OtherCpus
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.settings.guest_size import GuestMemory
from labkit.settings.mtu import Mtu
from labkit.settings.neighbour import GuestNeighbour, Halting, Neighbour
from labkit.settings.offloads import NicQueues, Offloads
from labkit.settings.reclaim import MemoryLock, Reclaim
from labkit.settings.sockets import Sysctl

PROGRAMS = ("ip",)
pytestmark = pytest.mark.box

PAGE = Path(__file__).parents[2] / "notebooks/docs/proof/devices.md"
SWAP = GuestNic("direct", batch=1, lro=False)
# Name in the table, the two, and what becomes of both together in either order, of the second
# inside the first, and of the first inside the second.
PAIRS = {
    "GuestNic, Offloads of the guest": (SWAP, Offloads(gro=False), BACK, BACK, REFUSED),
    "GuestNic, Mtu of the guest": (SWAP, Mtu(1400, role="guest"), BACK, BACK, REFUSED),
    "GuestNic, Halting of the guest": (SWAP, Halting(False), BACK, BACK, REFUSED),
    "GuestMemory, Sysctl of the guest": (
        GuestMemory("guest", 160), Sysctl("net.core.somaxconn", "321", role="guest"), BACK, BACK,
        REFUSED),
    "GuestNic, GuestPower": (SWAP, GuestPower("paused"), BACK, BACK, BACK),
    "GuestNic, ExclusiveCpu": (SWAP, ExclusiveCpu(owners=("guest",)), BACK, BACK, BACK),
    "Mtu, Offloads": (Mtu(1400, role="guest"), Offloads(gro=False), BACK, BACK, BACK),
    "Mtu, Link": (Mtu(1400), Link(10), BACK, BACK, BACK),
    "Link, NicQueues": (Link(10), NicQueues(None, rx=1, tx=1), BACK, BACK, BACK),
    "Offloads, Offloads": (
        Offloads(gro=False, role="server"), Offloads(gro=None, tso=False, role="server"), BACK,
        BACK, BACK),
    "Link, Link": (Link(10), Link(20), REFUSED, BACK, BACK),
    "Neighbour, GuestNeighbour": (
        Neighbour("busy"), GuestNeighbour("memory", role="server"), REFUSED, BACK, BACK),
}  # fmt: skip
# Each takes a guest seconds, so most wait for `make torture`; the guest's NIC takes longest.
QUICK = ("Mtu, Link", "Link, Link", "GuestNic, Offloads of the guest")


def state(lab, pair):
    """What the hosts show of both, and the addresses of the guest's NICs without their numbers."""
    shown = texts(lab.hosts, pair)
    addresses = lab.hosts["guest"].check("ip", "-o", "addr")
    told = re.sub(r"^\d+: |valid_lft.*", "", addresses, flags=re.MULTILINE)
    return shown, sorted(told.splitlines())


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[] if name in QUICK else [pytest.mark.torture]) for name in PAIRS
])  # fmt: skip
def test_a_pair_on_one_device_goes_back_byte_for_byte_or_is_refused_first(lab, name):
    one, two, together, inside, outside = PAIRS[name]
    before = state(lab, (one, two))
    assert tried(lab.hosts, (one, two)) == (Pair(together, together, inside, outside), [])
    assert state(lab, (one, two)) == before


@pytest.mark.when_changed("labkit/settings/", "labkit/changes/", "labkit/box/")
def test_from_one_condition_to_the_next_what_was_set_on_a_device_is_made_again_on_its_heir(lab):
    kept, batched = Offloads(gro=False), GuestNic("bridge", batch=4, lro=False)
    before = state(lab, (SWAP, kept))
    with in_force(lab.hosts) as changes:
        for asked in ([SWAP, kept], [kept, batched], [batched], [kept, SWAP]):
            changes.move_to(asked)
            changes.check(asked)
            assert [step.current for step in plan(asked, lab.hosts).steps] == [
                one.wanted for one in asked
            ]
    assert state(lab, (SWAP, kept)) == before


def test_the_page_has_each_pair_and_what_becomes_of_it():
    rows = re.findall(r"^\| ([^|]+) \| (\w+) \| (\w+) \| (\w+) \|$", PAGE.read_text("utf-8"), re.M)
    told = {row[0].replace("`", ""): row[1:] for row in rows}
    assert told == {name: pair[2:] for name, pair in PAIRS.items()}


PARTS = 12
SETTINGS = [
    GuestNic("direct", batch=1, lro=False), GuestPower("paused"), GuestMemory("guest", 160),
    ExclusiveCpu(owners=("guest",)), OtherCpus("guest2"), MemoryLock(), Reclaim(),
    Neighbour("busy"), GuestNeighbour("memory", role="server"), Mtu(1400), Link(10),
    NicQueues(None, rx=1, tx=1), Offloads(gro=False, role="server"), Offloads(gro=False),
    Mtu(1400, role="guest"), Halting(False), Sysctl("net.core.somaxconn", "321", role="guest"),
]  # fmt: skip


@pytest.fixture(scope="module")
def neighbours():
    with another(OTHER, "neighbours") as found:
        yield found


def answers(pair):
    """Whether all hosts that the pair is about answer: a guest that is paused does not."""
    resting = {role for one in pair for role in one.resting}
    return not resting & {one.role for one in pair}


# What is refused is on the page of pairs; `LABKIT_WRITE=yes` writes it, each test its own part.
@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
def test_each_pair_about_a_guest_goes_back_or_is_refused_before_the_first_change(neighbours, part):
    shown = texts(neighbours.hosts, SETTINGS)
    able = [one for one in SETTINGS if not shown[one.thing][1]]
    some = list(filter(answers, pairs([[one] for one in able])))
    found, odd = of_part(neighbours.hosts, some[part::PARTS])
    assert odd == []
    assert texts(neighbours.hosts, SETTINGS) == shown
    as_told("box", found)
