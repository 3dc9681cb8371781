"""Which changes of a host are made at the same time, and which take turns."""

from knobs import Knob

from labkit.changes.change_set import _make, _rounds
from labkit.changes.plan import Step
from labkit.setting import Details, Way


def step(name, apart="", **more):
    knob = Knob(name, "new")
    way = knob.way("linux", None).plus(Details(apart=apart, **more))
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
    assert Way(("true",), lambda _: ()).more.apart == ""
