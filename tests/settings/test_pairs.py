"""Settings of one device two by two, together and nested, in both orders: nothing stays.

What is refused is on the page; `LABKIT_WRITE=yes make torture` writes it, each test its own part.
"""

from dataclasses import replace

import pytest
from pairs_tried import as_told, of_part, pairs, texts
from settings import cases
from settings.test_every_setting import LISTED, host_of, not_yet, refused

PROGRAMS = ("corosync", "docker", "dockerd", "ip", "libvirtd")
__all__ = ["host_of"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.when_changed("labkit/settings/", "labkit/changes/"),
]
# How many tests share the pairs of a kind of host, so that each takes minutes at most.
PARTS = {"docker": 1, "linux": 6, "kvm": 8, "esxi": 24}
# It is about a NIC of the kernel, where the others of that host are about one of the machine.
ELSEWHERE = ("esxi", "Mtu")


def parts():
    """Each part of the pairs of a kind of host; that of Docker is quick."""
    for kind, count in PARTS.items():
        for part in range(count):
            marks = [] if kind == "docker" else [pytest.mark.torture]
            yield pytest.param(kind, part, marks=marks, id=f"{kind}-{part + 1}")


def of_kind(kind, folder=None):
    """The cases of a kind of host, with those of the tests' own disks where these are there."""
    here = [case for case in LISTED if (case.world or case.kind) == kind]
    if kind == "linux" and folder:
        here += [case for case in cases.of_folder(folder) if case.name != "ProcessCpus"]
    return [case for case in here if (kind, case.name) != ELSEWHERE]


def values(host, folder, kind):
    """Of each setting that this host has its values: one that is not in force yet comes first."""
    found = {}
    for case in (case for case in of_kind(kind, folder) if not case.lacks and not case.lone):
        first, _, _ = not_yet(host, case)
        some = found.setdefault((type(first), first.thing), {})
        able = [setting for setting in case.settings if not refused(host, setting, kind)]
        some.update((one.wanted, one) for one in (first, *able) if one.wanted not in some)
    return [list(some.values()) for some in found.values()]


@pytest.mark.parametrize("kind, part", list(parts()))
def test_each_pair_goes_back_byte_for_byte_or_is_refused(host_of, kind, part):
    host, folder = host_of(kind)
    host = replace(host, interface="vmnic1") if kind == "esxi" else host
    hosts = {"server": host}
    settings = values(host, folder, kind)
    firsts, shared = [setting[0] for setting in settings], pairs(settings, host.guests)
    whole = texts(hosts, firsts)
    found, odd = of_part(hosts, shared[part :: PARTS[kind]])
    assert odd == []
    assert texts(hosts, firsts) == whole
    as_told(kind, found)
