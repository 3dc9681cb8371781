"""Databases of shops for tests, on loopback, that can be killed and started again."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from waiting import free_port

from labkit.shop import kit
from labkit.shop.answers import Listening, Refused
from labkit.shop.postgres import Postgres

PROGRAMS = ("mount", "umount")


class Served:
    """One database in a folder of its own; on the same port each time that it is started."""

    def __init__(self, place):
        self.folder = Path(place, "postgresql")
        self.port = free_port()
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
        words = ["sh", kit.SERVE_DATABASE, self.folder, "127.0.0.1",
                 str(self.port), durability, "32", "40"]  # fmt: skip
        with self.log.open("a") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError, Refused):
                Postgres(self.at, self.secret).close()
                return
            assert self.process.poll() is None and time.monotonic() < until, self.log.read_text()
            time.sleep(0.05)

    @property
    def pid(self):
        return int((self.folder / "cluster/postmaster.pid").read_text().split()[0])

    def kill(self):
        """As a machine that loses its power does to a process: without a word."""
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait(30)

    def write_seldom(self):
        """It would write its log each fifth of a second, at times just before a kill."""
        with (self.folder / "cluster/postgresql.conf").open("a") as settings:
            settings.write("wal_writer_delay=10s\nwal_writer_flush_after=1GB\nwal_buffers=16MB\n")

    def again(self):
        """Start it again, whether or not it is still there."""
        if self.process.poll() is None:
            self.stop()
        self.start()

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def words(self, verb, *options, secret=None):
        own = self.folder / "secret" if secret is None else secret
        return [sys.executable, self.program, verb, "--at", str(self.at),
                "--secret", own, *map(str, options)]  # fmt: skip

    def drive(self, *options, **given):
        return subprocess.run(
            self.words("drive", *options, **given), capture_output=True, text=True
        )

    def driving(self, *options):
        """A driver that measures already."""
        found = subprocess.Popen(
            self.words("drive", *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while not found.stdout.readline().startswith("measuring "):
            assert found.poll() is None, found.stderr.read()
        return found


@contextlib.contextmanager
def place():
    """A folder that others may go through: the database runs as somebody else."""
    if not Path("/usr/lib/postgresql").exists():
        pytest.skip("postgresql is not installed")
    found = tempfile.mkdtemp(prefix="labkit-shop-", dir="/var/tmp")
    os.chmod(found, 0o711)
    try:
        yield Path(found)
    finally:
        removed(found)


# A server that was just told to end still takes its own files away.
def removed(folder):
    for _ in range(50):
        with contextlib.suppress(OSError):
            return shutil.rmtree(folder)
        time.sleep(0.1)
    return shutil.rmtree(folder)


@contextlib.contextmanager
def served(at=None):
    with contextlib.ExitStack() as stack:
        where = at or stack.enter_context(place())
        found = Served(where)
        try:
            found.start()
            yield found
        finally:
            with contextlib.suppress(OSError):
                found.stop()


@contextlib.contextmanager
def small_disk(megabytes):
    """A disk of our own, in memory: what is on it is gone with it."""
    with place() as folder:
        words = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}M,mode=711", "shop", folder]
        subprocess.run(words, check=True)
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def checked(text):
    (line,) = [line for line in text.splitlines() if line.startswith("checked ")]
    return json.loads(line.partition(" ")[2])


def ended(text):
    (line,) = [line for line in text.splitlines() if line.startswith("end ")]
    return json.loads(line.partition(" ")[2])
