"""A host that falls silent: nobody is told, and yet it is noticed, named, and come back to."""

import time

import pytest

from labkit.box import Faults
from labkit.errors import OutcomeUnknown, Unreachable
from tests.box.conftest import NAME

pytestmark = [pytest.mark.box, pytest.mark.slow]


def test_a_command_that_the_network_swallows_ends_in_twenty_seconds_as_unknown(lab):
    client = lab.host("client")
    client.check("true")
    begun = time.monotonic()
    with Faults(NAME).cut("client", "control"), pytest.raises(OutcomeUnknown) as unknown:
        client.run("sh", "-c", "echo ran >>/tmp/labkit-silence; sleep 1", seconds=300)
    assert time.monotonic() - begun <= 20
    assert "client" in str(unknown.value) and "connection was lost" in str(unknown.value)
    assert client.run("cat", "/tmp/labkit-silence").stdout in ("", "ran\n")
    client.check("rm", "-f", "/tmp/labkit-silence")


def test_a_silent_host_is_noticed_while_nobody_asks_it_and_then_come_back_to(lab):
    client = lab.host("client")
    client.check("true")
    with Faults(NAME).cut("client", "control"):
        time.sleep(16)
        begun = time.monotonic()
        with pytest.raises(Unreachable) as lost:
            client.run("true", seconds=300)
        assert time.monotonic() - begun <= 20
        assert "client" in str(lost.value) and not isinstance(lost.value, OutcomeUnknown)
    assert client.check("echo", "back") == "back\n"
