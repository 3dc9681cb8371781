"""Who reads a connection: one thread at a time, and whoever waits is served."""

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import paramiko
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from paramiko import packet
from sshd import gone, reached, serving, tell

from labkit.ssh import connection, packets, sealed


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("packets")) as one:
        yield one


@pytest.fixture
def host(server):
    with reached(server.address()) as one:
        yield one


def test_who_is_alone_reads_its_own_answers(host, monkeypatch):
    host.check("true")
    given, real = [], connection.Client._give
    monkeypatch.setattr(
        connection.Client, "_give", lambda self, *what: given.append(what) or real(self, *what)
    )
    for number in range(200):
        assert host.check("echo", str(number)) == f"{number}\n"
    # A busy machine may keep us from asking for longer than the thread stands aside.
    assert len(given) > 100


@pytest.mark.slow
def test_many_who_wait_on_one_connection_are_all_served(host):
    def some(number):
        if number % 4 == 0:
            size = 3_000_000
            done = host.run("sh", "-c", f"head -c {size} /dev/zero; head -c {size} /dev/zero >&2")
            return (done.stdout_size, done.stderr_size) == (size, size)
        if number % 4 == 1:
            return host.run("cat", stdin=b"x" * 4_000_000).stdout_size == 4_000_000
        return all(host.check("echo", f"{number}-{n}") == f"{number}-{n}\n" for n in range(20))

    with ThreadPoolExecutor(7) as pool:
        assert all(pool.map(some, range(28)))
    assert len(host.transport._all._connections) == 1


@pytest.mark.slow
def test_while_one_reads_for_long_others_get_sessions_and_answers(host):
    host.check("true")
    with ThreadPoolExecutor(1) as pool:
        long = pool.submit(host.run, "sleep", "3")
        time.sleep(0.3)
        with host.stream("echo", "line") as lines:
            assert [line.text for line in lines] == ["line"]
        assert host.check("echo", "another") == "another\n"
        assert not long.done()
        assert long.result().code == 0


def test_keys_are_exchanged_again_while_answers_are_read(host, monkeypatch):
    exchanged, real = [], connection.Client._verify_key
    monkeypatch.setattr(packet.Packetizer, "REKEY_PACKETS", 40)
    monkeypatch.setattr(
        connection.Client,
        "_verify_key",
        lambda self, *key: exchanged.append(key) or real(self, *key),
    )
    # Its thread does that, and is woken for it.
    monkeypatch.setattr(packets, "ASIDE_SECONDS", 10.0)
    begun = time.monotonic()
    for number in range(150):
        assert host.check("echo", str(number)) == f"{number}\n"
    assert time.monotonic() - begun < 20
    assert len(host.transport._all._connections) == 1 and len(exchanged) >= 3


@pytest.mark.slow
def test_ctrl_c_in_the_middle_of_a_packet_costs_the_connection_and_nothing_else(host, monkeypatch):
    host.check("true")
    used = host.transport._all.usable().client

    interruptions, real = [], connection.Client._give

    def interrupted(self, *given):
        if interruptions:
            return real(self, *given)
        interruptions.append(given)
        raise KeyboardInterrupt

    monkeypatch.setattr(connection.Client, "_give", interrupted)
    with pytest.raises(KeyboardInterrupt):
        for _ in range(50):  # until it is ours to read
            host.check("true")
    assert host.check("echo", "again") == "again\n"
    assert host.transport._all.usable().client is not used


def test_packets_are_sealed_as_rfc_5647_says_and_opened_and_a_changed_one_is_refused():
    key, iv = AESGCM(os.urandom(16)), os.urandom(4) + b"\xff" * 8
    sealer, opener, read = sealed.Sealer(key, iv), sealed.Opener(key, iv), bytearray()
    contents = [bytes([94]) + os.urandom(size) for size in (*range(40), 32_000)]
    counter = (1 << 64) - 1
    for content in contents:
        whole = sealer.sealed(content)
        nonce = iv[:4] + counter.to_bytes(8, "big")
        plain = key.decrypt(nonce, whole[4:], whole[:4])
        assert int.from_bytes(whole[:4], "big") == len(plain) and len(plain) % 16 == 0
        assert 4 <= plain[0] < 20 and plain[1 : -plain[0]] == content
        counter = (counter + 1) % (1 << 64)
        read += whole
    for content in contents:
        kind, message = opener.opened(read)
        assert (bytes([kind]) + message.asbytes()) == content
    assert not read
    read += whole[:4] + bytes(len(whole) - 4)
    with pytest.raises(Exception) as refused:
        opener.opened(read)
    assert type(refused.value).__name__ == "InvalidTag"


def test_a_packet_larger_than_any_is_refused_before_it_is_read():
    ours, its = socket.socketpair()
    with its:
        reader = packets.Packets(ours)
        its.sendall(b"\xff\xff\xff\xff")
        assert reader._more()
        with pytest.raises(paramiko.SSHException, match="a packet of"):
            reader._has_packet()
        with pytest.raises(paramiko.SSHException, match="a packet of"):
            reader.read_all(1 << 31)
        reader.close()


def test_closing_wakes_who_reads_at_once(host):
    host.check("true")
    time.sleep(0.2)  # the thread reads again
    client = host.transport._all.usable().client
    begun = time.monotonic()
    host.close()
    client.join(5)
    assert not client.is_alive() and time.monotonic() - begun < 0.9


@pytest.mark.slow
def test_a_turn_that_ctrl_c_took_and_nobody_uses_is_taken_back(host):
    host.check("true")
    time.sleep(0.1)
    packets_of = host.transport._all.usable().client.packetizer
    end = time.monotonic() + 10
    while not packets_of._turn.acquire(blocking=False):  # from the thread, while it stands aside
        assert host.check("true") == "" and time.monotonic() < end
    assert host.run("sleep", "0.4", seconds=60).code == 0


@pytest.mark.slow
def test_a_connection_that_ended_right_after_an_answer_is_replaced_before_a_command_is_sent(server):
    with reached(server.address()) as host:
        for number in range(10):
            assert host.check("echo", str(number)) == f"{number}\n"
            ended = server.processes()
            tell(ended, signal.SIGKILL)
            while not all(map(gone, ended)):
                pass
