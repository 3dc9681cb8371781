"""MariaDB and MySQL, asked by their own protocol (version 10, text), with nothing to install."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import ClassVar

from labkit.shop.answers import Listening, Refused, Rowset, ShopRows, Short, Values, connected
from labkit.shop.stock import COLUMNS, Row, StockTable, counted, script

FIRST = "information_schema"
NATIVE = b"mysql_native_password"
ABILITIES = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x10000 | 0x20000 | 0x80000
"""Long passwords, a database named at once, protocol 4.1, transactions, secure logins, several
statements, several results, logins by a named plugin."""
MORE_RESULTS = 0x8
"""Of the state that an answer ends with: another result follows."""
LARGEST_PACKET, UTF8MB4 = 1 << 24, 45
SHORT = "DS001"
RETRY_CODES = (1205, 1213)
"""Waited too long for a lock, and deadlock: the transaction may be tried again."""
NEW = ", ".join(COLUMNS["customers"][0][1:])
SELECT = "SELECT prod_id, title, actor, price FROM products WHERE"
TABLES = (*COLUMNS, "reorder", "loaded")


def quoted(value: object) -> str:
    """A value as SQL writes it; lists are JSON."""
    if isinstance(value, int):
        return str(value)
    text = str(value).replace("\\", "\\\\").replace("'", "''")
    return f"'{text}'"


def _login(name: object, password: object) -> str:
    return ("SELECT c.customerid, p.title, l.title FROM customers c "
            "LEFT JOIN cust_hist h ON h.customerid = c.customerid "
            "LEFT JOIN products p ON p.prod_id = h.prod_id "
            "LEFT JOIN products l ON l.prod_id = p.common_prod_id "
            f"WHERE c.username = {quoted(name)} AND c.password = {quoted(password)} "
            "ORDER BY h.orderid DESC LIMIT 10")  # fmt: skip


def _new(*fields: object) -> str:
    values = ", ".join(map(quoted, fields))
    return f"INSERT IGNORE INTO customers ({NEW}) VALUES ({values}) RETURNING customerid"


def _words(column: str) -> Callable[..., str]:
    def ask(words: object, limit: object) -> str:
        all_of = quoted(" ".join(f"+{word}" for word in str(words).split()))
        return f"{SELECT} MATCH ({column}) AGAINST ({all_of} IN BOOLEAN MODE) LIMIT {limit}"

    return ask


ASKS: Mapping[str, Callable[..., str]] = {
    "login": _login,
    "new": _new,
    "category": lambda of, most: f"{SELECT} category = {of} AND special = 1 LIMIT {most}",
    "actor": _words("actor"),
    "title": _words("title"),
    "prices": lambda ids: (
        f"SELECT prod_id, price FROM products WHERE prod_id IN ({', '.join(map(str, ids))})"
    ),
    "purchase": lambda *given: f"CALL purchase({', '.join(map(quoted, given))})",
}


class MariaDb:
    """One connection; `message` and `answer` are for a loop that has many of them."""

    about: ClassVar[str] = "SELECT concat('MariaDB ', version())"

    def __init__(self, at: Listening, secret: str, database: str = FIRST) -> None:
        self.socket = connected(at)
        _, greeting = self._packet()
        if greeting[0] == 255:
            raise _refusal(greeting)
        version = greeting.index(b"\0", 1)
        scramble = greeting[version + 5 : version + 13] + greeting[version + 32 : version + 44]
        word = proof(secret, scramble)
        self._send(1, struct.pack("<IIB23x", ABILITIES, LARGEST_PACKET, UTF8MB4)
                   + at.user.encode() + b"\0" + bytes([len(word)]) + word
                   + database.encode() + b"\0" + NATIVE + b"\0")  # fmt: skip
        self._admit(secret)

    @classmethod
    def exists(cls, at: Listening, secret: str, database: str) -> bool:
        """Whether there is a database of that name."""
        with closing(cls(at, secret)) as first:
            text = f"SELECT 1 FROM schemata WHERE schema_name = '{database}'"
            return bool(first.query(text))

    @classmethod
    def make(cls, at: Listening, secret: str, database: str, like: str = "") -> None:
        """Make a database, a copy of another one if so asked; one of that name is gone then."""
        with closing(cls(at, secret)) as first:
            first.query(f"DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}")
            first.query(f"USE {database}")
            if not like:
                return
            for table in TABLES:
                first.query(f"CREATE TABLE {table} LIKE {like}.{table}")
                first.query(f"INSERT INTO {table} SELECT * FROM {like}.{table}")
            programs = script("mariadb")[1].partition("-- programs\n")[2]
            first.query(programs)

    def prepare(self) -> None:
        """It needs none."""

    def message(self, name: str, values: Sequence[object]) -> bytes:
        """The request, as bytes."""
        return packet(0, b"\x03" + ASKS[name](*values).encode())

    def complete(self, content: bytes) -> bool:
        """Whether an answer has come whole, with all its results."""
        return _is_end(content)

    def answer(self, content: bytes) -> Rowset:
        """The rows of an answer."""
        return read(content)

    def query(self, words: str) -> ShopRows:
        """Ask once, and wait."""
        self.socket.sendall(packet(0, b"\x03" + words.encode()))
        content = b""
        while not _is_end(content):
            part = self.socket.recv(1 << 16)
            if not part:
                raise ConnectionError("the database closed the connection")
            content += part
        return read(content).rows

    def fill(self, table: StockTable) -> tuple[int, int]:
        """Load a table in one transaction; returns how many rows, and their sum."""
        head = f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES "

        def send(rows: Sequence[Row]) -> None:
            self.query(head + ", ".join(f"({', '.join(map(quoted, row))})" for row in rows))

        self.query("START TRANSACTION")
        sums = counted(table, send, 1_000)
        self.query("COMMIT")
        return sums

    def close(self) -> None:
        """Leave."""
        self.socket.close()

    def _send(self, number: int, body: bytes) -> None:
        self.socket.sendall(packet(number, body))

    def _packet(self) -> tuple[int, bytes]:
        head = self._exactly(4)
        return head[3], self._exactly(int.from_bytes(head[:3], "little"))

    def _exactly(self, size: int) -> bytes:
        content = b""
        while len(content) < size:
            part = self.socket.recv(size - len(content))
            if not part:
                raise ConnectionError("the database closed the connection before login")
            content += part
        return content

    def _admit(self, secret: str) -> None:
        number, content = self._packet()
        if content[0] == 254:  # it wants the proof with another scramble
            plugin, _, scramble = content[1:].partition(b"\0")
            if plugin != NATIVE:
                raise Refused("28000", f"it asks for an unknown login method: {plugin.decode()}")
            self._send(number + 1, proof(secret, scramble[:20]))
            _, content = self._packet()
        if content[0] == 255:
            raise _refusal(content)


def proof(secret: str, scramble: bytes) -> bytes:
    """Proof that we know the password, without sending it."""
    if not secret:
        return b""
    once = hashlib.sha1(secret.encode()).digest()
    twice = hashlib.sha1(scramble + hashlib.sha1(once).digest()).digest()
    return (int.from_bytes(once, "big") ^ int.from_bytes(twice, "big")).to_bytes(20, "big")


def packet(number: int, body: bytes) -> bytes:
    """A packet; what is larger than one may be is refused by the database."""
    return len(body).to_bytes(3, "little") + bytes([number]) + body


def _packets(content: bytes) -> Iterator[bytes]:
    at = 0
    while len(content) >= at + 4:
        end = at + 4 + int.from_bytes(content[at : at + 3], "little")
        if len(content) < end:
            return
        yield content[at + 4 : end]
        at = end


# After the head of a result come its columns, an end, its rows and another end.
def _is_end(content: bytes) -> bool:
    ends = -1
    for body in _packets(content):
        kind = body[0]
        if kind == 255:
            return True
        if ends < 0:
            ends = 2 if kind else -1
            if not kind and not _state(body, _two_numbers(body)) & MORE_RESULTS:
                return True
        elif kind == 254 and len(body) < 9:
            ends -= 1
            if not ends:
                if not _state(body, 3) & MORE_RESULTS:
                    return True
                ends = -1
    return False


def read(content: bytes) -> Rowset:
    """The rows of all results; an error among them is raised."""
    rows: list[Values] = []
    ends = -1
    for body in _packets(content):
        kind = body[0]
        if kind == 255:
            raise _refusal(body)
        if ends < 0:
            ends = 2 if kind else -1
        elif kind == 254 and len(body) < 9:
            ends = ends - 1 or -1
        elif ends == 1:
            rows.append(tuple(_values(body)))
    return Rowset(rows)


def _values(body: bytes) -> Iterator[bytes | None]:
    at = 0
    while at < len(body):
        if body[at] == 251:
            at += 1
            yield None
            continue
        length, at = _number(body, at)
        yield body[at : at + length]
        at += length


def _number(body: bytes, at: int) -> tuple[int, int]:
    first = body[at]
    wide = {252: 2, 253: 3, 254: 8}.get(first, 0)
    if not wide:
        return first, at + 1
    return int.from_bytes(body[at + 1 : at + 1 + wide], "little"), at + 1 + wide


def _two_numbers(body: bytes) -> int:
    return _number(body, _number(body, 1)[1])[1]


def _state(body: bytes, at: int) -> int:
    return int.from_bytes(body[at : at + 2], "little")


def _refusal(body: bytes) -> Exception:
    code = int.from_bytes(body[1:3], "little")
    state, text = body[4:9].decode(), body[9:].decode("utf-8", "replace")
    if body[3:4] != b"#":
        state, text = "08004", body[3:].decode("utf-8", "replace")
    if state == SHORT:
        return Short(text)
    return Refused(state, text, again=code in RETRY_CODES)
