"""Boxes that last for a whole session of tests; their names are not those of a user's boxes."""

import os
import subprocess
import sys

import pytest
from leftovers import snapshot

from labkit import box

# Two runs of the tests on one machine need different names, and so do the processes of one run.
PROCESS = os.environ.get("PYTEST_XDIST_WORKER", "")
NAME = os.environ.get("LABKIT_TEST_BOX", "pytest") + (f"-{PROCESS}" if PROCESS else "")
TWO, OTHER, MOVING, KEPT = (f"{NAME}-{number}" for number in (2, 3, 4, 5))


@pytest.fixture(scope="session")
def lab_file():
    box.down(NAME)
    try:
        yield box.up(NAME)
    finally:
        box.down(NAME)


@pytest.fixture(scope="session")
def box_of(request):
    """The lab.toml of a box of some topology: made when it is asked for, kept until it is another.

    The pair is that of all tests; beside it there is one more at a time.
    """
    box.down(KEPT)
    before, kept = snapshot(KEPT), ["pair"]

    def of(topology):
        if topology == "pair":
            return request.getfixturevalue("lab_file")
        if kept[-1] != topology:
            box.down(KEPT)
            kept.append(topology)
        return box.up(KEPT, made_of=topology)

    yield of
    box.down(KEPT)
    assert snapshot(KEPT) - before == set()


@pytest.fixture
def labkit(tmp_path):
    """The command line; its results are in the folder of the test."""

    def call(*words, out=tmp_path, **how):
        return subprocess.run(
            [sys.executable, "-m", "labkit", *words],
            capture_output=True, text=True, env={**os.environ, "LABKIT_OUT": str(out)}, **how,
        )  # fmt: skip

    return call
