"""paramiko's connection as labkit uses it, and which of its private parts that takes."""

import ast
import inspect
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import paramiko
import pytest
from paramiko import packet
from sshd import gone, reached, tell

from labkit.ssh import client

pytestmark = pytest.mark.slow
LABKIT = Path(client.__file__).parents[1]


@pytest.fixture
def host(own):
    with reached(own.address()) as one:
        yield one


# --- private parts --------------------------------------------------------------------------


def members(cls):
    """What a class has, or gives its objects when they are made."""
    return {*dir(cls), *(
        node.attr for one in cls.__mro__[:-1] if one.__module__.startswith("paramiko")
        for node in ast.walk(ast.parse(inspect.cleandoc("\n" + inspect.getsource(one))))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )}  # fmt: skip


def test_every_private_part_that_labkit_uses_is_in_the_paramiko_that_is_installed():
    gone = [
        f"{cls.__name__}.{name}: {what}"
        for cls, parts in client.PRIVATE.items()
        for name, what in parts.items()
        if name not in members(cls)
    ]
    assert not gone, f"paramiko {version('paramiko')} has it no more: {', '.join(gone)}"


def private_of_paramiko():
    """All names that paramiko calls private, of what we use of it."""
    of = (paramiko.Transport, paramiko.Channel, packet.Packetizer, paramiko.AuthHandler)
    found = {name for cls in (*of, *client.PRIVATE) for name in members(cls)}
    found -= set(dir(paramiko.Transport.__mro__[1]))  # those of a thread
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def hidden_in(path):
    """The names with a leading underscore that a module uses and does not make."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    made = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    if path == Path(client.__file__):  # it also puts some in paramiko's place
        return {node.attr for node in attributes} | made
    made |= {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
    return {node.attr for node in attributes} - made


def test_no_module_but_one_uses_a_private_part_and_that_one_only_what_it_lists():
    theirs = private_of_paramiko()
    users = [*LABKIT.glob("ssh/*.py"), *LABKIT.glob("transports/*.py")]
    found = {path.name: hidden_in(path) & theirs for path in users}
    listed = {name for parts in client.PRIVATE.values() for name in parts}
    assert {name for name, used in found.items() if used} == {"client.py"}
    assert found["client.py"] == listed


# --- what labkit asks of it -----------------------------------------------------------------


def test_many_who_wait_on_one_connection_are_all_served(host):
    def some(number):
        if number % 4 == 0:
            size = 3_000_000
            result = host.run("sh", "-c", f"head -c {size} /dev/zero; head -c {size} /dev/zero >&2")
            return (result.stdout_size, result.stderr_size) == (size, size)
        if number % 4 == 1:
            return host.run("cat", stdin=b"x" * 4_000_000).stdout_size == 4_000_000
        return all(host.check("echo", f"{number}-{n}") == f"{number}-{n}\n" for n in range(20))

    with ThreadPoolExecutor(7) as pool:
        assert all(pool.map(some, range(28)))
    assert len(host.transport._all._connections) == 1


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
    exchanged, real = [], client.Client._verify_key
    monkeypatch.setattr(packet.Packetizer, "REKEY_PACKETS", 40)
    monkeypatch.setattr(
        client.Client, "_verify_key", lambda self, *key: exchanged.append(key) or real(self, *key)
    )
    start = time.monotonic()
    for number in range(150):
        assert host.check("echo", str(number)) == f"{number}\n"
    assert time.monotonic() - start < 20
    assert len(host.transport._all._connections) == 1 and len(exchanged) >= 3


def test_ctrl_c_while_we_wait_for_an_answer_costs_the_command_and_nothing_else(host, monkeypatch):
    host.check("true")
    used, real = host.transport._all.usable().client, client.Client.taken
    interruptions = []

    def interrupted(self, *given):
        if interruptions:
            return real(self, *given)
        interruptions.append(given)
        raise KeyboardInterrupt

    monkeypatch.setattr(client.Client, "taken", interrupted)
    with pytest.raises(KeyboardInterrupt):
        host.check("true")
    assert host.check("echo", "again") == "again\n"
    assert host.transport._all.usable().client is used


def test_a_packet_larger_than_any_is_refused_before_it_is_read():
    ours, its = socket.socketpair()
    with ours, its:
        ours.settimeout(5)
        its.sendall(b"\x7f\xff\xff\xfc\0\0\0\0")
        with pytest.raises(paramiko.SSHException, match="a packet of"):
            client.Packets(ours).read_message()


def test_closing_wakes_who_reads_at_once(host):
    host.check("true")
    time.sleep(0.2)  # the thread reads again
    used = host.transport._all.usable().client
    start = time.monotonic()
    host.close()
    used.join(5)
    assert not used.is_alive() and time.monotonic() - start < 0.9


def test_a_connection_that_ended_right_after_an_answer_is_replaced_before_a_command_is_sent(own):
    with reached(own.address()) as host:
        for number in range(10):
            assert host.check("echo", str(number)) == f"{number}\n"
            ended = own.processes()
            tell(ended, signal.SIGKILL)
            while not all(map(gone, ended)):
                pass
