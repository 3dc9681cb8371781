"""Pairs of settings that share a device, together and nested, in both orders: nothing stays."""

from contextlib import ExitStack
from dataclasses import fields, replace
from itertools import combinations, permutations

import pytest
from settings import cases
from settings.test_every_setting import LISTED, OF_FOLDER, host_of, not_yet

from labkit.changes.in_force import applied
from labkit.changes.journal import hello
from labkit.changes.plan import plan
from labkit.errors import BadInput, SettingRefused

PROGRAMS = ("corosync", "docker", "dockerd", "ip", "libvirtd")
__all__ = ["host_of"]
pytestmark = pytest.mark.slow
REFUSED, BACK = "refused", "restored"
# Each kind of host takes its minutes; the first is tried by each `make test`.
# Settings of these modules are of one device, though they name none.
SORTS = {
    "NIC": ("mtu", "egress", "offloads", "queues", "vnic"),
    "CPUs": ("power", "neighbour", "halting", "processes", "other_cpus"),
    "memory": ("memory", "sockets"),
    "ESXi": ("esxi", "migration", "boot"),
}


def device(setting):
    """What a setting is about: the guest, disk, group or container it names, else its sort."""
    named = {one.name: getattr(setting, one.name) for one in fields(setting)}
    named["vm"] = named.get("vm", named.get("guest"))
    if type(setting).__name__ in OF_FOLDER:
        return "disk"
    own = next((named[key] for key in ("vm", "disk", "group", "container") if named.get(key)), "")
    module = type(setting).__module__.rpartition(".")[2]
    own = "group" if own == cases.GROUP else own
    return own or next((sort for sort, some in SORTS.items() if module in some), module)


def worlds():
    """Each kind of host, and each device of it that two settings share; one is quick."""
    for kind in ("docker", "linux", "kvm", "esxi"):
        here = {case.name: case.settings[0] for case in LISTED if host_kind(case) == kind}
        devices = [device(one) for one in here.values()]
        shared = [*dict.fromkeys(one for one in devices if devices.count(one) > 1)]
        for one in [*shared, *(["disk"] if kind == "linux" else [])]:
            marks = [] if kind == "docker" else [pytest.mark.torture]
            yield pytest.param(kind, one, marks=marks, id=f"{kind}-{one}".replace("/", "-"))


def host_kind(case):
    return case.world or case.kind


def tried_on(host, folder, kind):
    """A value that is not in force yet for each setting that this host has."""
    here = [case for case in LISTED if host_kind(case) == kind]
    if kind == "linux":
        own = [case for case in cases.of_folder(folder) if case.name != "ProcessCpus"]
        assert {case.name for case in own} < set(OF_FOLDER)
        here += own
    able = [case for case in here if not case.lacks and not case.lone]
    # Of ESXi it is about a NIC of the kernel, the others about one of the machine.
    able = [case for case in able if (kind, case.name) != ("esxi", "Mtu")]
    return {one.thing: one for one, _, _ in (not_yet(host, case) for case in able)}.values()


def texts(hosts, settings):
    return {step.thing: (step.text, step.why) for step in plan(settings, hosts).steps}


def outcome(hosts, blocks, pair, before):
    """What becomes of these blocks of settings, one inside the other."""
    with ExitStack() as held:
        for asked in blocks:
            before = before if asked is blocks[0] else texts(hosts, pair)
            try:
                held.enter_context(applied(asked, hosts))
            except (SettingRefused, BadInput) as why:
                changed = texts(hosts, pair) != before
                return f"{REFUSED}, and changed something: {why}" if changed else REFUSED
            wrong = [s.thing for s in plan(asked, hosts).steps if s.current != s.setting.wanted]
            if wrong:
                return f"not made: {', '.join(wrong)}"
    return BACK


def ways(pair):
    """Together and nested, in both orders."""
    for order in permutations(pair):
        yield "together", [order]
        yield "nested", [(one,) for one in order]


@pytest.mark.parametrize("kind, shared", list(worlds()))
def test_each_pair_of_one_device_goes_back_byte_for_byte_or_is_refused_first(
    host_of, kind, shared, capsys
):
    host, folder = host_of(kind)
    hosts = {"server": replace(host, interface="vmnic1") if kind == "esxi" else host}
    settings = [
        one
        for one in tried_on(hosts["server"], folder, kind)
        if one.role in hosts and device(one) == shared
    ]
    whole, odd, refused, count = texts(hosts, settings), [], {}, 0
    for pair in combinations(settings, 2):
        before = texts(hosts, pair)
        for how, blocks in ways(pair):
            names = " then ".join(str(one) for asked in blocks for one in asked)
            found, count = outcome(hosts, blocks, pair, before), count + 1
            if found == REFUSED:
                refused.setdefault(how, []).append(names)
            elif found != BACK:
                odd.append(f"{how}, {names}: {found}")
            if texts(hosts, pair) != before:
                odd.append(f"{how}, {names}: something stayed")
            assert hello(hosts["server"]).open == ()
    with capsys.disabled():
        print(f"\n{kind}, {shared}: {len(settings)} settings, {count} tries")
        print(f"refused: {refused}")
    assert odd == []
    assert texts(hosts, settings) == whole
