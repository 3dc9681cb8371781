"""Pairs of settings that touch one device: put back byte for byte, or refused before any change.

The table of these pairs is in notebooks/docs/proof/devices.md; each is nested and asked together.
"""

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from labkit.changes.in_force import applied, in_force
from labkit.changes.journal import hello
from labkit.changes.plan import plan
from labkit.errors import BadInput, SettingRefused
from labkit.settings.egress import Link
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.settings.guest_size import GuestMemory
from labkit.settings.halting import Halting
from labkit.settings.mtu import Mtu
from labkit.settings.neighbour import GuestNeighbour, Neighbour
from labkit.settings.offloads import Offloads
from labkit.settings.queues import NicQueues
from labkit.settings.sockets import Sysctl

PROGRAMS = ("ip",)
pytestmark = pytest.mark.box

PAGE = Path(__file__).parents[2] / "notebooks/docs/proof/devices.md"
SWAP = GuestNic("direct", batch=1, lro=False)
BACK, REFUSED = "restored", "refused"
# Name in the table, the two, and what becomes of: both together, the second inside the first, and
# the first inside the second.
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
QUICK = ("Mtu, Link", "Link, Link")
WAYS = ("together", "together, the other way round", "nested", "nested, the other way round")
FIRST = ("GuestNic, Offloads of the guest", WAYS[2])
CASES = [
    pytest.param(name, how, marks=[] if name in QUICK or (name, how) == FIRST else
                 [pytest.mark.torture])
    for name in PAIRS for how in WAYS
]  # fmt: skip


def state(lab, pair):
    """What the hosts show of both, and the addresses of the guest's NICs without their numbers."""
    lab.hosts["guest"].close()  # it may have been started again
    addresses = lab.hosts["guest"].check("ip", "-o", "addr")
    told = re.sub(r"^\d+: |valid_lft.*", "", addresses, flags=re.MULTILINE)
    steps = plan(pair, lab.hosts).steps
    return {step.thing: (step.text, step.why) for step in steps}, sorted(told.splitlines())


def wanted(pair, how):
    _, _, together, inside, outside = pair
    return {WAYS[0]: together, WAYS[1]: together, WAYS[2]: inside, WAYS[3]: outside}[how]


def blocks(one, two, how):
    """What is asked together, block by block."""
    ordered = (two, one) if how.endswith("round") else (one, two)
    return [ordered] if how.startswith("together") else [(each,) for each in ordered]


@pytest.mark.parametrize(("name", "how"), CASES)
def test_a_pair_on_one_device_goes_back_byte_for_byte_or_is_refused_first(lab, name, how):
    one, two, *_ = PAIRS[name]
    before, found = state(lab, (one, two)), BACK
    with ExitStack() as held:
        for block in blocks(one, two, how):
            during = state(lab, (one,)) if "Power" not in name else None
            try:
                held.enter_context(applied(block, lab.hosts))
            except (SettingRefused, BadInput):
                found = REFUSED
                assert during is None or state(lab, (one,)) == during, "nothing was changed"
                break
            if "Power" not in name:
                steps = plan(block, lab.hosts).steps
                assert [step.current for step in steps] == [s.setting.wanted for s in steps]
    assert found == wanted(PAIRS[name], how)
    assert state(lab, (one, two)) == before
    assert [hello(host).open for host in lab.hosts.values()] == [()] * len(lab.hosts)


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
