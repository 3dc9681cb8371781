"""Settings that depend on each other, on model devices that refuse any other order; and turns."""

import itertools
import random
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from knobs import Knob

from labkit.changes.change_set import _make, _rounds
from labkit.changes.in_force import InForce, in_force
from labkit.changes.lease import Owner
from labkit.changes.plan import Step, in_order, plan
from labkit.changes.restore import restore
from labkit.errors import Impossible, SettingRefused
from labkit.host import Host
from labkit.setting import Setting, Way
from labkit.transports.local import Local

pytestmark = pytest.mark.slow

# As with virtual functions of a card: a driver, then what it brings, then what needs both of that.
NEEDS = {"driver": (), "functions": ("driver",), "queues": ("driver",),
         "routes": ("functions", "queues")}  # fmt: skip
# DEVICE PART VALUE NEEDED... -- NEEDING...: on after all that it needs, off before any of those.
TURN = """
device=$1 part=$2 value=$3; shift 3
wanted=on
for other; do
    if [ "$other" = -- ]; then wanted=off; continue; fi
    [ "$value" != "$wanted" ] || [ "$(cat "$device/$other")" = "$wanted" ] ||
        { echo "$part cannot be $value while $other is not $wanted"; exit 1; }
done
echo "$value" > "$device/$part"
"""


@dataclass(frozen=True)
class Part(Setting):
    """One part of a device; it names what it needs, and the device knows that as well."""

    role: ClassVar[str] = "server"
    device: str
    part: str
    after: tuple = None

    @property
    def thing(self):
        return f"{self.part} of {self.role}"

    @property
    def wanted(self):
        return "on"

    def way(self, kind, host):
        needed = NEEDS[self.part]
        needing = [part for part, needs in NEEDS.items() if self.part in needs]
        words = ("sh", "-c", TURN, "turn", self.device, self.part)
        after = tuple(f"{part} of {self.role}" for part in needed)
        return Way(
            ("cat", f"{self.device}/{self.part}"),
            lambda value: ((*words, value, *needed, "--", *needing),),
            after=after if self.after is None else self.after,
        )


class PartOfClient(Part):
    role = "client"


KINDS = {"server": Part, "client": PartOfClient}


@dataclass(frozen=True)
class There(Local):
    """This machine as one of several hosts: its journal is a folder of its own."""

    changes: str = ""

    def run(self, words, **more):
        return super().run(["env", f"LABKIT_CHANGES={self.changes}", *words], **more)


@pytest.fixture
def hosts(tmp_path, own_out):
    for role in KINDS:
        (tmp_path / role).mkdir()
        for part in NEEDS:
            (tmp_path / role / part).write_text("off\n")
    return {role: Host(role, "", There(changes=str(tmp_path / role / "changes"))) for role in KINDS}


def parts(folder, names, role="server", **more):
    return [KINDS[role](str(folder / role), part, **more) for part in names]


def values(folder):
    return {
        role: {part for part in NEEDS if (folder / role / part).read_text() == "on\n"}
        for role in KINDS
    }


ALL, NONE = {role: {*NEEDS} for role in KINDS}, {role: set() for role in KINDS}
ORDERS = list(itertools.permutations(NEEDS))


def test_the_device_refuses_a_wrong_order(tmp_path, hosts):
    for order in ORDERS[1::5]:
        with pytest.raises(SettingRefused) as no, in_force(hosts) as changes:
            changes.move_to(parts(tmp_path, order, after=()))
        assert "cannot be on while" in no.value.said and values(tmp_path) == NONE


def test_every_order_of_asking_is_made_in_the_right_one_on_each_host_and_goes_back(tmp_path, hosts):
    with in_force(hosts) as changes:
        for order in ORDERS:
            both = [parts(tmp_path, order), parts(tmp_path, order[::-1], "client")]
            changes.move_to([one for pair in zip(*both, strict=True) for one in pair])
            assert values(tmp_path) == ALL
            changes.move_to([])
            assert values(tmp_path) == NONE
        changes.move_to(both[1] + both[0])
    assert values(tmp_path) == NONE


def test_a_process_that_knows_nothing_of_the_order_puts_back_in_the_right_one(tmp_path, hosts):
    changes = InForce(hosts, Owner.me("x"))
    changes.move_to([*parts(tmp_path, NEEDS), *parts(tmp_path, NEEDS, "client")])
    changes.leave()
    assert values(tmp_path) == ALL
    assert all(restore(host).ok for host in hosts.values()) and values(tmp_path) == NONE


@pytest.mark.parametrize("seed", range(2))
def test_from_one_set_of_parts_to_any_other_nothing_is_refused(tmp_path, hosts, seed):
    chance = random.Random(seed)
    able = [
        combination
        for size in range(5)
        for combination in itertools.combinations(NEEDS, size)
        if all({*NEEDS[part]} <= {*combination} for part in combination)
    ]
    with in_force(hosts) as changes:
        for _ in range(12):
            asked = {role: chance.sample(some, len(some)) for role in KINDS for some in
                     [chance.choice(able)]}  # fmt: skip
            changes.move_to([p for role in KINDS for p in parts(tmp_path, asked[role], role)])
            assert values(tmp_path) == {role: {*some} for role, some in asked.items()}
    assert values(tmp_path) == NONE


def test_eight_settings_of_two_hosts_come_in_the_right_order(tmp_path, hosts):
    wanted = [*parts(tmp_path, NEEDS), *parts(tmp_path, NEEDS, "client")]
    steps = plan(wanted, hosts).steps
    chance = random.Random(1)
    for _ in range(2000):
        made = in_order(chance.sample(steps, len(steps)))
        assert {step.thing for step in made} == {step.thing for step in steps}
        for n, step in enumerate(made):
            before = {one.thing for one in made[:n]}
            assert {*step.way.after} <= before


@pytest.mark.parametrize("size", [2, 3, 4])
def test_settings_that_wait_for_each_other_in_a_circle_are_refused(tmp_path, hosts, size):
    names = list(NEEDS)[:size]
    circle = [
        Part(str(tmp_path / "server"), part, (f"{names[n - 1]} of server",))
        for n, part in enumerate(names)
    ]
    others = parts(tmp_path, NEEDS, "client")
    for asked in ([*circle, *others], [*others, *circle[::-1]]):
        with pytest.raises(Impossible, match="on each other in a circle") as error:
            plan(asked, hosts)
        told = error.value.what.rpartition(": ")[2].split(" after ")
        assert told[0] == told[-1] and {*told} == {one.thing for one in circle}
        with pytest.raises(Impossible), in_force(hosts) as changes:
            changes.move_to(asked)
    assert values(tmp_path) == NONE and not [*tmp_path.glob("*/changes")]


def step(name, apart="", **more):
    knob = Knob(name, "new")
    way = replace(knob.way("linux", None), apart=apart, **more)
    return Step(knob, "here", "linux", way, "old\n", "true"), ""


def told(change, number):
    """The round that the host is told, of which each field has its place (verbs.sh)."""
    return _make(*change, number)[7]


def names(*makes):
    return [[one.thing for one, _ in some] for some in _rounds(makes)]


def test_each_guest_has_its_changes_in_their_order_beside_those_of_the_others():
    makes = [step(f"{guest}{n}", guest) for guest in "abc" for n in (1, 2)]
    assert names(*makes) == [["a1", "b1", "c1"], ["a2", "b2", "c2"]]


def test_what_is_of_the_whole_host_is_made_alone_and_what_came_before_it_is_made_before():
    found = names(step("a1", "a"), step("host"), step("a2", "a"), step("b1", "b"))
    assert found == [["a1"], ["host"], ["a2", "b1"]]


def test_what_lasts_or_cuts_the_way_or_comes_after_something_is_made_alone():
    for more in ({"persists": True}, {"cuts_management": True}, {"after": ("a1",)}):
        assert names(step("a1", "a"), step("b1", "b", **more), step("c1", "c")) == [
            ["a1"], ["b1"], ["c1"],
        ]  # fmt: skip
        assert told(step("b1", "b", **more), 2) == "0"


def test_the_host_is_told_the_round_of_what_is_apart_only():
    assert told(step("a1", "a"), 3) == "3" and told(step("x"), 3) == "0"
    assert Way(("true",), lambda _: ()).apart == ""
