"""PostgreSQL, asked by its own protocol (version 3): prepared statements, and nothing to install.

A driver that is to keep a database busy from one CPU can afford little for each statement: here
that is one message to send, and a look at how the answer ends.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import pkgutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from labkit.shop.answers import Asked, Listening, Refused, ShopRows, Short, Values
from labkit.shop.stock import Row, Size, StockTable

RETRY_CODES = (b"40001", b"40P01")
"""Serialization failure and deadlock: the transaction may be tried again."""
SHORT = b"DS001"
READY = b"Z\x00\x00\x00\x05"
SYNC = b"S\x00\x00\x00\x04"
EXECUTE = b"E\x00\x00\x00\x09\x00\x00\x00\x00\x00" + SYNC
LENGTH = struct.Struct("!i")
MECHANISM = b"SCRAM-SHA-256"
FIRST = "postgres"
STATEMENTS = "customers.sql"
"""All that customers ask, each statement below its name."""


class Postgres(Asked):
    """One connection; `message` and `answer` are for a loop that has many of them."""

    def __init__(
        self, at: Listening, secret: str, database: str = FIRST, options: Mapping[str, str] = {}
    ) -> None:
        super().__init__(at)
        words = {"user": at.user, "database": database, "client_encoding": "UTF8", **options}
        pairs = b"".join(f"{name}\0{value}\0".encode() for name, value in words.items())
        self._send(_framed(b"", struct.pack("!i", 196608) + pairs + b"\0"))
        self._admit(secret)
        self._prepared: dict[str, bytes] = {}

    @classmethod
    def exists(cls, at: Listening, secret: str, database: str) -> bool:
        """Whether there is a database of that name."""
        with closing(cls(at, secret, FIRST)) as first:
            return bool(first.query(f"SELECT 1 FROM pg_database WHERE datname = '{database}'"))

    @classmethod
    def make(cls, at: Listening, secret: str, database: str, like: str = "") -> None:
        """Make a database, a copy of another one if so asked; one of that name is gone then."""
        with closing(cls(at, secret, FIRST)) as first:
            first.query(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
            first.query(f"CREATE DATABASE {database} TEMPLATE {like or 'template0'}")
            first.query("CHECKPOINT")

    def prepare(self) -> None:
        """Have all that customers ask parsed and planned once."""
        statements = (pkgutil.get_data("labkit.shop", STATEMENTS) or b"").decode().split("-- ")[1:]
        for name, _, words in (statement.partition("\n") for statement in statements):
            parse = f"{name}\0{words}\0".encode() + b"\0\0"
            self._send(_framed(b"P", parse) + SYNC)
            self.receive()
            self._prepared[name] = b"\0" + name.encode() + b"\0\0\0"

    def message(self, name: str, values: Sequence[object]) -> bytes:
        """Bind values to a prepared statement and run it: one message."""
        parts = [self._prepared[name], struct.pack("!h", len(values))]
        for value in values:
            text = b"{%s}" % ",".join(map(str, value)).encode() if type(value) is list else (
                str(value).encode())  # fmt: skip
            parts += LENGTH.pack(len(text)), text
        parts.append(b"\0\0")
        body = b"".join(parts)
        return b"B" + LENGTH.pack(len(body) + 4) + body + EXECUTE

    def complete(self, content: bytes) -> bool:
        """Whether an answer has come whole; no text of a row can end like this."""
        return content[-6:-1] == READY

    def answer(self, content: bytes) -> ShopRows:
        """The rows of a whole answer; an error that it holds is raised."""
        starts: list[int] = []
        at, error, length, number = 0, None, LENGTH.unpack_from, len(content)
        while at < number:
            kind, end = content[at], at + 1 + length(content, at + 1)[0]
            if kind == 68:  # D: a row
                starts.append(at + 7)
            elif kind == 69:  # E
                error = error or _refusal(content[at + 5 : end])
            at = end
        if error:
            raise error
        return LazyRows(content, starts)

    def last_words(self, content: bytes) -> str:
        """The database's error before it hung up, if any."""
        try:
            self.answer(content)
        except (Refused, Short) as words:
            return f": {words}"
        except (struct.error, IndexError):
            pass
        return ""

    def query(self, words: str) -> ShopRows:
        """Ask once, and wait; several statements are one transaction."""
        self._send(_framed(b"Q", words.encode() + b"\0"))
        return self.receive()

    def fill(self, table: StockTable, size: Size, seed: int) -> tuple[int, int]:
        """Load a table by COPY, all of it or nothing; returns how many rows, and their sum."""
        columns = ", ".join(table.columns)
        self._send(_framed(b"Q", f"COPY {table.name} ({columns}) FROM STDIN\0".encode()))

        def send(rows: Sequence[Row]) -> None:
            part = "".join("\t".join(map(str, row)) + "\n" for row in rows)
            self._send(_framed(b"d", part.encode()))

        sums = table.counted(size, seed, send)
        self._send(_framed(b"c", b""))
        self.receive()
        return sums

    def _send(self, words: bytes) -> None:
        try:
            self.socket.sendall(words)
        except OSError as error:
            raise ConnectionError(f"the database no longer listens: {error}") from None

    def _admit(self, secret: str) -> None:
        scram = Scram(secret)
        with self.socket.makefile("rb") as stream:
            while True:
                kind, head = stream.read(1), stream.read(4)
                length = LENGTH.unpack(head)[0] - 4 if len(head) == 4 else 0
                body = stream.read(length)
                if not kind or len(body) < length:
                    raise ConnectionError("the database closed the connection before login")
                if kind == b"Z":
                    return
                if kind == b"E":
                    raise _refusal(body)
                step = LENGTH.unpack_from(body)[0] if kind == b"R" else 0
                if step in (10, 11):
                    word = scram.first() if step == 10 else scram.proof(body[4:])
                    self._send(_framed(b"p", word))
                elif step == 3:
                    self._send(_framed(b"p", secret.encode() + b"\0"))
                elif step not in (0, 12):
                    raise Refused("28000", f"it asks for an unknown login method: {step}")


def _framed(kind: bytes, body: bytes) -> bytes:
    return kind + LENGTH.pack(len(body) + 4) + body


class LazyRows:
    """Rows that are taken apart when they are looked at: customers only count what they browse."""

    __slots__ = ("said", "starts")

    def __init__(self, said: bytes, starts: list[int]) -> None:
        self.said, self.starts = said, starts

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, nth: int) -> Values:
        return _row(self.said, self.starts[nth])

    def __iter__(self) -> Iterator[Values]:
        return (_row(self.said, start) for start in self.starts)


def _row(content: bytes, at: int) -> Values:
    values: list[bytes | None] = []
    for _ in range(content[at - 2] << 8 | content[at - 1]):
        (length,) = LENGTH.unpack_from(content, at)
        at += 4
        if length < 0:
            values.append(None)
        else:
            values.append(content[at : at + length])
            at += length
    return tuple(values)


def _refusal(body: bytes) -> Exception:
    fields = {part[:1]: part[1:] for part in body.split(b"\0") if part}
    code, text = fields.get(b"C", b""), fields.get(b"M", b"").decode("utf-8", "replace")
    if code == SHORT:
        return Short(text)
    return Refused(code.decode(), text, again=code in RETRY_CODES)


class Scram:
    """SCRAM-SHA-256 (RFC 5802, RFC 7677), which PostgreSQL takes for passwords."""

    def __init__(self, secret: str) -> None:
        self.secret = secret.encode()
        self.bare = b"n=,r=" + base64.b64encode(os.urandom(18))

    def first(self) -> bytes:
        """The first message of the login."""
        content = b"n,," + self.bare
        return MECHANISM + b"\0" + LENGTH.pack(len(content)) + content

    def proof(self, challenge: bytes) -> bytes:
        """Proof that we know the password, without sending it."""
        fields = dict(part.split(b"=", 1) for part in challenge.split(b","))
        salt_key = hashlib.pbkdf2_hmac(
            "sha256", self.secret, base64.b64decode(fields[b"s"]), int(fields[b"i"])
        )
        key = hmac.digest(salt_key, b"Client Key", "sha256")
        last = b"c=biws,r=" + fields[b"r"]
        signature = hmac.digest(
            hashlib.sha256(key).digest(), b",".join((self.bare, challenge, last)), "sha256"
        )
        proof = int.from_bytes(key, "big") ^ int.from_bytes(signature, "big")
        return last + b",p=" + base64.b64encode(proof.to_bytes(len(key), "big"))
