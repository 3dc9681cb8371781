"""The box's hosts do things together."""

import pytest

pytestmark = pytest.mark.box


def test_clients_in_the_box_start_within_5_ms_of_each_other(lab):
    commands = dict.fromkeys(("client", "server"), ("sleep", "0.2"))
    spreads = []
    while not spreads or (spreads[-1] > 0.005 and len(spreads) < 10):  # others use the machine too
        with lab.fleet.together(commands) as line:
            started = line.go()
            assert set(started.ok) == set(commands)
            spreads.append(started.spread)
    assert spreads[-1] <= 0.005, spreads


def test_hosts_and_their_guest_answer_at_once_and_tell_their_clocks(lab):
    names = {name: done.stdout.strip() for name, done in lab.fleet.run("hostname").check().items()}
    assert len(set(names.values())) == len(lab.hosts)
    for reading in lab.fleet.clocks().check().values():
        assert abs(reading.offset) < 5 and 0 < reading.round_trip < 1


def test_a_file_goes_to_every_host_and_comes_back(lab):
    content = bytes(range(256)) * 40_000
    for host in lab.hosts.values():
        host.put(content, "/tmp/file")
        assert host.get("/tmp/file") == content
