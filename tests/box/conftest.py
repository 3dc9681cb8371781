"""One box for all tests of this folder; its name is not one that a user's box would have."""

import os
import subprocess
import sys

import pytest

from labkit import box
from labkit.box.guests import accelerator
from labkit.lab import opened
from tests.box.machine import another

# Two runs of the tests on one machine need different names.
NAME = os.environ.get("LABKIT_TEST_BOX", "pytest")
TWO, OTHER, MOVING = f"{NAME}-2", f"{NAME}-3", f"{NAME}-4"


@pytest.fixture(scope="session")
def lab_file():
    box.down(NAME)
    try:
        yield box.up(NAME)
    finally:
        box.down(NAME)


@pytest.fixture
def labkit(tmp_path):
    """The command line; its results are in the folder of the test."""

    def call(*words):
        return subprocess.run(
            [sys.executable, "-m", "labkit.cli", *words],
            capture_output=True, text=True, env={**os.environ, "LABKIT_OUT": str(tmp_path)},
        )  # fmt: skip

    return call


@pytest.fixture
def lab(lab_file):
    with opened(lab_file) as opened_lab:
        yield opened_lab


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


def hypervisor(lab):
    """The host that the guest is on."""
    return lab.host(box.status(MOVING).guests[0].on)


def with_cpus(lab, count):
    """The guest with so many CPUs: one that has others is started anew."""
    guest, at = lab.host("guest"), hypervisor(lab)
    if guest.check("nproc").strip() != str(count):
        at.check("guest", "stop")
        at.check("guest", "set", f"vcpus={count}")
        at.check("guest", "start", seconds=90)
        guest.close()
    assert guest.check("nproc").strip() == str(count)
    return guest
