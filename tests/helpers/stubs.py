"""Servers that are no sshd: one of paramiko that does what it is told, some that never answer."""

import socket
import threading
from contextlib import contextmanager

import paramiko
from sshd import key

from labkit.ssh import connection, way
from labkit.ssh.address import Address
from labkit.ssh.known_hosts import Name


def hurry(monkeypatch):
    """Wait a tenth of the time, so that a test need not."""
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 1.5)
    monkeypatch.setattr("labkit.ssh.login.AUTH_SECONDS", 1.5)
    monkeypatch.setattr(way, "CHANNEL_SECONDS", 1.5)


class Stub(paramiko.ServerInterface):
    """Lets everybody in, and remembers what was asked for."""

    def __init__(self):
        self.asked = []

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_forward_agent_request(self, channel):
        self.asked.append("agent forwarding")
        return True


@contextmanager
def stub(folder, **settings):
    """A server of paramiko's, for what no sshd does: gives its port and, once served, transport."""
    key(folder, "stubkey")
    served = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            client, _ = listening.accept()
            server = paramiko.Transport(client, **settings)
            server.add_server_key(
                paramiko.Ed25519Key.from_private_key_file(str(folder / "stubkey"))
            )
            server.stub = Stub()
            served.append(server)
            server.start_server(server=server.stub)

        threading.Thread(target=serve, daemon=True).start()
        port = listening.getsockname()[1]
        (folder / "stubknown").write_text(f"[127.0.0.1]:{port} {key(folder, 'stubkey')}\n")
        try:
            yield port, served
        finally:
            for one in served:
                one.close()


def stub_target(own, folder, port):
    return own.target(folder / "stubknown", known_as=Name("127.0.0.1", port))


@contextmanager
def answering(answer):
    """Something that listens and is no sshd."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held = []

        def serve():
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                held.append(client)
                answer(client)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield Address("box1", "127.0.0.1", listening.getsockname()[1], key="/absent"), held
        finally:
            # Without this, accept() goes on in its thread.
            listening.shutdown(socket.SHUT_RDWR)
            for one in held:
                one.close()
