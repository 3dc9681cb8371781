"""Hosts that fall silent: nobody is told, and yet it is noticed, named, and come back to."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from boxes import NAME

from labkit.box import Faults
from labkit.errors import OutcomeUnknown, Unreachable

pytestmark = [pytest.mark.box, pytest.mark.slow]
PATIENCE = 20
COMMAND = ("sh", "-c", "echo ran >>/tmp/labkit-silence; sleep 1")


def failed(kind, host, *words):
    """The error that a command ends with, after so many seconds."""
    begun = time.monotonic()
    with pytest.raises(kind) as error:
        host.run(*words, seconds=300)
    return error.value, time.monotonic() - begun


def test_a_host_that_falls_silent_is_noticed_whether_it_is_asked_or_not_and_come_back_to(lab):
    """Both at once: one in the midst of a command, of which nobody knows, and one that is idle."""
    busy, idle, faults = lab.host("server"), lab.host("client"), Faults(NAME)
    busy.check("true")
    idle.check("true")
    with (
        faults.cut("server", "control"),
        faults.cut("client", "control"),
        ThreadPoolExecutor(1) as pool,
    ):
        asked = pool.submit(failed, OutcomeUnknown, busy, *COMMAND)
        time.sleep(16)
        lost, seconds = failed(Unreachable, idle, "true")
        assert seconds <= PATIENCE and "client" in str(lost)
        assert not isinstance(lost, OutcomeUnknown)
        unknown, seconds = asked.result()
        assert seconds <= PATIENCE
        assert "server" in str(unknown) and "connection was lost" in str(unknown)
    assert idle.check("echo", "back") == "back\n"
    assert busy.run("cat", "/tmp/labkit-silence").stdout in ("", "ran\n")
    busy.check("rm", "-f", "/tmp/labkit-silence")
