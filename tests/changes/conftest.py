"""The host whose journal the tests read: this machine."""

import pytest

from labkit.host import Host
from labkit.transports.local import Local


@pytest.fixture
def hosts(bench):
    return {"server": Host("here", "127.0.0.1", Local())}
