"""Databases of shops for tests, on loopback, that can be killed and started again."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labkit import shop
from labkit.shop import kit
from labkit.shop.answers import Listening, Refused
from labkit.shop.filling import engine_of

SCRIPTS = Path(shop.__file__).parent


class Served:
    """One database in a folder of its own; on the same port each time that it is started."""

    def __init__(self, engine, place):
        self.engine, self.folder = engine, Path(place, engine)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.program = Path(place, kit.name())
        self.program.write_bytes(kit.packed())
        self.ledger = Path(place, "ledger")
        self.log = Path(place, "log")
        self.process = None

    @property
    def at(self):
        return Listening("127.0.0.1", self.port)

    @property
    def secret(self):
        return (self.folder / "secret").read_text()

    def start(self, durability="durable"):
        words = ["sh", SCRIPTS / f"serve_{self.engine}.sh", self.folder, "127.0.0.1",
                 str(self.port), durability, "32", "40"]  # fmt: skip
        with self.log.open("a") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError, Refused):
                engine_of(self.engine)(self.at, self.secret).close()
                return
            assert self.process.poll() is None and time.monotonic() < until, self.log.read_text()
            time.sleep(0.05)

    def kill(self):
        """As a machine that loses its power does to a process: without a word."""
        pid = (self.folder / "cluster" / PID[self.engine]).read_text().split()[0]
        os.kill(int(pid), signal.SIGKILL)
        self.process.wait(30)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def words(self, verb, *options, secret=None):
        own = self.folder / "secret" if secret is None else secret
        return [sys.executable, self.program, verb, "--engine", self.engine, "--at", str(self.at),
                "--secret", own, *map(str, options)]  # fmt: skip

    def drive(self, *options, **given):
        return subprocess.run(
            self.words("drive", *options, **given), capture_output=True, text=True
        )


PID = {"postgresql": "postmaster.pid", "mariadb": "pid"}


@contextlib.contextmanager
def served(engine):
    place = tempfile.mkdtemp(prefix="labkit-shop-", dir="/var/tmp")
    os.chmod(place, 0o711)  # the database runs as somebody else
    found = Served(engine, place)
    try:
        found.start()
        yield found
    finally:
        with contextlib.suppress(OSError):
            found.stop()
        shutil.rmtree(place)


def checked(text):
    (line,) = [line for line in text.splitlines() if line.startswith("checked ")]
    return json.loads(line.partition(" ")[2])


def ended(text):
    (line,) = [line for line in text.splitlines() if line.startswith("end ")]
    return json.loads(line.partition(" ")[2])
