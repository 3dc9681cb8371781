"""TDS 7.4, the protocol of SQL Server, as its maker documents it: packets, logins and tokens."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from labkit.errors import LabkitError
from labkit.shop.answers import Refused, Rowset, Short, Values

BATCH, RPC, REPLY, BULK, LOGIN, PRELOGIN = 1, 3, 4, 7, 16, 18
"""The kinds of message that a packet is part of."""
HEAD = struct.Struct(">BBHHBB")
FIRST_SIZE, WANTED_SIZE = 4096, 8192
"""Bytes of a packet: before both have agreed, and what is asked for."""
SHORT = 50001
"""The number of the error that a purchase throws when stock does not suffice."""
STATES = {
    1205: "40001", 3960: "40001", 3961: "40001", 1222: "55P03",
    18452: "28000", 18456: "28000", 18470: "28000", 18486: "28000", 18487: "28000",
    18488: "28000", 4060: "3D000", 921: "57P03", 922: "57P03", 927: "57P03", 18401: "57P03",
    6005: "57P01", 18451: "57P01", 596: "57P01", 1105: "53100", 9002: "53100",
}  # fmt: skip
"""Numbers of errors in the words of PostgreSQL, which the driver knows; others keep their own."""
AGAIN = (1205, 1222, 3960, 3961)
"""Deadlock, a lock waited for too long, a conflict of snapshots: it may be tried again."""
HINTS = {
    18456: "the server may allow logins of Windows alone, or the password has expired",
    262: "its login needs the role dbcreator",
}
FIXED = {0x30: 1, 0x32: 1, 0x34: 2, 0x38: 4, 0x7F: 8}
"""Whole numbers that cannot be absent, and their bytes."""
NAMES = {1: "tinyint", 2: "smallint", 4: "int", 8: "bigint"}
INTN, BITN = 0x26, 0x68
VARCHAR, CHAR, NVARCHAR, NCHAR = 0xA7, 0xAF, 0xE7, 0xEF
PARTS, NONE = 0xFFFF, 0xFFFF
"""A length that says that a text comes in parts, and one that says that there is none."""
NO_PARTS = (1 << 64) - 1
COLUMNS, ROW, SPARSE_ROW, ERROR, LOGGED_IN, CHANGE = 0x81, 0xD1, 0xD2, 0xAA, 0xAD, 0xE3
STATUS, VALUE = 0x79, 0xAC
DONE = (0xFD, 0xFE, 0xFF)
PASSED = (0xAB, 0xA9, 0xA4, 0xA5, 0xED)
"""Notices and the like, whose length is two bytes."""
LATIN = bytes.fromhex("0904d00034")
"""The collation that is named before the server has named its own."""
Reader = Callable[[bytes, int], "tuple[bytes | None, int]"]


@dataclass(frozen=True)
class Encoded:
    """A column of a result: its kind, what describes the kind on the wire, and how it is read."""

    name: str
    kind: int
    size: int
    described: bytes
    flags: int
    reads: Reader

    @property
    def declared(self) -> str:
        """The column's declaration in SQL."""
        if self.kind in FIXED or self.kind == INTN:
            return f"{self.name} {NAMES[self.size]}"
        size = self.size // 2 if self.kind == NVARCHAR else self.size
        return f"{self.name} {'n' if self.kind == NVARCHAR else ''}varchar({size})"

    def encode(self, value: object) -> bytes:
        """A value as the rows of a bulk load have it."""
        if self.kind in FIXED:
            return int(str(value)).to_bytes(self.size, "little", signed=True)
        if self.kind == INTN:
            return bytes([self.size]) + int(str(value)).to_bytes(self.size, "little", signed=True)
        text = str(value).encode("utf-16-le" if self.kind == NVARCHAR else "ascii")
        return len(text).to_bytes(2, "little") + text


@dataclass(frozen=True)
class Told:
    """All that an answer says."""

    rows: list[Values]
    columns: Sequence[Encoded]
    version: int
    """Of the server, if it has just let us in."""
    packet_size: int
    collation: bytes

    @property
    def rowset(self) -> Rowset:
        """Its rows alone."""
        return Rowset(self.rows)


def packets(kind: int, body: bytes, size: int = FIRST_SIZE, ends: bool = True) -> bytes:
    """A message in packets; one that does not end has more to come."""
    room = size - HEAD.size
    parts = [body[at : at + room] for at in range(0, len(body), room)] or [b""]
    last = len(parts) - 1
    return b"".join(
        HEAD.pack(kind, int(ends and nth == last), len(part) + HEAD.size, 0, nth + 1 & 255, 0)
        + part
        for nth, part in enumerate(parts)
    )


def whole(said: bytes) -> bool:
    """Whether the last packet of a message has come whole."""
    at, ends = 0, len(said)
    while at + 8 <= ends:
        after = at + (said[at + 2] << 8 | said[at + 3])
        if said[at + 1] & 1:
            return after <= ends
        at = max(after, at + 8)
    return False


def body_of(said: bytes) -> bytes:
    """The content of a message's packets."""
    first = said[2] << 8 | said[3]
    if first >= len(said):
        return said[8:]
    parts, at = [], 0
    while at < len(said):
        after = at + max(8, said[at + 2] << 8 | said[at + 3])
        parts.append(said[at + 8 : after])
        at = after
    return b"".join(parts)


def headed(body: bytes) -> bytes:
    """A request with the headers that it needs: it is in no transaction of another request."""
    return struct.pack("<IIHQI", 22, 18, 2, 0, 1) + body


def prelogin(encryption: int) -> bytes:
    """The first message of a connection; the server answers in the same form."""
    options = struct.pack(">BHHBHHB", 0, 11, 6, 1, 17, 1, 0xFF)
    return options + bytes(6) + bytes([encryption])


def encryption_of(answer: bytes) -> int | None:
    """The server's choice of what is encrypted."""
    at = 0
    while at + 5 <= len(answer) and answer[at] != 0xFF:
        _, start, length = struct.unpack_from(">BHH", answer, at)
        if answer[at] == 1 and length and start < len(answer):
            return int(answer[start])
        at += 5
    return None


def login(user: str, secret: str, server: str, database: str) -> bytes:
    """The login of a name and a password; the packet itself is encrypted."""
    hidden = bytes((one << 4 & 0xF0 | one >> 4) ^ 0xA5 for one in secret.encode("utf-16-le"))
    texts = ["labkit", user, "", "labkit", server, "", "labkit", "", database]
    parts = [text.encode("utf-16-le") for text in texts]
    parts[2] = hidden
    at, places, text = 94, b"", b"".join(parts)
    for part in (*parts, b""):  # then what this does not use
        if len(places) == 36:
            places += bytes(6)
        places += struct.pack("<HH", at, len(part) // 2)
        at += len(part)
    places += struct.pack("<HHHHI", at, 0, at, 0, 0)
    head = struct.pack("<IIIIIBBBBiI", 0x74000004, WANTED_SIZE, 7, 0, 0, 0xE0, 3, 0, 0, 0, 0x409)
    return struct.pack("<I", at) + head + places + text


def text_given(text: str, collation: bytes, name: str = "") -> bytes:
    """A text as a parameter of a procedure."""
    told, said = name.encode("utf-16-le"), text.encode("utf-16-le")
    if len(said) > 8000:
        raise LabkitError(f"a text of {len(text)} letters is too long for a parameter: 4000")
    described = b"\xe7" + struct.pack("<H", 8000) + collation
    return bytes([len(name)]) + told + b"\0" + described + struct.pack("<H", len(said)) + said


def number_given(value: int, name: str = "") -> bytes:
    """A whole number as a parameter of a procedure."""
    told = bytes([len(name)]) + name.encode("utf-16-le")
    return told + b"\0\x26\x08\x08" + struct.pack("<q", value)


def told_by(said: bytes) -> Told:
    """Read a whole answer; raise the first error in it."""
    body, at, rows = body_of(said), 0, []
    columns: list[Encoded] = []
    version, size, collation, refused = 0, 0, b"", None
    while at < len(body):
        token, at = body[at], at + 1
        if token == ROW:
            row, at = _row(body, at, columns)
            rows.append(row)
        elif token == SPARSE_ROW:
            row, at = _sparse(body, at, columns)
            rows.append(row)
        elif token == COLUMNS:
            columns, at = described(body, at)
        elif token in DONE:
            at += 12
        elif token == STATUS:
            at += 4
        elif token == VALUE:
            at = _value(body, at)
        else:
            part, at = _counted(body, at, token)
            if token == ERROR:
                refused = refused or refusal(part)
            elif token == LOGGED_IN:
                version = part[-4]
            elif token == CHANGE and part[0] == 4:
                size = int(part[2 : 2 + 2 * part[1]].decode("utf-16-le"))
            elif token == CHANGE and part[0] == 7:
                collation = part[2 : 2 + part[1]]
    if refused:
        raise refused
    return Told(rows, columns, version, size, collation)


def refusal(part: bytes) -> Exception:
    """The error that a token holds: its number, state and class, and its words."""
    number, state, kind, length = struct.unpack_from("<iBBH", part)
    text = part[8 : 8 + 2 * length].decode("utf-16-le", "replace")
    if number == SHORT:
        return Short(text)
    words = f"error {number}, state {state}, class {kind}: {text}"
    if number in HINTS:
        words += f" ({HINTS[number]})"
    return Refused(STATES.get(number, str(number)), words, again=number in AGAIN)


def described(body: bytes, at: int) -> tuple[list[Encoded], int]:
    """The columns of a result."""
    (many,) = struct.unpack_from("<H", body, at)
    found, at = [], at + 2
    for _ in range(0 if many == NONE else many):
        (flags,) = struct.unpack_from("<H", body, at + 4)
        kind, size, text, reads, at = _kind(body, at + 6)
        end = at + 1 + 2 * body[at]
        name = body[at + 1 : end].decode("utf-16-le")
        found.append(Encoded(name, kind, size, text, flags, reads))
        at = end
    return found, at


def columns_told(columns: Sequence[Encoded]) -> bytes:
    """The beginning of a bulk load: the columns that it brings."""
    parts = [bytes([COLUMNS]), struct.pack("<H", len(columns))]
    for one in columns:
        name = one.name.encode("utf-16-le")
        parts += [struct.pack("<IH", 0, one.flags), one.described, bytes([len(one.name)]), name]
    return b"".join(parts)


def _counted(body: bytes, at: int, token: int) -> tuple[bytes, int]:
    if token not in (*PASSED, ERROR, LOGGED_IN, CHANGE):
        raise LabkitError(f"the server sent an unknown token: {token:#x}")
    end = at + 2 + int.from_bytes(body[at : at + 2], "little")
    return body[at + 2 : end], end


def _value(body: bytes, at: int) -> int:
    at += 3 + 2 * body[at + 2] + 1 + 6
    *_, reads, at = _kind(body, at)
    return reads(body, at)[1]


# The kind, its size, the bytes that say so, how its values are read, and what comes after it.
def _kind(body: bytes, at: int) -> tuple[int, int, bytes, Reader, int]:
    kind, start = body[at], at
    if kind in FIXED:
        return kind, FIXED[kind], body[start : at + 1], _fixed(FIXED[kind]), at + 1
    if kind in (INTN, BITN):
        return kind, body[at + 1], body[start : at + 2], _number, at + 2
    if kind in (VARCHAR, CHAR, NVARCHAR, NCHAR):
        size = int.from_bytes(body[at + 1 : at + 3], "little")
        wide = kind in (NVARCHAR, NCHAR)
        reads = _in_parts if size == PARTS else _text
        return kind, size, body[start : at + 8], _wide(reads) if wide else reads, at + 8
    raise LabkitError(f"the server sent a column of an unknown kind: {kind:#x}")


def _fixed(size: int) -> Reader:
    def read(body: bytes, at: int) -> tuple[bytes | None, int]:
        value = int.from_bytes(body[at : at + size], "little", signed=size > 1)
        return b"%d" % value, at + size

    return read


def _number(body: bytes, at: int) -> tuple[bytes | None, int]:
    size = body[at]
    return _fixed(size)(body, at + 1) if size else (None, at + 1)


def _text(body: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = body[at] | body[at + 1] << 8, at + 2
    return (None, at) if length == NONE else (body[at : at + length], at + length)


def _in_parts(body: bytes, at: int) -> tuple[bytes | None, int]:
    (total,) = struct.unpack_from("<Q", body, at)
    at += 8
    if total == NO_PARTS:
        return None, at
    parts: list[bytes] = []
    while True:
        (length,) = struct.unpack_from("<I", body, at)
        at += 4
        if not length:
            return b"".join(parts), at
        parts.append(body[at : at + length])
        at += length


def _wide(reads: Reader) -> Reader:
    def read(body: bytes, at: int) -> tuple[bytes | None, int]:
        text, at = reads(body, at)
        return text if text is None else text.decode("utf-16-le").encode(), at

    return read


def _row(body: bytes, at: int, columns: Sequence[Encoded]) -> tuple[Values, int]:
    values: list[bytes | None] = []
    for column in columns:
        value, at = column.reads(body, at)
        values.append(value)
    return tuple(values), at


# Before such a row a bit for each column says which values are absent.
def _sparse(body: bytes, at: int, columns: Sequence[Encoded]) -> tuple[Values, int]:
    absent, at = body[at:], at + (len(columns) + 7) // 8
    values: list[bytes | None] = []
    for nth, column in enumerate(columns):
        if absent[nth // 8] >> nth % 8 & 1:
            values.append(None)
        else:
            value, at = column.reads(body, at)
            values.append(value)
    return tuple(values), at


def rows_of(table: Sequence[Sequence[object]], columns: Sequence[Encoded]) -> Iterator[bytes]:
    """Rows as a bulk load has them."""
    for row in table:
        yield b"\xd1" + b"".join(
            one.encode(value)
            for one, value in zip(columns, row)  # noqa: B905
        )
