"""Four guests on one server: each with settings of its own, all under the load at once."""

import pytest
from boxes import OTHER
from leftovers import another
from waiting import awaited

from labkit import box, find_study
from labkit.changes.in_force import applied, in_force
from labkit.changes.journal import command
from labkit.changes.journal_lines import decoded, encoded
from labkit.changes.plan import plan
from labkit.errors import BoxError
from labkit.running import possible
from labkit.settings.exclusive_cpu import ExclusiveCpu
from labkit.settings.guest_nic import GuestNic
from labkit.settings.guest_power import GuestPower
from labkit.settings.mtu import Mtu
from labkit.studies._guests import GUESTS
from labkit.workloads import _pairs as pairs
from labkit.workloads.ping import Ping
from labkit.workloads.sockperf import Sockperf

PROGRAMS = ("pidof", "ping")

pytestmark = [pytest.mark.box, pytest.mark.slow]


@pytest.fixture(scope="module")
def four():
    with another(OTHER, "four-guests") as lab:
        yield lab


def values(lab):
    asked = [one for g in GUESTS for one in (GuestNic(guest=g), GuestPower(guest=g),
             ExclusiveCpu(guest=g))]  # fmt: skip
    return {step.setting.thing: step.current for step in plan(asked, lab.hosts).steps}


def test_a_setting_changes_the_guest_that_it_names_and_no_other_and_goes_back(four):
    before = values(four)
    own = [GuestNic("direct", 1, False, "guest2"), ExclusiveCpu(guest="guest3"),
           GuestPower("off", "guest4")]  # fmt: skip
    with applied(own, four.hosts):
        changed = {thing for thing, now in values(four).items() if now != before[thing]}
        assert changed == {one.thing for one in own}
    assert values(four) == before and len(before) == 12


def test_what_is_told_of_all_guests_at_once_is_what_is_told_of_each(four):
    server = four.host("server")
    asked = [(f"@{guest}", *words) for guest in GUESTS for words in (
        ("get", "nic", "batch", "lro"), ("state",), ("placement", "host"))]  # fmt: skip
    odd = [("@guest9", "state"), ("get", "nothing"), ("set", "cpus=all"), ("stop",), ()]
    lines = [encoded(command([("guest", *words)])) for words in [*asked, *odd]]
    text = "".join(f"{number} {line}\n" for number, line in enumerate(lines))
    with applied([GuestPower("paused", "guest3"), ExclusiveCpu(guest="guest2")], four.hosts):
        said = server.check("guest", "each", stdin=text.encode())
        told = {int(n): decoded(one) for n, one in (line.split(" ") for line in said.splitlines())}
        assert told == {n: server.check("guest", *words) for n, words in enumerate(asked)}
    assert "paused\n" in told.values() and any("fifo" in one for one in told.values())


def test_all_guests_are_asked_at_once_and_each_answers_for_itself(four):
    together = {g: {"client": four.host("client"), "server": four.host(g)} for g in GUESTS}
    text = pairs.run(Ping(count=200), together)
    assert set(pairs.texts(text)) == set(GUESTS)
    for guest, said in pairs.texts(text).items():
        assert f"PING {four.host(guest).address} " in said
    (sample,) = pairs.parse(Ping(), text)
    assert len(sample.values) + sample.lost == 800
    served = Sockperf(duration=1)
    (trips,) = pairs.parse(served, pairs.run(served, together))
    assert len(trips.values) > 100
    serves = ("pidof", "sockperf")
    awaited(lambda: not any(four.host(guest).run(*serves).ok for guest in GUESTS), 10)


def test_what_is_set_in_a_guest_goes_back_before_it_is_paused_and_comes_when_it_goes_on(four):
    awake, asleep = GuestPower("on", "guest2"), GuestPower("paused", "guest2")
    sizes = [Mtu(1400, role="guest2"), Mtu(1300, role="guest2")]
    there = four.host("guest2")
    look = ("cat", f"/sys/class/net/{there.interface}/mtu")
    before = there.check(*look)
    with in_force(four.hosts) as changes:
        changes.learn([awake, asleep, *sizes])
        for size in sizes:
            changes.move_to([awake, size])
            assert there.check(*look) == f"{size.size}\n"
            four.host("guest2").rest()
            changes.move_to([asleep])
            assert four.host("server").check("guest", "@guest2", "state") == "paused\n"
    assert there.check(*look) == before


def test_a_box_with_one_guest_says_what_it_lacks_for_four(lab):
    refused = possible.refusals(find_study("lat_ping"), lab)
    assert set(refused) == {f"{n} [vms=4]" for n in ("VM-Default", "VM-SRIOV", "VM-Latency-SRIOV")}
    assert all("guest2" in why for why in refused.values())


def test_four_guests_share_a_host_and_nothing_else(four):
    server, client = four.host("server"), four.host("client")
    assert server.check("guest", "list").split() == list(GUESTS)
    for guest in GUESTS:
        host = four.host(guest)
        assert host.check("hostname").strip() == f"{OTHER}-{guest}"
        client.check("ping", "-n", "-c", "1", "-W", "2", host.address)
        assert host.run("cat", "/run/labkit/guests/guest/run/labkit/host_key").code
    server.check("guest", "@guest2", "stop")
    server.check("guest", "@guest3", "set", "nic=direct", "batch=1")
    server.check("guest", "@guest3", "stop")
    server.check("guest", "@guest3", "start")
    states = {guest.name: guest.state for guest in box.status(OTHER).guests}
    assert states == {name: "stopped" if name == "guest2" else "running" for name in GUESTS}
    assert server.check("guest", "@guest", "get", "nic").strip() == "bridge"
    client.check("ping", "-n", "-c", "1", "-W", "2", four.host("guest3").address)
    box.up(OTHER)
    assert {guest.state for guest in box.status(OTHER).guests} == {"running"}
    with pytest.raises(BoxError, match="made of four-guests and not of pair"):
        box.up(OTHER, made_of="pair")
    assert "no such guest: x" in server.run("guest", "@x", "state").stderr
