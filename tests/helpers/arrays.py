"""A guest of a box with disks that can be made into arrays, or a reason to skip."""

import os
import shutil

import pytest

from labkit.box.guests import accelerator, kernel

SYSTEM = f"{os.environ['PATH']}:/usr/sbin:/sbin"


def lacking(*programs):
    """The first of these programs that this machine lacks."""
    return next((name for name in programs if not shutil.which(name, path=SYSTEM)), "")


def arrays_or_skip(*programs):
    """Skip where no guest could have an array, or a program is missing."""
    if why := accelerator.lacking():
        pytest.skip(f"no guests of QEMU: {why}")
    if not (found := kernel.find()) or not found.listed(False)["arrays"]:
        pytest.skip("no kernel for a guest of QEMU that has arrays of disks")
    if name := lacking(*programs):
        pytest.skip(f"needs {name}")
