"""govmomi's vcsim for tests, or the reason why this machine has none."""

import pytest

from labkit.errors import BadInput
from labkit.workloads import _simulator


def simulator_or_skip():
    """The program."""
    if _simulator.lacking():
        pytest.skip(f"no simulator of vCenter; to get it: Go, then go install {_simulator.SOURCE}")
    try:
        return _simulator.vcsim()
    except BadInput as refused:
        pytest.skip(str(refused))
