"""SQL Server 2017 and newer, asked by its own protocol, with nothing to install.

Never tried on SQL Server itself: its protocol and its SQL are as documented. The tests have a
server of their own that speaks that protocol and runs that SQL on PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import ClassVar

from labkit.errors import LabkitError
from labkit.shop import tds
from labkit.shop.answers import (
    CONNECT_SECONDS,
    ByteWire,
    Listening,
    Refused,
    Rowset,
    ShopRows,
    connected,
)
from labkit.shop.sealed import Sealed
from labkit.shop.stock import COLUMNS, Row, StockTable, counted, script

FIRST = "master"
OLDEST = 14
"""SQL Server 2017: JSON_VALUE takes a path that is no constant."""
LOGIN_ENCRYPTED, ALL_ENCRYPTED, NO_ENCRYPTION = 0, (1, 3), 2
SEPARATOR = "\nGO\n"
"""The separator of a script's batches, as everywhere with SQL Server."""
RECOVERING = ("RECOVERING", "RECOVERY_PENDING", "RESTORING")
TABLES = (*COLUMNS, "reorder", "loaded")
EXECUTE = b"\xff\xff\x0a\x00\x00\x00"
"""A procedure by its number, 10: sp_executesql."""
NEW = COLUMNS["customers"][0][1:]
FOUND = "SELECT TOP (@most) prod_id, title, actor, price FROM products"
TEXT, INT, BIGINT, LIST = "varchar(80)", "int", "bigint", "varchar(400)"
"""Lists are JSON."""
ASKS: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "login": (
        "SELECT c.customerid, p.title, l.title FROM customers AS c OUTER APPLY "
        "(SELECT TOP (10) orderid, prod_id FROM cust_hist WHERE customerid = c.customerid "
        "ORDER BY orderid DESC) AS h LEFT JOIN products AS p ON p.prod_id = h.prod_id "
        "LEFT JOIN products AS l ON l.prod_id = p.common_prod_id "
        "WHERE c.username = @name AND c.password = @word",
        (("name", TEXT), ("word", TEXT)),
    ),
    "new": (
        "DECLARE @number int; SET @number = NEXT VALUE FOR customer_numbers; "
        f"INSERT INTO customers (customerid, {', '.join(NEW)}) OUTPUT inserted.customerid "
        f"SELECT @number, {', '.join(f'@{one}' for one in NEW)} WHERE NOT EXISTS "
        "(SELECT 1 FROM customers WITH (UPDLOCK, HOLDLOCK) WHERE username = @username)",
        tuple((one, INT if one in ("age", "income") else TEXT) for one in NEW),
    ),
    "category": (f"{FOUND} WHERE category = @of AND special = 1", (("of", INT), ("most", INT))),
    "actor": ("EXECUTE search_actor @words, @most", (("words", TEXT), ("most", INT))),
    "title": ("EXECUTE search_title @words, @most", (("words", TEXT), ("most", INT))),
    "prices": (
        "SELECT prod_id, price FROM products "
        "WHERE prod_id IN (SELECT CAST(value AS int) FROM OPENJSON(@ids))",
        (("ids", LIST),),
    ),
    "purchase": (
        "EXECUTE purchase @who, @net, @tax, @total, @mark, @ids, @wanted",
        (("who", INT), ("net", BIGINT), ("tax", BIGINT), ("total", BIGINT), ("mark", BIGINT),
         ("ids", LIST), ("wanted", LIST)),
    ),
}  # fmt: skip


class SqlServer:
    """One connection; `message` and `answer` are for a loop that has many of them."""

    summed: ClassVar[str] = "sum(cast({} AS bigint))"
    durable: ClassVar[Mapping[bool, str]] = {
        True: "ALTER DATABASE CURRENT SET DELAYED_DURABILITY = DISABLED",
        False: "ALTER DATABASE CURRENT SET DELAYED_DURABILITY = FORCED",
    }
    about: ClassVar[str] = (
        "SELECT CONCAT('SQL Server ', CAST(SERVERPROPERTY('ProductVersion') AS varchar(60)), ', ', "
        "CAST(SERVERPROPERTY('Edition') AS varchar(60)), CASE "
        "WHEN SERVERPROPERTY('IsFullTextInstalled') = 1 THEN ', with full-text search' "
        "ELSE ', without full-text search: words are looked for in all products' END)"
    )

    def __init__(self, at: Listening, secret: str, database: str = FIRST) -> None:
        self._size, self._collation = tds.FIRST_SIZE, tds.LATIN
        self._prepared: dict[str, bytes] = {}
        plain = connected(at)
        self.socket: ByteWire = plain
        plain.settimeout(CONNECT_SECONDS)
        try:
            self._admitted(at, secret, database)
            plain.settimeout(None)
        except TimeoutError:
            plain.close()
            raise ConnectionError(
                f"{at} did not answer within {CONNECT_SECONDS:g} s; is it SQL Server?"
            ) from None
        except (OSError, Refused, LabkitError) as no:
            self.socket.close()
            if isinstance(no, Refused) and no.code == tds.STATES[4060] and database != FIRST:
                raise _why_not(at, secret, database) from None
            raise

    @classmethod
    def exists(cls, at: Listening, secret: str, database: str) -> bool:
        """Whether there is a database of that name."""
        with closing(cls(at, secret)) as first:
            return bool(first._state(database))

    @classmethod
    def make(cls, at: Listening, secret: str, database: str, like: str = "") -> None:
        """Make a database, a copy of another one if so asked; one of that name is gone then."""
        with closing(cls(at, secret)) as first:
            if first._state(database):
                alone = f"ALTER DATABASE {database} SET SINGLE_USER WITH ROLLBACK IMMEDIATE"
                first.query(f"{alone}{SEPARATOR}DROP DATABASE {database}")
            first.query(f"CREATE DATABASE {database}")
            first.query(f"ALTER DATABASE {database} SET RECOVERY SIMPLE")
            first.query(f"ALTER DATABASE {database} SET READ_COMMITTED_SNAPSHOT ON")
        if like:
            _copy(at, secret, database, like)

    def prepare(self) -> None:
        """Write down what all requests begin with; the server plans each when it is first asked."""
        for name, (words, given) in ASKS.items():
            declared = ", ".join(f"@{one} {kind}" for one, kind in given)
            texts = (tds.text_given(text, self._collation) for text in (words, declared))
            self._prepared[name] = tds.headed(EXECUTE + b"".join(texts))

    def message(self, name: str, given: Sequence[object]) -> bytes:
        """The request, as bytes."""
        parts = [self._prepared[name]]
        for value, (_, kind) in zip(given, ASKS[name][1]):  # noqa: B905
            if kind in (INT, BIGINT):
                parts.append(tds.number_given(int(str(value))))
            else:
                parts.append(tds.text_given(str(value), self._collation))
        return tds.packets(tds.RPC, b"".join(parts), self._size)

    @staticmethod
    def complete(said: bytes) -> bool:
        """Whether an answer has come whole."""
        return tds.whole(said)

    @staticmethod
    def answer(said: bytes) -> Rowset:
        """The rows of an answer."""
        return tds.told_by(said).rowset

    def query(self, words: str) -> ShopRows:
        """Ask once, and wait; of several batches the rows of the last."""
        told: list[ShopRows] = [[]]
        for batch in words.split(SEPARATOR):
            if batch.strip():
                told.append(self._batch(batch).rows)
        return told[-1]

    def fill(self, table: StockTable) -> tuple[int, int]:
        """Load a table in bulk, all of it or nothing; returns how many rows, and their sum."""
        names = ", ".join(table.columns)
        columns = self._batch(f"SELECT TOP (0) {names} FROM {table.name}").columns
        declared = ", ".join(one.declared for one in columns)
        self._batch(f"INSERT BULK {table.name} ({declared}) WITH (TABLOCK)")
        left = tds.columns_told(columns)
        room = self._size - tds.HEAD.size

        def send(rows: Sequence[Row]) -> None:
            nonlocal left
            left += b"".join(tds.rows_of(rows, columns))
            full = len(left) // room * room
            if full:
                self._send(tds.packets(tds.BULK, left[:full], self._size, ends=False))
            left = left[full:]

        sent = counted(table, send, 1_000)
        self._send(tds.packets(tds.BULK, left + b"\xfd" + bytes(12), self._size))
        tds.told_by(self._reply())
        return sent

    def close(self) -> None:
        """Leave."""
        self.socket.close()

    def _state(self, database: str) -> str:
        asked = f"SELECT CAST(DATABASEPROPERTYEX('{database}', 'Status') AS varchar(60))"
        return (self.query(asked)[0][0] or b"").decode()

    def _batch(self, words: str) -> tds.Told:
        body = tds.headed(words.encode("utf-16-le"))
        self._send(tds.packets(tds.BATCH, body, self._size))
        return tds.told_by(self._reply())

    def _send(self, words: bytes) -> None:
        try:
            self.socket.sendall(words)
        except OSError as lost:
            raise ConnectionError(f"the database no longer listens: {lost}") from None

    def _reply(self) -> bytes:
        said = b""
        while not tds.whole(said):
            part = self.socket.recv(1 << 16)
            if not part:
                raise ConnectionError("the database closed the connection")
            said += part
            if said[0] not in (tds.REPLY, tds.PRELOGIN):
                raise LabkitError("the server does not speak the protocol of SQL Server")
        return said

    def _admitted(self, at: Listening, secret: str, database: str) -> None:
        plain = self.socket
        sealed = self._sealed(at)
        self.socket = sealed
        self._send(tds.packets(tds.LOGIN, tds.login(at.user, secret, at.host, database)))
        if self._login_alone:
            self.socket = plain
        told = tds.told_by(self._reply())
        if told.version < OLDEST:
            raise LabkitError(
                f"{at} is SQL Server of version {told.version}, and {OLDEST} is needed",
                hint=f"version {OLDEST} is SQL Server 2017",
            )
        self._size = told.packet_size or self._size
        self._collation = told.collation or self._collation

    def _sealed(self, at: Listening) -> Sealed:
        self._send(tds.packets(tds.PRELOGIN, tds.prelogin(LOGIN_ENCRYPTED)))
        try:
            wanted = tds.encryption_of(tds.body_of(self._reply()))
        except ConnectionError:
            raise ConnectionError(
                f"what listens at {at} hung up before the login: it is no SQL Server, is still "
                "starting, or demands TLS from the first byte (Force Strict Encryption)"
            ) from None
        if wanted not in (LOGIN_ENCRYPTED, *ALL_ENCRYPTED):
            raise LabkitError(
                f"{at} offers no encryption, and the password would be sent in clear text",
                hint="is it SQL Server? All of its versions encrypt a login",
            )
        self._login_alone = wanted == LOGIN_ENCRYPTED
        return Sealed(
            self.socket,
            lambda words: self._send(tds.packets(tds.PRELOGIN, words)),
            lambda: tds.body_of(self._reply()),
        )


# The server does not say it: a database that is not there, or not yet.
def _why_not(at: Listening, secret: str, database: str) -> Refused:
    with closing(SqlServer(at, secret)) as first:
        state = first._state(database)
    if state in RECOVERING:
        return Refused(tds.STATES[922], f"the database {database} is {state}")
    why = f"is {state}, or this login may not use it" if state else "is not there"
    return Refused(tds.STATES[4060], f"the database {database} {why}")


# Table by table, for a copy by backup would need to know the server's folders.
def _copy(at: Listening, secret: str, database: str, like: str) -> None:
    before, after = script("sqlserver")
    with closing(SqlServer(at, secret, database)) as copy:
        copy.query(before)
        for table in TABLES:
            copy.query(f"INSERT INTO {table} SELECT * FROM {like}.dbo.{table}")
        copy.query(after)
        copy.query("CHECKPOINT")
