"""What a box can be made of, and what is refused before anything is started."""

import os
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from planned_box import planned

from labkit.box import draw, growing, topology
from labkit.box.layout import Layout, link_name
from labkit.box.machine import Machine
from labkit.box.network.links import at_host, at_switch, wires
from labkit.box.status import BoxStatus, GuestStatus, HostStatus
from labkit.box.topology import GuestPlan, HostPlan, Topology
from labkit.errors import BadInput, Unknown

SVG = "{http://www.w3.org/2000/svg}"
CPUS = tuple(sorted(os.sched_getaffinity(0)))


@pytest.mark.parametrize("name", topology.names())
def test_a_built_in_topology_has_a_layout_that_comes_back_from_its_text(name):
    layout = Layout("lab", 3, CPUS, topology.find(name))
    assert Layout.from_json(layout.to_json()) == layout


def test_the_link_of_a_box_has_15_letters_at_most_and_no_other_box_has_it():
    names = ["pair", "twelve-long", "four-guests", "long-distance", "long-distances",
             "long-distant"]  # fmt: skip
    links = [link_name(name) for name in names]
    assert len(set(links)) == len(names) and max(map(len, links)) == 15
    assert links[:3] == ["lk-pair", "lk-twelve-long", "lk-four-guests"]


@pytest.mark.parametrize("name", topology.names())
def test_no_two_machines_share_an_address_a_hardware_address_or_a_link_name(name):
    layout = Layout("lab", 3, CPUS, topology.find(name))
    both = [address(role) for role in layout.roles for address in (layout.control, layout.data)]
    assert len(set(both)) == len(both)
    found = list(wires(layout))
    assert len({wire.mac for wire in found}) == len(found)
    assert len({wire.near for wire in found}) == len(found)
    assert len({(wire.at, wire.far) for wire in found}) == len(found)
    assert all(len(end) < 16 for wire in found for end in (wire.near, wire.far))


def test_every_wire_ends_in_the_host_that_configures_it():
    layout = Layout("lab", 0, CPUS, topology.find("two-servers"))
    pids = {role: seat for seat, role in enumerate(["root", *layout.hosts], 100)}
    lines = at_switch(layout, pids).splitlines()
    assert sum(f"netns {pids['server2']}" in line for line in lines) == 5
    assert "tap1" in at_host(layout, "server2") and "tap0" not in at_host(layout, "server2")
    assert "tap" not in at_host(layout, "client")


@pytest.mark.parametrize(
    "cpus, first, second", [((0, 1), (0,), (1,)), ((0, 1, 2), (0,), (1, 2)), ((5,), (5,), (5,))]
)
def test_halves_share_what_there_is(cpus, first, second):
    assert HostPlan("a", "first half").among(cpus) == first
    assert HostPlan("a", "second half").among(cpus) == second
    assert HostPlan("a").among(cpus) == cpus


def test_a_container_for_which_there_is_no_engine_is_left_out():
    plan = topology.find("containers")
    assert plan.containers and not plan.engined(lambda _: "").containers
    assert {one.engine for one in plan.engined(lambda _: "crun").containers} == {"crun"}


def host(**keys):
    return {"hosts": {"a": keys}}


def guest(**keys):
    return {**host(), "guests": {"g": {"on": "a", **keys}}}


def link(**keys):
    return {**host(), "links": {"a": keys}}


def container(**keys):
    return {**host(), "containers": {"c": {"on": "a", **keys}}}


BAD = {
    "no hosts": {},
    "unknown table": {**host(), "cables": {}},
    "container of nobody": container(on="b"),
    "container on a cable": container(network="none"),
    "container by magic": container(engine="x"),
    "container of 1 MiB": container(memory="1M"),
    "container on no CPU": container(cpus="x"),
    "container with a host's name": {**host(), "containers": {"a": {"on": "a"}}},
    "link of a container": {**container(), "links": {"c": {"rate": "1 Mbit/s"}}},
    "link of a guest": {**guest(), "links": {"g": {"rate": "1 Mbit/s"}}},
    "link of nobody": {**host(), "links": {"b": {"rate": "1 Mbit/s"}}},
    "link with a weight": link(weight="1"),
    "rate without a unit": link(rate="100"),
    "rate of nothing": link(rate="0 Mbit/s"),
    "rate beyond all": link(rate="999 Gbit/s"),
    "rate below nothing": link(rate="-1 Mbit/s"),
    "delay of an hour": link(delay="3600 s"),
    "jitter alone": link(jitter="1 ms"),
    "jitter beyond delay": link(delay="1 ms", jitter="2 ms"),
    "loss of everything": link(loss="100 %"),
    "unknown key": host(cores="1"),
    "not text": host(cpus=1),
    "not a table": {"hosts": {"a": "b"}},
    "no tables": {"hosts": ["a"]},
    "bad role": {"hosts": {"A b": {}}},
    "role twice": {**host(), "guests": {"a": {"on": "a"}}},
    "guest of nobody": guest(on="b"),
    "guest on nothing": {**host(), "guests": {"g": {}}},
    "no unit": guest(memory="128"),
    "too little": guest(memory="8M"),
    "no such accelerator": guest(accelerator="xen"),
    "uml has one cpu": guest(vcpus="2"),
    "no cpu": guest(accelerator="tcg", memory="256M", vcpus="0"),
    "disks not listed": guest(disks="64M"),
    "disk that is a number": guest(disks=[64]),
    "disk without a unit": guest(disks=["64"]),
    "qcow2 by uml": guest(accelerator="uml", disks=["64M qcow2"]),
    "qcow2 in memory for uml": guest(disks=["64M qcow2"]),
    "nine disks": guest(disks=["64M"] * 9),
    "backed by nothing": guest(backing="tape"),
    "wake-ups of its own": guest(wakeups="lossy"),
    "uml has no emulated nic": guest(disks=["64M cow"], nic="e1000"),
    "bad cpus": host(cpus="third half"),
    "cpus backwards": host(cpus="3-1"),
    "too many": {"hosts": {f"h{n}": {} for n in range(201)}},
}


@pytest.mark.parametrize("tables", BAD.values(), ids=BAD)
def test_what_cannot_be_meant_is_refused(tables):
    with pytest.raises(BadInput) as refused:
        topology.from_tables("mine", tables)
    places = ("mine", "a:", "of g", "of a", "c:", "container c", "g cannot", "g has 9")
    assert any(word in str(refused.value) for word in places)


def test_a_link_says_in_numbers_what_it_asks_in_words():
    tables = {"hosts": {"a": {}, "b": {}}, "links": {"a": {
        "rate": "2.5 Gbit/s", "delay": "50us", "jitter": "10 us", "loss": "0.5 %",
    }}}  # fmt: skip
    layout = Layout("lab", 3, CPUS, topology.from_tables("mine", tables))
    link = Layout.from_json(layout.to_json()).topology.link("a")
    assert (link.bits, link.shaped) == (2.5e9, True)
    assert [link.seconds, link.spread, link.lost] == pytest.approx([5e-5, 1e-5, 0.005])
    assert not layout.topology.link("b").shaped and not layout.topology.link("b").asked


def test_an_unknown_topology_is_answered_with_the_known_ones():
    with pytest.raises(Unknown, match=r"known: FILE\.toml, arrays, containers, failover"):
        topology.find("star")


def test_a_topology_is_read_from_a_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('[hosts.a]\n[hosts.b]\ncpus = "0"\n[guests.g]\non = "b"\nmemory = "96M"\n')
    found = topology.find(str(file))
    assert found == Topology(
        "mine", (HostPlan("a"), HostPlan("b", "0")), (GuestPlan("g", "b", "96M"),)
    )


@pytest.mark.parametrize("text", ["[hosts", "\udcff", None])
def test_a_file_that_cannot_be_read_says_so(tmp_path, text):
    file = tmp_path / "mine.toml"
    if text is not None:
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInput, match=r"mine\.toml"):
        topology.find(str(file))


def test_the_picture_shows_each_machine_once_and_guests_in_their_host():
    layout = Layout("lab", 3, CPUS, topology.find("two-servers"))
    hosts = tuple(
        HostStatus(f"lab-{role}", role, layout.control(role), layout.data(role),
                   layout.interface(role), layout.cpus_of(role), role != "guest2")
        for role in layout.roles
    )  # fmt: skip
    guests = tuple(GuestStatus(role, layout.on(role), "running") for role in layout.guests)
    picture = draw(BoxStatus("lab", "up", "two-servers", "root", "uml", "", hosts, guests))
    drawn = ElementTree.fromstring(picture.svg)
    words = [text.text for text in drawn.iter(f"{SVG}text")]
    assert [word for word in words if word in layout.roles] == [
        "client", "server", "guest", "server2", "guest2",
    ]  # fmt: skip
    assert picture.svg.count('stroke-dasharray="5 4"') == 1, "what does not live is dashed"
    assert "guest2" in picture.text


def test_a_topology_is_drawn_before_any_box_of_it_is_there():
    wired = topology.find("wired")
    words = [text.text for text in ElementTree.fromstring(planned(wired).svg).iter(f"{SVG}text")]
    told = {"CPUs: first half", "1024M", "in guest", "link of client: rate 1 Gbit/s"}
    assert {*wired.roles, *told} <= {*words}


def test_a_box_that_is_down_can_be_drawn():
    assert "is down" in draw(BoxStatus("lab", "down")).svg


def test_the_page_of_the_box_shows_every_key_that_a_topology_may_have():
    page = Path(__file__).parents[2] / "notebooks/docs/box.md"
    block = re.search(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    asked = tomllib.loads(block[1])
    plan = topology.from_tables("page", asked, Machine.of(16))
    assert len(plan.guests) == 4 and len(plan.containers) == 4
    shown = {kind: set().union(*tables.values()) for kind, tables in asked.items()}
    assert shown == {
        "hosts": topology.HOST_KEYS, "guests": topology.GUEST_KEYS | {"disks", growing.MANY},
        "containers": topology.CONTAINER_KEYS | {growing.MANY}, "links": topology.LINK_KEYS,
    }  # fmt: skip


def test_a_guest_has_a_nic_of_a_known_kind_and_an_emulated_one_only_with_qemu():
    for nic, said in (("e100", "did you mean 'e1000'"), ("e1000", "only guests of QEMU can")):
        with pytest.raises(BadInput, match=said):
            topology.from_tables("odd", guest(accelerator="uml", nic=nic))
    web = {guest.role: guest.nic for guest in topology.find("web").guests}
    assert web["guest5"] == "virtio" and web["guest6"] == "e1000"
