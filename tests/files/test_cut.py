"""A copy whose connection is cut: it is made once more, and is whole or not there."""

import hashlib
import os

import pytest
from copies import MIB, left_in
from sshd import reached
from wire import DOWN, UP, Wire

from labkit.errors import Unreachable

pytestmark = pytest.mark.slow

SIZE = 20_000_000


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "source"
    path.write_bytes(os.urandom(SIZE))
    return path


def copied(host, way, source, target):
    if way == "up":
        host.put(source, str(target))
    else:
        target.write_bytes(host.get(str(source)))


def same(one, other):
    first, second = (hashlib.sha256(path.read_bytes()).hexdigest() for path in (one, other))
    return first == second


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_connection_that_was_cut_before_a_copy_begins_is_made_again(server, tmp_path, reset):
    for number in range(5):
        with Wire(server.port) as wire, reached(server.behind(wire.port)) as host:
            host.check("true")
            wire.reset = reset
            wire.part_all()
            host.put(os.urandom(3 * MIB), str(tmp_path / str(number)))
    assert {path.stat().st_size for path in tmp_path.iterdir()} == {3 * MIB}


@pytest.mark.parametrize("cut", [20_000, 10_000_000, SIZE - 9_000], ids=str)
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_copy_that_was_cut_is_made_once_more(server, large, tmp_path, way, cut):
    target = tmp_path / "target"
    with Wire(server.port) as relay, reached(server.behind(relay.port)) as host:
        relay.cut_after(UP if way == "up" else DOWN, cut)
        copied(host, way, large, target)
        assert relay.connections == 2
    assert same(large, target)
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_copy_that_was_cut_twice_is_given_up_and_leaves_nothing(server, large, tmp_path, way):
    target = tmp_path / "target"
    target.write_bytes(b"old")
    with (
        Wire(server.port, every=10_000_000) as relay,
        reached(server.behind(relay.port)) as host,
        pytest.raises(Unreachable) as error,
    ):
        copied(host, way, large, target)
    assert "umask" not in str(error.value)
    with reached(server.address()) as host:
        host.check("sh", "-c", 'while ls -A "$1" | grep -q labkit-; do sleep 0.05; done', "sh",
                   str(tmp_path))  # fmt: skip
    assert target.read_bytes() == b"old"
