"""What settings may be asked for: anything else is refused before a host hears of it."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from knobs import refused

from labkit.commands._setting import setting_of
from labkit.errors import BadInput, Impossible, LabkitError
from labkit.host import Host
from labkit.lab import Lab
from labkit.setting import KINDS, refuse_conflicts, type_name, way_among
from labkit.settings import kinds_of_setting
from labkit.settings._fields import cpu_list
from labkit.settings._ways import OnHost
from labkit.settings.cgroup import GroupCpus
from labkit.settings.egress import DEFAULT, Link, NetIoControl, Traffic
from labkit.settings.guest_cpu import GuestCpus
from labkit.settings.guest_power import GuestPower
from labkit.settings.guest_size import LatencySensitivity
from labkit.settings.migration import MigrationStreams
from labkit.settings.mtu import Mtu
from labkit.settings.processes import ProcessCpus

HOST = Host("box1", "127.0.0.1", None, "eth1")


@pytest.mark.parametrize("typed, legal", [
    ("Mtu(67)", "68 to 65535"),
    ("Mtu('1500B')", "bytes from 68"),
    ("Mtu(1500.5)", "whole number of bytes"),
    ("Mtu(True)", "68 to 65535"),
    ("Link(0)", "neither rate nor delay"),
    ("Link(-1)", "Mbit/s from 0"),
    ("Link(0, '5ms')", "ms from 0 to 10000"),
    ("NetIoControl(1000, (Traffic(1, 50, 800),))", "75 %"),
    ("NetIoControl(1000, (Traffic(1), Traffic(1)))", "each port once"),
    ("NetIoControl(1000, (Traffic(80, 101),))", "1 to 100"),
    ("NetIoControl(1000, (Traffic(80, 50, 200, 100),))", "less than is reserved"),
    ("NicQueues(None)", "known: combined, rx, tx"),
    ("NicQueues(True)", "combined is a number from 1 to 1024, not True"),
    ("Offloads(gro=None)", "known: gro, gso, tso, lro, sg"),
    ("GuestNic(batch=129)", "1 to 128"),
    ("HugePages(None)", "number from 0"),
    ("Coalescing(-1)", "0 to 65535"),
    ("SocketBuffers('receive', 10, 5, 20)", "in that order"),
    ("HugePages(1, 4)", "2048 or 1048576"),
    ("IdleStates(-1)", "us from 0 to 1000000"),
    ("GroupCpuShares('g', 1)", "2 to 262144"),
    ("GroupCpuLimit('g', 0)", "CPUs from 0.01"),
    ("GuestMemory('lab', 1023)", "multiple of 4"),
    ("GuestCpuReservation('lab', 5000, 100)", "less than is reserved"),
    ("VnicCoalescing('lab', 'rbc', 99)", "100 to 100000"),
    ("VnicCoalescing('lab', 'disabled', 1)", "no parameter"),
    ("MigrationBandwidth('lab', -1)", "MiB/s from 1"),
    ("MigrationStreams('lab', 256)", "0 to 255"),
    ("BootOptions(())", "no boot option"),
    ("BootOptions('nohz=off')", "'nohz=off' names no boot option"),
    ("ContainerNetwork('c', 'host', ('--network=none', 'image'))",
     "leave name and network out of its options"),
    ("PowerPolicy('turbo')", "known: balanced, custom, performance, saving"),
    ("TransparentHugePages('sometimes')", "known: always, madvise, never"),
    ("LatencySensitivity('lab', 'highest')", "known: high, low, medium, normal"),
    ("VnicCoalescing('lab', 'off')", "known: adapt, calibrate, disabled, rbc, static"),
    ("SocketBuffers('both', 1, 2, 3)", "known: receive, send"),
])  # fmt: skip
def test_a_value_that_is_not_legal_is_refused_with_what_is(typed, legal):
    with pytest.raises(LabkitError) as error:
        setting_of(typed)
    assert legal in str(error.value)


SWITCHES = [(one, field.name) for one in kinds_of_setting()
            for field in fields(one) if "bool" in type_name(field).split(" | ")]  # fmt: skip


@pytest.mark.parametrize("one, name", SWITCHES, ids=lambda x: getattr(x, "__name__", x))
def test_a_switch_takes_no_word_for_on_or_off(one, name):
    some = {"vm": "lab", "disk": "loop0", "group": "g", "per_second": 1, "service": "tuned",
            "interface": "vmk1", "name": "x", "address": "0000:03:00.0"}  # fmt: skip
    needed = {f.name: some[f.name] for f in fields(one) if f.name in some}
    needed |= {"disk": "8:0"} if one.__name__ == "GroupDiskLimit" else {}
    for word in ("off", 1, "yes"):
        with pytest.raises(BadInput, match=f"{name} is True or False, not {word!r}"):
            one(**{**needed, name: word})


NASTY = ["", "-rf", "a;reboot", "a b", "$(id)", "`id`", "a\nb", "../../etc", "a'b", 'a"b', "a|b",
         "ä"]  # fmt: skip
MAY_HAVE_A_BLANK = ("AdvancedOption('/Net/UseHwTSO', {})", "Sysctl('net.core.somaxconn', {})")


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("typed", [
    "GuestCpus({}, '0')", "GuestCpus('lab', {})", "OnlineCpus({})", "ProcessCpus({}, '0')",
    "InterruptCpus({}, '0')", "ServiceRunning({})", "GroupCpus({}, '0')",
    "GroupDiskLimit('g', {}, 1)", "Passthrough({})", "DirectIo({})", "BootOptions(({},))",
    "KernelOption({}, True)", "ModuleOptions('ixgben', ({},))", "AdvancedOption({}, 1)",
    "Sysctl({}, '1')", "ContainerNetwork({}, 'host', ('image',))", "Mtu({})",
    "GuestNic(guest={})", *MAY_HAVE_A_BLANK,
])  # fmt: skip
def test_no_text_with_the_signs_of_a_shell_gets_past_a_constructor(typed, text):
    given = f"RSS={text}" if typed.startswith("ModuleOptions") else text
    if text == "a b" and typed in MAY_HAVE_A_BLANK:
        return
    with pytest.raises(BadInput):
        setting_of(typed.format(repr(given)))


def test_an_interface_from_the_lab_file_is_checked_too():
    for name in ("", "eth0;reboot", "-a", "a b"):
        with pytest.raises(BadInput):
            Mtu(9000).way("linux", Host("box1", "127.0.0.1", None, name))
    with pytest.raises(BadInput, match="vmk1"):
        Mtu(9000).way("esxi", HOST)


@pytest.mark.parametrize("asked, written", [
    ("3,0,1", "0-1,3"), ("0-3", "0-3"), ("7", "7"), ("0,1,2,4-6,5", "0-2,4-6"),
])  # fmt: skip
def test_a_list_of_cpus_is_written_as_the_kernel_writes_it(asked, written):
    assert cpu_list(asked) == written


def test_a_setting_on_a_wrong_kind_of_host_says_which_kinds_have_it():
    with pytest.raises(Impossible) as error:
        way_among(LatencySensitivity("lab"), ["kvm", "linux"], HOST)
    assert "GuestCpus" in str(error.value) and "of kind esxi, not kvm" in str(error.value)
    with pytest.raises(Impossible, match="vCenter keeps"):
        way_among(Link(10), ["esxi"], HOST)
    with pytest.raises(Impossible, match="with each move"):
        way_among(MigrationStreams("lab", 4), ["kvm"], HOST)


@pytest.mark.parametrize("one", [
    one for one in kinds_of_setting() if issubclass(one, OnHost)
], ids=lambda one: one.__name__)  # fmt: skip
def test_each_setting_is_of_some_kind_and_names_only_kinds_that_there_are(one):
    kinds = {name.removeprefix("on_") for name in dir(one) if name.startswith("on_")}
    assert kinds and kinds <= set(KINDS)
    assert set(one.gaps) <= set(KINDS) - kinds, "a reason for a kind that has it"


@pytest.mark.parametrize("typed, kind, legal", [
    ("HaltPolling(0)", "linux", "0 to 10000000 ns"),
    ("TransparentHugePages('never')", "linux", "always, madvise, never"),
    ("WindowScaling()", "linux", "on or off"),
    ("GuestCpus('lab', '0')", "esxi", "a list such as 0-1"),
    ("MigrationStreams('lab', 4)", "esxi", "0 to 112, in older releases 0 to 32"),
    ("SocketBuffers('send', 1, 2, 3)", "linux", ""),
])  # fmt: skip
def test_what_is_legal_comes_from_the_field_or_the_kind_of_host(typed, kind, legal):
    assert setting_of(typed).way(kind, HOST).legal == legal


@pytest.mark.parametrize("typed, thing, wanted", [
    ("HugePages(8)", "HugePages of server: 2 MiB", "8"),
    ("HugePages(8, 1048576, 0, role='client')", "HugePages of client: 1 GiB node 0", "8"),
    ("VnicCoalescing('lab', 'rbc', 4000, 1)", "VnicCoalescing of server: lab ethernet1",
     "rbc 4000"),
    ("GroupDiskLimit('g', '8:0', 5, True)", "GroupDiskLimit of server: g 8:0 write", "5"),
    ("ServiceRunning('tuned')", "ServiceRunning of server: tuned", "off"),
    ("GuestPower('off')", "GuestPower of server", "off"),
    ("GuestPower('off', 'guest2')", "GuestPower of guest2 on server", "off"),
    ("GuestNic('bridge', 1, False)", "GuestNic of server", "nic=bridge batch=1 lro=off"),
    ("Offloads(tso=False)", "Offloads of guest: gro tso", "gro=off tso=off"),
    ("Coalescing(0, adaptive_rx=True)", "Coalescing of server", "rx-usecs=0 adaptive-rx=on"),
])  # fmt: skip
def test_fields_say_which_thing_is_meant_or_what_is_wanted_of_it(typed, thing, wanted):
    setting = setting_of(typed)
    assert (setting.thing, setting.wanted) == (thing, wanted)


@pytest.mark.parametrize("setting, text", [
    (Link(10), '[{"kind":"tbf","handle":"1ab:","root":true,"options":{"rate":1250000}}]'),
    (Link(0, 2.5), '[{"kind":"netem","handle":"1ab:","root":true,'
                   '"options":{"limit":1000,"delay":{"delay":0.0025,"jitter":0}}}]'),
    (Link(100, 20), '[{"kind":"netem","handle":"1ab:","root":true,"options":{"limit":1000,'
                    '"delay":{"delay":0.02},"rate":{"rate":12500000,"packetoverhead":0}}}]'),
])  # fmt: skip
def test_what_tc_shows_of_a_link_reads_as_what_was_asked_for(setting, text):
    way = setting.way("linux", HOST)
    assert way.value(text) == setting.wanted
    assert way.refuses(text) == ""


def test_queues_of_somebody_else_are_left_alone():
    way = Link(10).way("linux", HOST)
    theirs = '[{"kind":"htb","handle":"1:","root":true,"options":{}}]'
    assert "has queues already" in way.refuses(theirs)
    default = '[{"kind":"mq","handle":"0:","root":true,"options":{}}]'
    assert way.refuses(default) == "" and way.value(default) == DEFAULT


def test_settings_of_one_link_are_settings_of_one_thing():
    shares = NetIoControl(1000, (Traffic(9000),))
    assert shares.thing == Link(10).thing == Link(0, 5).thing != Link(10, role="client").thing


def test_what_is_written_has_no_value_in_the_text_of_a_script():
    """Values go to scripts as words of their own, so nothing in them can be run."""
    for setting in (GuestCpus("lab", "0-1"), GroupCpus("a/b", "0"), ProcessCpus("redis", "1")):
        for kind in KINDS:
            try:
                way = setting.way(kind, HOST)
            except Impossible:
                continue
            for words in way.writes(setting.wanted):
                assert words[:2] != ("sh", "-c") or "redis" not in words[2]
                assert shlex.split(shlex.join(words)) == list(words)


def test_the_page_of_the_settings_names_each_of_them_and_the_kinds_that_have_it():
    page = (Path(__file__).parents[2] / "notebooks/docs/settings.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)\(.*?\)` (\|.*)$", page, re.MULTILINE))
    known = {one.__name__: one for one in kinds_of_setting()}
    assert set(rows) == set(known)
    for name, one in known.items():
        if issubclass(one, OnHost):
            told = set(re.findall(r"\*\*(\w+)\*\*", rows[name]))
            assert told == {word.removeprefix("on_") for word in dir(one) if word.startswith("on_")}


def test_the_example_of_hypervisors_can_be_read():
    lab = Lab.read(Path(__file__).parents[2] / "data/labs/esxi-kvm.toml")
    assert set(lab.hosts) == {"client", "esxi", "kvm", "guest"}


@pytest.mark.parametrize("one, two", [
    ("OnlineCpus('0-1')", "GuestCpus('lab', '2')"),
    ("OnlineCpus('0')", "InterruptCpus('eth1', '0-1')"),
    ("LatencySensitivity('lab')", "GuestMemoryReservation('lab', 0)"),
    ("LatencySensitivity('lab')", "GuestCpuReservation('lab', 0)"),
    ("LatencySensitivity('lab')", "GuestCpuReservation('lab', 5000, 5000)"),
    ("GuestMemoryReservation('lab', 8192)", "GuestMemory('lab', 4096)"),
    ("InterruptCpus('eth1', '0')", "ServiceRunning('irqbalance', True)"),
    ("Link(10)", "NetIoControl(1000, (Traffic(9000),))"), ("Mtu(1500)", "Mtu(9000)"),
])  # fmt: skip
def test_two_settings_that_rule_each_other_out_are_refused_before_a_host_is_asked(one, two):
    for pair in ([one, two], [two, one]):
        refused(BadInput, "", list(map(setting_of, pair)), {"server": HOST})


@pytest.mark.parametrize("one, two", [
    ("OnlineCpus('0-1')", "GuestCpus('lab', '1')"),
    ("OnlineCpus('0-1')", "GuestCpus('lab', '2', role='client')"),
    ("OnlineCpus('0-1')", "GroupCpuLimit('g', 8)"),
    ("LatencySensitivity('lab')", "GuestMemoryReservation('other', 0)"),
    ("LatencySensitivity('lab', 'normal')", "GuestMemoryReservation('lab', 0)"),
    ("LatencySensitivity('lab')", "GuestCpuReservation('lab', 5000)"),
    ("GuestMemoryReservation('lab', 4096)", "GuestMemory('lab', 4096)"),
    ("InterruptCpus('eth1', '0')", "ServiceRunning('irqbalance', False)"),
])  # fmt: skip
def test_settings_that_go_together_do_not_clash(one, two):
    refuse_conflicts([setting_of(one), setting_of(two)])


def test_settings_of_different_guests_are_told_to_different_guests():
    ways = {guest: GuestPower("off", guest).way("box", HOST) for guest in ("guest", "guest2")}
    assert ways["guest"].reads == ("guest", "state")
    assert ways["guest2"].reads == ("guest", "@guest2", "state")
    assert ways["guest2"].writes("on") == (("guest", "@guest2", "start"),)
