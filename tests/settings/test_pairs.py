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

PROGRAMS = ("corosync", "dockerd", "ip", "libvirtd")
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
KINDS = ["docker", *(pytest.param(one, marks=pytest.mark.torture)
                     for one in ("linux", "kvm", "esxi"))]  # fmt: skip


def tried_on(host, folder, kind):
    """A value that is not in force yet for each setting that this host has."""
    here = [case for case in LISTED if (case.world or case.kind) == kind]
    if kind == "linux":
        own = [case for case in cases.of_folder(folder) if case.name != "ProcessCpus"]
        assert {case.name for case in own} < set(OF_FOLDER)
        here += own
    able = [case for case in here if not case.lacks and not case.lone]
    # Of ESXi it is about a NIC of the kernel, the others about one of the machine.
    able = [case for case in able if (kind, case.name) != ("esxi", "Mtu")]
    return {one.thing: one for one, _, _ in (not_yet(host, case) for case in able)}.values()


def device(setting):
    """What a setting is about: the guest, disk, group or container it names, else its sort."""
    named = {one.name: getattr(setting, one.name) for one in fields(setting)}
    named["vm"] = named.get("vm", named.get("guest"))
    own = next((named[key] for key in ("vm", "disk", "group", "container") if named.get(key)), "")
    module = type(setting).__module__.rpartition(".")[2]
    return own or next((sort for sort, some in SORTS.items() if module in some), module)


def sharing(settings):
    """The pairs of them that share a device."""
    return [pair for pair in combinations(settings, 2) if device(pair[0]) == device(pair[1])]


def texts(hosts, settings):
    return {step.thing: (step.text, step.why) for step in plan(settings, hosts).steps}


def outcome(hosts, blocks, pair):
    """What becomes of these blocks of settings, one inside the other."""
    with ExitStack() as held:
        for asked in blocks:
            before = texts(hosts, pair)
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


@pytest.mark.parametrize("kind", KINDS)
def test_each_pair_of_one_device_goes_back_byte_for_byte_or_is_refused_first(host_of, kind, capsys):
    host, folder = host_of(kind)
    hosts = {"server": replace(host, interface="vmnic1") if kind == "esxi" else host}
    settings = [one for one in tried_on(hosts["server"], folder, kind) if one.role in hosts]
    whole, odd, refused, count = texts(hosts, settings), [], {}, 0
    for pair in sharing(settings):
        before = texts(hosts, pair)
        for how, blocks in ways(pair):
            names = " then ".join(str(one) for asked in blocks for one in asked)
            found, count = outcome(hosts, blocks, pair), count + 1
            if found == REFUSED:
                refused.setdefault(how, []).append(names)
            elif found != BACK:
                odd.append(f"{how}, {names}: {found}")
            if texts(hosts, pair) != before:
                odd.append(f"{how}, {names}: something stayed")
            assert hello(hosts["server"]).open == ()
    pairs = len(sharing(settings))
    with capsys.disabled():
        print(f"\n{kind}: {len(settings)} settings, {pairs} pairs, {count} tries")
        print(f"refused: {refused}")
    assert odd == []
    assert texts(hosts, settings) == whole
