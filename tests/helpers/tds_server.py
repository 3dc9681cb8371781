"""What stands in for SQL Server: TDS 7.4 as documented, with PostgreSQL behind it.

It answers one connection by a thread: the agreement on TLS, the login, batches, sp_executesql, bulk
loads and attention, with real token streams. Nobody has compared it with SQL Server itself; other
clients than ours are.
"""

import argparse
import contextlib
import re
import socketserver
import ssl
import struct
import subprocess
import tempfile
from pathlib import Path

from postgres_behind import NUMBERS, PRELUDE, Behind, Gone, Wrong
from tds_tokens import (
    COLLATION,
    DONE_ATTENTION,
    DONE_COUNT,
    DONE_ERROR,
    DONE_MORE,
    Given,
    change,
    counted,
    done,
    notice,
    told_column,
    told_row,
)
from tsql import Session

from labkit.shop.answers import Listening, Refused
from labkit.shop.stock import StockTable

PROGRAMS = ("openssl",)

BATCH, RPC, ATTENTION, BULK, LOGIN, PRELOGIN = 1, 3, 6, 7, 16, 18
INSERT_BULK = re.compile(r"\s*insert\s+bulk\s+(?:\[?dbo\]?\.)?\[?(\w+)\]?\s*\((.*?)\)\s*(with.*)?$",
                         re.I | re.S)  # fmt: skip


class Connection(socketserver.BaseRequestHandler):
    """One client."""

    def handle(self):
        self.tls, self.size, self.left, self.session, self.bulk = None, 4096, b"", None, None
        with contextlib.suppress(OSError, EOFError, Gone):
            if self._greeted():
                while True:
                    self._answer(*self._message())
        if self.session:
            self.session.close()

    def _greeted(self):
        kind, body = self._message()
        if kind != PRELOGIN or self.server.encryption == "strict":
            return False
        wanted = {"login": 0, "all": 3, "none": 2}[self.server.encryption]
        asked = {token: body[start : start + length] for token, start, length in _options(body)}
        if self.server.encryption == "login" and asked[1] in (b"\1", b"\3"):
            wanted = 1
        version = bytes([self.server.version, 0, 0x10, 0, 0, 0])
        answer = struct.pack(">BHHBHHB", 0, 11, 6, 1, 17, 1, 0xFF) + version + bytes([wanted])
        self._send(answer)
        if wanted != 2:
            self._agree()
        kind, body = self._message()
        if wanted == 0:
            self.tls = None
        return self._let_in(body)

    def _agree(self):
        come, go = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.server.context.wrap_bio(come, go, server_side=True)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                if words := go.read():
                    self._send(words, PRELOGIN)
                come.write(self._message()[1])
        if words := go.read():
            self._send(words, PRELOGIN)
        self.tls = (tls, come, go)

    def _let_in(self, body):
        (size,) = struct.unpack_from("<I", body, 8)
        user, secret, database = (_login_text(body, 40), _login_secret(body), _login_text(body, 68))
        try:
            self.session = Session(
                self.server.behind, user, secret, database, self.server.properties
            )
        except Refused as no:
            if no.code.startswith("57P03"):
                self._refuse(18401, 1, 14, f"Login failed for user '{user}'. Reason: Server is in "
                             "script upgrade mode.")  # fmt: skip
            else:
                self._refuse(18456, 1, 14, f"Login failed for user '{user}'.")
            return False
        except Wrong as no:
            failed = notice(0xAA, 18456, 1, 14, f"Login failed for user '{user}'.")
            self._send(notice(0xAA, no.number, no.state, no.kind, str(no)) + failed + done(2))
            return False
        except ConnectionError:
            return False
        old, self.size = self.size, max(512, min(32767, size))
        answer = change(1, counted(self.session.database), counted("master"))
        answer += notice(0xAB, 5701, 2, 0, f"Changed database context to '{database}'.")
        answer += change(7, b"\5" + COLLATION, b"\0") + change(2, counted("us_english"))
        name = counted("Microsoft SQL Server\0\0")
        body = b"\1\x74\0\0\4" + name + bytes([self.server.version, 0, 0x10, 0])
        answer += b"\xad" + struct.pack("<H", len(body)) + body
        answer += change(4, counted(str(self.size)), counted(str(old)))
        sizes, self.size = self.size, old
        self._send(answer + done(0))
        self.size = sizes
        return True

    def _refuse(self, number, state, kind, text):
        self._send(notice(0xAA, number, state, kind, text) + done(DONE_ERROR))

    def _answer(self, kind, body):
        if kind == ATTENTION:
            return self._send(done(DONE_ATTENTION))
        try:
            if kind == BULK:
                return self._send(done(DONE_COUNT, self._load(body)))
            given = Given(body, struct.unpack_from("<I", body)[0])
            if kind == BATCH:
                words = given.body[given.at :].decode("utf-16-le")
                if found := INSERT_BULK.match(words):
                    self.bulk = found
                    return self._send(done(0))
                results = self.session.run(words)
                return self._send(self._told(results, 0xFD) or done(0))
            if kind == RPC:
                return self._send(self._called(given))
            raise Wrong(8009, f"a request of a kind that is not known here: {kind}")
        except Wrong as wrong:
            told = getattr(wrong, "before", b"")
            self._send(told + notice(0xAA, wrong.number, wrong.state, wrong.kind, str(wrong))
                       + done(DONE_ERROR, token=0xFE if kind == RPC else 0xFD))  # fmt: skip

    def _called(self, given):
        length = given.number(2)
        name = given.number(2) if length == 0xFFFF else given.take(2 * length).decode("utf-16-le")
        given.take(2)
        if name not in (10, "sp_executesql"):
            raise Wrong(2812, f"Could not find stored procedure '{name}'.", 62)
        values = []
        while given.at < len(given.body) and given.body[given.at] != 0x80:
            named, _ = given.text(), given.number()
            values.append((named, given.value(given.kind())))
        words, declared = values[0][1], values[1][1] if len(values) > 1 else ""
        kinds = [one.split(None, 1) for one in re.split(r",\s*(?=@)", declared)] if declared else []
        variables = {one[1:].lower(): (kind, value) for (one, kind), (_, value) in
                     zip(kinds, values[2:], strict=True)}  # fmt: skip
        told = self._told(self.session.run(words, variables), 0xFF, more=True)
        return told + b"\x79" + bytes(4) + done(0, token=0xFE)

    def _told(self, results, token, more=False):
        parts = []
        try:
            for result in results:
                if result.columns:
                    parts.append(b"\x81" + struct.pack("<H", len(result.columns)))
                    parts += map(told_column, result.columns)
                    parts += (told_row(result.columns, row) for row in result.rows)
                parts.append(done(DONE_COUNT | DONE_MORE, result.many, token))
        except Wrong as wrong:
            wrong.before = b"".join(parts)
            raise
        if parts and not more:
            parts[-1] = done(DONE_COUNT, struct.unpack_from("<Q", parts[-1], 5)[0], token)
        return b"".join(parts)

    def _load(self, body):
        given, kinds, names = Given(body, 1), [], []
        for _ in range(given.number(2)):
            given.take(6)
            kinds.append(given.kind())
            names.append(given.text())
        asked = [one.split()[0].strip("[]") for one in re.sub(r"\(.*?\)", "",
                 self.bulk[2]).split(",")]  # fmt: skip
        if [one.lower() for one in names] != [one.lower() for one in asked]:
            raise Wrong(4819, f"the columns are {names}, and {asked} were announced")

        def rows():
            while given.at < len(body) and given.body[given.at] == 0xD1:
                given.take(1)
                yield tuple(given.value(kind) for kind in kinds)
            if given.at >= len(body) or given.body[given.at] not in (0xFD, 0xFE, 0xFF):
                raise Wrong(4804, "a bulk load that is cut short")

        first = next(nth for nth, kind in enumerate(kinds) if kind[0] not in (0xE7, 0xA7))
        table = StockTable(self.bulk[1], tuple(names), names[first], rows)
        try:
            return self.session.behind.fill(table)[0]
        except Refused as no:
            raise Wrong(NUMBERS.get(no.code, 50000), str(no)) from None

    def _message(self):
        body = b""
        while True:
            kind, status, length = struct.unpack(">BBH", self._exactly(4))
            self._exactly(4)
            body += self._exactly(length - 8)
            if status & 1:
                return kind, body

    def _exactly(self, many):
        while len(self.left) < many:
            part = self.request.recv(1 << 16)
            if not part:
                raise EOFError
            if not self.tls:
                self.left += part
                continue
            tls, come, _ = self.tls
            come.write(part)
            with contextlib.suppress(ssl.SSLWantReadError):
                while more := tls.read(1 << 16):
                    self.left += more
        found, self.left = self.left[:many], self.left[many:]
        return found

    def _send(self, body, kind=4):
        room = self.size - 8
        parts = [body[at : at + room] for at in range(0, len(body), room)] or [b""]
        words = b"".join(
            struct.pack(">BBHHBB", kind, nth == len(parts) - 1, len(part) + 8, 51, nth + 1 & 255, 0)
            + part
            for nth, part in enumerate(parts)
        )
        if self.tls:
            tls, _, go = self.tls
            for at in range(0, len(words), 1 << 14):
                tls.write(words[at : at + (1 << 14)])
            words = go.read()
        self.request.sendall(words)


def _options(body):
    at = 0
    while body[at] != 0xFF:
        yield struct.unpack_from(">BHH", body, at)
        at += 5


def _login_text(body, at):
    start, many = struct.unpack_from("<HH", body, at)
    return body[start : start + 2 * many].decode("utf-16-le")


def _login_secret(body):
    start, many = struct.unpack_from("<HH", body, 44)
    shown = (one ^ 0xA5 for one in body[start : start + 2 * many])
    return bytes(one << 4 & 0xF0 | one >> 4 for one in shown).decode("utf-16-le")


class StandIn(socketserver.ThreadingTCPServer):
    """Listens until it is killed."""

    allow_reuse_address = daemon_threads = True
    request_queue_size = 128


def context(folder):
    """A certificate that the server has made for itself, as SQL Server does."""
    key, shown = folder / "key.pem", folder / "shown.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=stand-in",
             "-days", "2", "-keyout", key, "-out", shown]  # fmt: skip
    subprocess.run(words, check=True, capture_output=True)
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.maximum_version = ssl.TLSVersion.TLSv1_2
    found.load_cert_chain(shown, key)
    return found


def main():
    """Serve; the database behind it must be there."""
    words = argparse.ArgumentParser()
    words.add_argument("--port", type=int, required=True)
    words.add_argument("--behind", type=int, required=True)
    words.add_argument("--secret", type=Path, required=True)
    words.add_argument("--encryption", default="login")
    words.add_argument("--version", type=int, default=16)
    words.add_argument("--full-text", action="store_true")
    asked = words.parse_args()
    with contextlib.closing(
        Behind(Listening("127.0.0.1", asked.behind), asked.secret.read_text())
    ) as first:
        first.query(PRELUDE)
    with tempfile.TemporaryDirectory() as folder:
        made = context(Path(folder))
    with StandIn(("127.0.0.1", asked.port), Connection) as server:
        server.encryption, server.version = asked.encryption, asked.version
        server.context, server.behind = made, asked.behind
        server.properties = {
            "ProductVersion": f"{asked.version}.0.1.0", "Edition": "stand-in of tests",
            "IsFullTextInstalled": int(asked.full_text),
        }  # fmt: skip
        server.serve_forever()


if __name__ == "__main__":
    main()
