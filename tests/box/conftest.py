"""One box for all tests of this folder; its name is not one that a user's box would have."""

import os

import pytest

from labkit import box
from labkit.lab import opened

# Two runs of the tests on one machine need different names.
NAME = os.environ.get("LABKIT_TEST_BOX", "pytest")
TWO, OTHER = f"{NAME}-2", f"{NAME}-3"


@pytest.fixture(scope="session")
def lab_file():
    box.down(NAME)
    try:
        yield box.up(NAME)
    finally:
        box.down(NAME)


@pytest.fixture
def lab(lab_file):
    with opened(lab_file) as opened_lab:
        yield opened_lab
