"""Settings of a guest, of its host and in itself, two by two and four ways each: nothing stays.

What is refused is on the page of pairs; `LABKIT_WRITE=yes` writes it, each test its own part.
"""

import pytest
from boxes import OTHER
from leftovers import another
from pairs_tried import as_told, of_part, pairs, texts

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

pytestmark = [pytest.mark.box, pytest.mark.torture]
PARTS = 12
SETTINGS = [
    GuestNic("direct", batch=1, lro=False), GuestPower("paused"), GuestMemory("guest", 160),
    ExclusiveCpu(owners=("guest",)), OtherCpus("guest2"), MemoryLock(), Reclaim(),
    Neighbour("busy"), GuestNeighbour("memory", role="server"), Mtu(1400), Link(10),
    NicQueues(None, rx=1, tx=1), Offloads(gro=False, role="server"), Offloads(gro=False),
    Mtu(1400, role="guest"), Halting(False), Sysctl("net.core.somaxconn", "321", role="guest"),
]  # fmt: skip


@pytest.fixture(scope="module")
def lab():
    with another(OTHER, "neighbours") as found:
        yield found


def answers(pair):
    """Whether all hosts that the pair is about answer: a guest that is paused does not."""
    resting = {role for one in pair for role in one.resting}
    return not resting & {one.role for one in pair}


@pytest.mark.parametrize("part", range(PARTS))
def test_each_pair_about_a_guest_goes_back_or_is_refused_before_the_first_change(lab, part):
    shown = texts(lab.hosts, SETTINGS)
    able = [one for one in SETTINGS if not shown[one.thing][1]]
    some = list(filter(answers, pairs([[one] for one in able])))
    found, odd = of_part(lab.hosts, some[part::PARTS])
    assert odd == []
    assert texts(lab.hosts, SETTINGS) == shown
    as_told("box", found)
