"""A relay in front of an sshd that can cut, freeze or break off what it carries."""

import contextlib
import random
import selectors
import socket
import struct
import threading
import time
from dataclasses import replace

from sshd import known

HOW = ("reset", "close", "freeze", "half", "session")


class Relay:
    """Listens on `port` and carries bytes to an sshd and back, until it is told otherwise."""

    def __init__(self, target):
        self._target, self._pairs, self._lock = target, set(), threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, how, after=0):
        """End all connections once `after` more bytes have passed; those made later are whole."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            pair.end(how, after)

    def close(self):
        self._listener.close()
        self.cut("close")

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                pair = _Pair(near, socket.create_connection(("127.0.0.1", self._target)))
                with self._lock:
                    self._pairs.add(pair)
                threading.Thread(target=pair.carry, daemon=True).start()


class _Pair:
    def __init__(self, near, far):
        self._other, self._left, self._how = {near: far, far: near}, None, "close"
        for one in self._other:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def end(self, how, after):
        self._how, self._left = how, after

    def carry(self):
        with contextlib.suppress(OSError), selectors.DefaultSelector() as ready:
            for one in self._other:
                ready.register(one, selectors.EVENT_READ)
            while self._left is None or self._left > 0:
                for key, _ in ready.select(0.01):
                    part = key.fileobj.recv(65536)
                    if not part:
                        return self._close()
                    if self._left is not None:
                        part, self._left = part[: max(self._left, 0)], self._left - len(part)
                    self._other[key.fileobj].sendall(part)
        return self._stop()

    def _stop(self):
        near, far = self._other
        with contextlib.suppress(OSError):
            if self._how == "freeze":  # nothing passes, and nobody is told
                time.sleep(1)
            if self._how == "half":  # one way only
                far.shutdown(socket.SHUT_WR)
                time.sleep(0.2)
            if self._how in ("reset", "freeze"):
                for one in (near, far):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._close()

    def _close(self):
        for one in self._other:
            one.close()


@contextlib.contextmanager
def relayed(server):
    """The address of an sshd through a relay, and the relay."""
    relay = Relay(server.port)
    lines = (server.folder / f"host_{kind}.pub" for kind in ("ed25519", "rsa"))
    keys = server.folder / f"known_{relay.port}"
    keys.write_text("".join(known(relay.port, line.read_text()) for line in lines))
    try:
        yield replace(server.address(), port=relay.port, known_hosts=(str(keys),)), relay
    finally:
        relay.close()


@contextlib.contextmanager
def cutting(relay, sessions, moments, seed):
    """Cut at these moments (seconds from now), each time another way; yields what was done."""
    pick, done, stop = random.Random(seed), [], threading.Event()

    def cut_all():
        start = time.monotonic()
        for moment in moments:
            if stop.wait(max(0.0, start + moment - time.monotonic())):
                return
            how = pick.choice(HOW)
            if how == "session":
                sessions()
            else:
                # Now, or inside of a packet.
                relay.cut(how, after=pick.choice([0, pick.randrange(1, 3000)]))
            done.append(how)

    cutter = threading.Thread(target=cut_all)
    cutter.start()
    try:
        yield done
    finally:
        stop.set()
        cutter.join()
