"""govmomi's vcsim for tests, or the reason why this machine has none."""

import pytest

from labkit.programs import simulator


def simulator_or_skip():
    """The program."""
    if simulator.path() is None:
        pytest.skip(f"no simulator of vCenter; to get it: {simulator.REMEDY}")
    return simulator.vcsim()
