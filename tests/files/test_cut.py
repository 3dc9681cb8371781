"""A copy whose connection is cut: it goes on from what is there, and trusts none of it."""

import contextlib
import hashlib

import pytest
from copies import MIB, left_in, noise
from sshd import known, reached
from wire import Cut, Wire

from labkit.errors import Unreachable

pytestmark = pytest.mark.slow

SIZE = 50_000_000


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "source"
    path.write_bytes(noise(SIZE))
    return path


def through(server, relay):
    public = (server.folder / "host_ed25519.pub").read_text()
    file = server.folder / f"known_{relay.port}"
    file.write_text(known(relay.port, public))
    return reached(server.address(port=relay.port, known_hosts=(str(file),)))


@contextlib.contextmanager
def given_up(server):
    """A host that is lost on the way, and then at each attempt to go on."""
    with Cut(server.port, [30_000_000, *[5000] * 9]) as relay, through(server, relay) as host:
        yield host


def same(one, other):
    first, second = (hashlib.sha256(path.read_bytes()).hexdigest() for path in (one, other))
    return first == second


CUTS = [[20_000], [30_000_000], [SIZE - 9_000], [SIZE + 20_000], [20_000_000] * 2]


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_connection_that_was_cut_before_a_copy_begins_is_made_again(server, tmp_path, reset):
    for number in range(5):
        with Wire(server.port) as wire, through(server, wire) as host:
            host.check("true")
            wire.reset = reset
            wire.part_all()
            assert host.round_trip() > 0  # what a copy asks first
            host.put(noise(3 * MIB), str(tmp_path / str(number)))
    assert {path.stat().st_size for path in tmp_path.iterdir()} == {3 * MIB}


@pytest.mark.parametrize("cuts", CUTS, ids=str)
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_copy_that_was_cut_goes_on_from_what_is_there(server, large, tmp_path, way, cuts):
    target = tmp_path / "target"
    with Cut(server.port, cuts) as relay, through(server, relay) as host:
        if way == "up":
            host.put(large, str(target))
        else:
            host.get_file(str(large), target)
        assert relay.cuts >= 1
    assert same(large, target)
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_copy_that_was_given_up_is_taken_up_by_the_next(server, large, tmp_path, way):
    target = tmp_path / "target"

    def copy(host):
        return host.put(large, str(target)) if way == "up" else host.get_file(str(large), target)

    with given_up(server) as host, pytest.raises(Unreachable, match="copy it again") as lost:
        copy(host)
    assert "umask" not in str(lost.value)
    assert not target.exists() and len(left_in(tmp_path)) == 1
    with reached(server.address()) as host:
        copied = copy(host)
    assert same(large, target) and left_in(tmp_path) == []
    assert copied.sent < SIZE - 8 * MIB


@pytest.mark.parametrize("way", ["up", "down"])
def test_what_is_there_from_an_earlier_try_is_not_trusted(server, large, tmp_path, way):
    target = tmp_path / "target"

    def copy(host):
        return host.put(large, str(target)) if way == "up" else host.get_file(str(large), target)

    with given_up(server) as host, pytest.raises(Unreachable):
        copy(host)
    (left,) = left_in(tmp_path)
    part = tmp_path / left / "part" if way == "up" else tmp_path / left
    with part.open("r+b") as file:
        file.seek(1000)
        file.write(b"not what was sent")
    with reached(server.address()) as host:
        copy(host)
    assert same(large, target)
