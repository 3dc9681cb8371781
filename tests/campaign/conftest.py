"""A lab for campaigns that measure: two hosts, each an sshd of its own."""

import pytest
from campaigns import loopback_lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A folder with the lab.toml of two real hosts on this machine."""
    place = tmp_path_factory.mktemp("lab")
    with loopback_lab(place):
        yield place
