"""A TCP relay in front of a server: it delays both ways, and cuts after so many bytes.

Run as a process of its own (`delayed`), so that it does not share an interpreter with what it
delays; the delay alone is added, never a limit on the rate.
"""

import collections
import contextlib
import socket
import subprocess
import sys
import threading
import time

CHUNK = 1 << 20


class Way:
    """One direction of a connection: what is read is written `delay` seconds later."""

    def __init__(self, source, target, delay):
        self.source, self.target, self.delay = source, target, delay
        self.waiting, self.changed = collections.deque(), threading.Condition()

    def start(self):
        for work in (self.read, self.write):
            threading.Thread(target=work, daemon=True).start()

    def read(self):
        part = b"-"
        while part:
            try:
                part = self.source.recv(CHUNK)
            except OSError:
                part = b""
            with self.changed:
                self.waiting.append((time.monotonic() + self.delay, part))
                self.changed.notify()

    def write(self):
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.waiting)
                due, part = self.waiting.popleft()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if not part:
                    return self.target.shutdown(socket.SHUT_WR)
                self.target.sendall(part)
            except OSError:
                return None


def serve(listener, port, delay):
    while True:
        near, _ = listener.accept()
        far = socket.create_connection(("127.0.0.1", port))
        for one in (near, far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        Way(near, far, delay).start()
        Way(far, near, delay).start()


@contextlib.contextmanager
def delayed(port, round_trip):
    """The port of a relay to `port` of this machine that adds a round trip, in seconds."""
    words = [sys.executable, __file__, str(port), str(round_trip / 2)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


class Cut:
    """A relay whose first connections are cut: each after so many bytes, both ways together."""

    def __init__(self, port, after):
        self.target, self.after, self.cuts = port, list(after), 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                left = [self.after.pop(0) if self.after else float("inf")]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self.pass_on, args=(*pair, left), daemon=True).start()

    def pass_on(self, source, target, left):
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 16):
                target.sendall(part[: max(0, min(len(part), left[0]))])
                left[0] -= len(part)
                if left[0] <= 0:
                    self.cuts += 1
                    break
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def main():
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        print(listener.getsockname()[1], flush=True)
        serve(listener, int(sys.argv[1]), float(sys.argv[2]))


if __name__ == "__main__":
    main()
