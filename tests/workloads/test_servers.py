"""A server for one run: on a port that nobody has, gone when the run is over."""

import shlex
import socket
import sys

import pytest
from brought import HERE
from waiting import awaited

from labkit.errors import HostError
from labkit.workloads import _server
from labkit.workloads._server import serving


def http(port):
    return (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port))


def answers(port):
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_it_answers_when_it_is_handed_out_and_is_gone_afterwards():
    with serving(HERE, http) as port:
        assert answers(port)
    awaited(lambda: not answers(port))


def test_a_port_that_somebody_has_is_known():
    with socket.create_server(("127.0.0.1", 0)) as theirs:
        port = theirs.getsockname()[1]
        assert port in _server.taken(HERE)


@pytest.mark.slow
def test_another_port_is_tried_when_one_was_taken_meanwhile(tmp_path):
    asked = []

    def late(port):
        asked.append(port)
        here = shlex.join(http(port))
        gone = f"[ -e {tmp_path}/late ] || {{ touch {tmp_path}/late; echo Address already in use"
        return ("sh", "-c", f"{gone}; exit 1; }}; exec {here}")

    with serving(HERE, late) as port:
        assert asked == [asked[0], port] and port != asked[0]


@pytest.mark.slow
def test_a_server_that_does_not_start_is_told_with_its_last_words():
    with (
        pytest.raises(HostError, match="no such adapter"),
        serving(HERE, lambda _: ("sh", "-c", "echo no such adapter; exit 3")),
    ):
        pass
