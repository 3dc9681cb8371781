"""The management server: its start, which grows with its inventory, and the pages that it serves.

At a start, PostgreSQL recovers the inventory. The server reads and checks every row, and has the
simulator make each machine. Then it compares what that one lists. Until then it serves no list.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from labkit.center.simulator import SoapSession, fill, simulating
from labkit.shop.answers import Listening, Refused
from labkit.shop.postgres import Postgres

PROGRAMS = ("sh",)

WEB, DATABASE, SIMULATOR = 20_201, 20_202, 20_203
"""Its ports; the last two listen to the host itself alone."""
READY_SECONDS, LISTED_SECONDS, PAUSE_SECONDS = 300.0, 10.0, 0.02
CHANGE = "change-"
NAME_OF_CHANGE = re.compile(CHANGE + r"\d{1,20}", re.ASCII)
IP_FREEBIND = 15
"""Of linux/in.h; Python has no name for it."""
LEAST_MB = 64
"""Of the shared disk: what a database is made of, and its log."""
BUFFERS_MB, CONNECTIONS = 32, 40
OK, MADE, ACCEPTED, UNKNOWN, FAILED, UNAVAILABLE = 200, 201, 202, 404, 500, 503
TABLES = """\
CREATE TABLE hosts (id int PRIMARY KEY);
CREATE TABLE vms (id serial PRIMARY KEY, name text UNIQUE NOT NULL, checked text NOT NULL);
INSERT INTO hosts SELECT generate_series(1, {hosts});
INSERT INTO vms (name, checked) SELECT name, md5(name)
    FROM (SELECT 'vm-' || n AS name FROM generate_series(1, {vms}) n) made;"""


class Broken(Exception):
    """The server cannot work: its database, its inventory or the simulator is not as it must be."""


@dataclass(frozen=True)
class CenterPlace:
    """The files of a server: a folder of the shared disk, the script that serves it, and a log."""

    folder: str
    script: str
    simulator: str
    log: str
    host: str

    def note(self, *words: str) -> None:
        """Add a line to the host's log: what was reached, and when."""
        with open(self.log, "a") as log:
            log.write(f"{' '.join(words)} {time.time():.4f}\n")

    @property
    def asked(self) -> Postgres:
        """A new connection to the database."""
        secret = Path(self.folder, "secret").read_text()
        return Postgres(Listening("127.0.0.1", DATABASE, "shop"), secret)

    @contextmanager
    def database(self) -> Iterator[None]:
        """PostgreSQL on the shared disk, once it has recovered; it is shut down at the end."""
        disk = Path(self.folder).parent
        if (free := shutil.disk_usage(disk).free >> 20) < LEAST_MB:
            raise Broken(f"{free} MB are free on the shared disk {disk}, it takes {LEAST_MB}")
        # What a killed host left names a process that is none of this host's.
        Path(self.folder, "cluster", "postmaster.pid").unlink(missing_ok=True)
        words = ["sh", self.script, self.folder, "127.0.0.1", str(DATABASE),
                 "durable", str(BUFFERS_MB), str(CONNECTIONS)]  # fmt: skip
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            lines: list[str] = []
            reader = threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True)
            reader.start()
            try:
                self._await(process, lines)
                yield
            finally:
                process.terminate()
                process.wait()
                reader.join(PAUSE_SECONDS)

    def _await(self, process: subprocess.Popen[str], lines: list[str]) -> None:
        until = time.monotonic() + READY_SECONDS
        while process.poll() is None and time.monotonic() < until:
            with suppress(OSError, Refused, ValueError):
                self.asked.close()
                return
            time.sleep(PAUSE_SECONDS)
        time.sleep(PAUSE_SECONDS)
        raise Broken(f"the database does not start: {''.join(lines[-5:])}")

    def inventory(self) -> tuple[int, list[str]]:
        """The number of hosts, and the names of all machines; each row is checked."""
        with closing(self.asked) as database:
            hosts = len(database.query("SELECT id FROM hosts"))
            rows = [(name or b"", checksum or b"") for name, checksum in database.query(
                "SELECT name, checked FROM vms ORDER BY id")]  # fmt: skip
        for name, checksum in rows:
            if hashlib.md5(name).hexdigest() != checksum.decode():
                raise Broken(f"a row of the inventory is damaged: {name.decode()}")
        return hosts, [name.decode() for name, _ in rows]


def make(place: CenterPlace, hosts: int, vms: int) -> None:
    """Make the database and its inventory, which is a part of no start."""
    with place.database(), closing(place.asked) as database:
        database.query(TABLES.format(hosts=hosts, vms=vms))
        database.query("CHECKPOINT")


class Center:
    """A server that starts, serves, and starts again when it is asked to reboot."""

    def __init__(self, place: CenterPlace) -> None:
        self.place = place
        self.has_database = self.full = False
        self.reboot = threading.Event()
        self.changing = threading.Lock()

    def run(self, address: str) -> None:
        """Serve until a signal ends it."""
        pages = type("Own", (CenterPages,), {"center": self})
        with _Server((address, WEB), pages) as web:
            threading.Thread(target=web.serve_forever, daemon=True).start()
            while True:
                self.place.note("boot")
                self.reboot.clear()
                self._once()

    def _once(self) -> None:
        with self.place.database():
            self.place.note("database")
            self.has_database = True
            hosts, names = self.place.inventory()
            with simulating(self.place.simulator, SIMULATOR, hosts):
                fill(SIMULATOR, names)
                self._insist(hosts, names)
                self.full = True
                self.place.note("ready")
                self.reboot.wait()
                self.has_database = self.full = False

    def _insist(self, hosts: int, names: list[str]) -> None:
        with_them = SoapSession(SIMULATOR)
        until = time.monotonic() + LISTED_SECONDS
        # With one CPU the simulator answers before it has made the last of them.
        while len(names_listed := sorted(with_them.names("VirtualMachine"))) < len(names):
            if time.monotonic() > until:
                break
            time.sleep(PAUSE_SECONDS)
        if names_listed != sorted(names) or len(with_them.names("HostSystem")) != hosts:
            raise Broken(f"the inventory has {len(names)} machines, {len(names_listed)} are listed")

    def listed(self) -> dict[str, Any]:
        """The inventory as the simulator has it now."""
        session = SoapSession(SIMULATOR)
        names = session.names("VirtualMachine")
        changes = [name for name in names if name.startswith(CHANGE)]
        return {"host": self.place.host, "hosts": len(session.names("HostSystem")),
                "vms": len(names), "changes": changes}  # fmt: skip

    # Committed before it is acknowledged, and made before anyone can list it.
    def change(self, name: str) -> None:
        """Have one more machine."""
        checksum = hashlib.md5(name.encode()).hexdigest()
        with self.changing, closing(self.place.asked) as database:
            database.query(f"INSERT INTO vms (name, checked) VALUES ('{name}', '{checksum}')")
            fill(SIMULATOR, [name])


class CenterPages(BaseHTTPRequestHandler):
    """The pages: `/login`, `/list`, `/change?name=NAME` and `/reboot`."""

    protocol_version = "HTTP/1.1"
    center: Center

    def do_GET(self) -> None:
        """Answer one request; what is not there yet is unavailable."""
        parts = urlsplit(self.path)
        try:
            self._say(*self._answer(parts.path.strip("/"), parse_qs(parts.query)))
        except Exception as error:
            self._say(FAILED if self.center.full else UNAVAILABLE, {"error": str(error)})

    def _answer(self, page: str, parameters: dict[str, list[str]]) -> tuple[int, Any]:
        center = self.center
        if page == "reboot":
            center.reboot.set()
            return ACCEPTED, {"at": time.time()}
        if page not in ("login", "list", "change"):
            return UNKNOWN, {}
        if not (center.has_database if page == "login" else center.full):
            return UNAVAILABLE, {}
        if page == "login":
            center.place.asked.close()
            return OK, {"host": center.place.host}
        if page == "list":
            return OK, center.listed()
        name = parameters.get("name", [""])[0]
        if not NAME_OF_CHANGE.fullmatch(name):
            return UNKNOWN, {}
        center.change(name)
        return MADE, {}

    def log_message(self, *_: Any) -> None:
        """Say nothing of each request."""

    def _say(self, code: int, content: Any) -> None:
        body = json.dumps(content).encode()
        with suppress(OSError):
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    # A machine that boots begins it before it has its address.
    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        super().server_bind()


def serve(place: CenterPlace, address: str) -> None:
    """Serve; what ends it is the last line of its log."""
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(SystemExit()))
    try:
        Center(place).run(address)
    except Exception as error:
        place.note("failed", " ".join(str(error).split()))
        raise
