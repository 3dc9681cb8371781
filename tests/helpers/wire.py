"""The wire in front of a server, which delays, falls silent, and is cut after so many bytes.

`python wire.py PORT DELAY` is one in a process of its own, for what shall not share a processor's
time with what it delays.
"""

import collections
import contextlib
import socket
import struct
import subprocess
import sys
import threading
import time

from waiting import alive

UP, DOWN = 0, 1


class Way:
    """One direction of a connection: what is read is written `delay` seconds later."""

    def __init__(self, wire, way, source, target):
        self.wire, self.way, self.source, self.target = wire, way, source, target
        self.waiting, self.changed = collections.deque(), threading.Condition()
        for work in [self.read, self.write] if wire.delay else [self.pass_on]:
            threading.Thread(target=work, daemon=True).start()

    def part(self):
        try:
            part = self.source.recv(1 << 20)
        except OSError:
            part = b""
        if part and self.wire.last != self.way:
            self.wire.last = self.way
            self.wire.turns += self.way == UP
        # One that was taken before the silence would otherwise still get through.
        self.wire.speaking.wait()
        return part

    def pass_on(self):
        while part := self.part():
            self.put(part)
        self.put(b"")

    def read(self):
        part = b"-"
        while part:
            part = self.part()
            with self.changed:
                self.waiting.append((time.monotonic() + self.wire.delay, part))
                self.changed.notify()

    def write(self):
        part = b"-"
        while part:
            with self.changed:
                self.changed.wait_for(lambda: self.waiting)
                due, part = self.waiting.popleft()
            time.sleep(max(0.0, due - time.monotonic()))
            self.put(part)

    def put(self, part):
        allowed = self.wire.allowed(self.way, len(part))
        with contextlib.suppress(OSError):
            if part:
                self.target.sendall(part[:allowed])
            else:
                self.target.shutdown(socket.SHUT_WR)
        if part and allowed < len(part):
            self.wire.part_all()


class Wire:
    """Connections to `port`, here; `left` is how many bytes still pass in each direction.

    `turns` counts how often somebody has gone up after an answer had come down. With `every`, it is
    cut whenever so many bytes have passed in one direction.
    """

    def __init__(self, port, delay=0.0, every=None):
        self.to, self.delay, self.reset = port, delay, False
        self.every, self.left = every, [every, every]
        self.passed, self.ends = [0, 0], []
        self.connections = 0
        self.last, self.turns = DOWN, 0
        self.speaking, self.lock = threading.Event(), threading.Lock()
        self.speaking.set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.speaking.set()
        self.part_all()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.to))
                for one in (near, far):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.ends += [near, far]
                self.connections += 1
                Way(self, UP, near, far)
                Way(self, DOWN, far, near)

    def allowed(self, way, size):
        with self.lock:
            self.passed[way] += size
            if self.left[way] is None:
                return size
            allowed = min(size, self.left[way])
            self.left[way] -= allowed
            return allowed

    def cut_after(self, way, size, reset=False):
        """The next `size` bytes pass that way, and then there is no connection any more."""
        with self.lock:
            self.left[way], self.reset = size, reset

    def part_all(self):
        with self.lock:
            ends, self.ends, self.left = self.ends, [], [self.every] * 2
        for end in ends:
            with contextlib.suppress(OSError):
                if self.reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    @contextlib.contextmanager
    def silent(self):
        """Nothing passes, and nobody is told."""
        self.speaking.clear()
        try:
            yield
        finally:
            self.speaking.set()


@contextlib.contextmanager
def delayed(port, round_trip):
    """The port of a wire of its own process that makes a round trip so many seconds longer."""
    words = [sys.executable, __file__, str(port), str(round_trip / 2)]
    with alive(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as wire:
        yield int(wire.stdout.readline())


if __name__ == "__main__":
    with Wire(int(sys.argv[1]), float(sys.argv[2])) as one:
        print(one.port, flush=True)
        sys.stdin.read()
