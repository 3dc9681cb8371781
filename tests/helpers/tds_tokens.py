"""Tokens of TDS 7.4: what a server says of results and errors, and the values that it is given."""

import struct

from postgres_behind import Wrong

COLLATION = bytes.fromhex("0904d00034")
SIZES = {21: 2, 23: 4, 20: 8, 1700: 8}
"""Whole numbers of PostgreSQL, and the bytes that they have here; its sums are numeric."""
FIXED = {2: 0x34, 4: 0x38, 8: 0x7F}
DONE_MORE, DONE_COUNT, DONE_ERROR, DONE_ATTENTION = 1, 0x10, 2, 0x20


def counted(text):
    return bytes([len(text)]) + text.encode("utf-16-le")


def done(status, many=0, token=0xFD):
    return struct.pack("<BHHQ", token, status, 0xC1, many)


def change(kind, new, old=b"\0"):
    body = bytes([kind]) + new + old
    return b"\xe3" + struct.pack("<H", len(body)) + body


def notice(token, number, state, kind, text):
    words = text[:2000].encode("utf-16-le")
    body = struct.pack("<iBBH", number, state, kind, len(words) // 2) + words
    body += counted("stand-in") + counted("") + struct.pack("<I", 1)
    return bytes([token]) + struct.pack("<H", len(body)) + body


def told_column(one):
    name = counted(one.name if one.name != "?column?" else "")
    if one.oid in SIZES:
        size = SIZES[one.oid]
        fixed = one.not_null
        kind = bytes([FIXED[size]]) if fixed else bytes([0x26, size])
    else:
        size = one.size if 0 < one.size <= 8000 else 0xFFFF
        kind = b"\xa7" + struct.pack("<H", size) + COLLATION
    return struct.pack("<IH", 0, 8 | (not one.not_null)) + kind + name


def told_value(one, value):
    if one.oid in SIZES:
        size = SIZES[one.oid]
        if value is None:
            return b"\0"
        number = int(value).to_bytes(size, "little", signed=True)
        return number if one.not_null else bytes([size]) + number
    if 0 < one.size <= 8000:
        return b"\xff\xff" if value is None else struct.pack("<H", len(value)) + value
    if value is None:
        return b"\xff" * 8
    parts = struct.pack("<I", len(value)) + value if value else b""
    return struct.pack("<Q", len(value)) + parts + bytes(4)


def told_row(columns, row):
    """With many values absent, as the server itself: a bit for each says which."""
    if sum(value is None for value in row) * 2 <= len(row):
        return b"\xd1" + b"".join(map(told_value, columns, row))
    absent = sum(1 << nth for nth, value in enumerate(row) if value is None)
    values = (told_value(*one) for one in zip(columns, row, strict=True) if one[1] is not None)
    return b"\xd2" + absent.to_bytes((len(row) + 7) // 8, "little") + b"".join(values)


class Given:
    """Bytes that are read from the front."""

    def __init__(self, body, at=0):
        self.body, self.at = body, at

    def take(self, many):
        self.at += many
        return self.body[self.at - many : self.at]

    def number(self, many=1, signed=False):
        return int.from_bytes(self.take(many), "little", signed=signed)

    def text(self):
        return self.take(2 * self.number()).decode("utf-16-le")

    def kind(self):
        """A kind of value: its number and its size."""
        token = self.number()
        if token in (0x30, 0x32, 0x34, 0x38, 0x7F):
            return token, {0x30: 1, 0x32: 1, 0x34: 2, 0x38: 4, 0x7F: 8}[token]
        if token in (0x26, 0x68):
            return token, self.number()
        if token in (0xE7, 0xEF, 0xA7, 0xAF):
            size = self.number(2)
            self.take(5)
            return token, size
        raise Wrong(8004, f"a kind of value that is not known here: {token:#x}")

    def value(self, kind):
        token, size = kind
        if token in (0x30, 0x32, 0x34, 0x38, 0x7F):
            return self.number(size, token != 0x30)
        if token in (0x26, 0x68):
            length = self.number()
            return self.number(length, True) if length else None
        raw = self._parts() if size == 0xFFFF else self._whole()
        wide = token in (0xE7, 0xEF)
        return raw if raw is None else raw.decode("utf-16-le" if wide else "latin-1")

    def _whole(self):
        length = self.number(2)
        return None if length == 0xFFFF else self.take(length)

    def _parts(self):
        if self.number(8) == (1 << 64) - 1:
            return None
        found = b""
        while length := self.number(4):
            found += self.take(length)
        return found
