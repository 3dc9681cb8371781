"""Labs of the boxes that all tests of this folder share."""

from contextlib import suppress

import pytest
from boxes import MOVING, NAME
from leftovers import another, awaited

from labkit import box
from labkit.box.guests import accelerator
from labkit.errors import HostError
from labkit.lab import opened


@pytest.fixture
def lab(lab_file):
    with opened(lab_file) as opened_lab:
        yield opened_lab


@pytest.fixture
def faults(lab_file):
    return box.Faults(NAME)


@pytest.fixture(scope="session")
def two_hypervisors():
    if why := accelerator.lacking():
        pytest.skip(f"no guests of QEMU: {why}")
    with another(MOVING, "migration") as found:
        yield found


@pytest.fixture
def hypervisors(two_hypervisors):
    """A box with a guest of QEMU that runs on one of two hosts."""
    box.up(MOVING)
    two_hypervisors.host("guest").close()
    return two_hypervisors


def place(name=MOVING):
    """The host that the guest of a box is on, by its role."""
    return box.status(name).guests[0].on


def hypervisor(lab):
    """The host that the guest is on."""
    return lab.host(place(lab.name))


def answers(host):
    """Whether a host takes commands; beside busy tests, one of QEMU may need two tries for keys."""
    with suppress(HostError):
        return host.run("true").ok


def cpus(guest):
    """How many it has."""
    awaited(lambda: answers(guest), 60)
    return int(guest.check("nproc"))


def with_cpus(lab, count):
    """The guest with so many CPUs: one that has others is started anew."""
    guest, at = lab.host("guest"), hypervisor(lab)
    if cpus(guest) != count:
        at.check("guest", "stop")
        at.check("guest", "set", f"vcpus={count}")
        at.check("guest", "start", seconds=90)
        guest.close()
    assert cpus(guest) == count
    return guest


COUNTER = """\
(n=0; while true; do n=$((n + 1)); echo $n > /tmp/next; mv /tmp/next /tmp/count; sleep 0.02; done) \
    > /dev/null 2>&1 & until [ -s /tmp/count ]; do sleep 0.02; done"""


@pytest.fixture
def lab_of_two(hypervisors):
    """The same with a guest of one CPU, which counts."""
    with_cpus(hypervisors, 1).check("sh", "-c", COUNTER)
    return hypervisors
