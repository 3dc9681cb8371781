"""A lab whose client and server are this machine, and empty results of lat_ping on it."""

import pytest

from labkit.host import Host
from labkit.lab import Lab
from labkit.results import Results
from labkit.transports.local import Local


@pytest.fixture
def lab():
    hosts = {role: Host(role, "127.0.0.1", Local("here")) for role in ("client", "server")}
    # Its hosts are one machine, on which anything may be going on.
    return Lab("loopback", hosts, tier="loopback")


@pytest.fixture
def results(tmp_path):
    return Results.begin(tmp_path, {"study": "lat_ping", "seed": 1, "refused": {}})
