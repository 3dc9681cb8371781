"""The journal's lines: `labkit1 CKSUM LENGTH FIELDS`, each whole or not there at all.

In a field, spaces, tabs, line ends and percent signs are written as %20 and the like. The empty
text is `%` alone. So a shell can write and compare fields with nothing but `case`.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from labkit.errors import JournalDamaged

CODES = {"%": "%25", " ": "%20", "\t": "%09", "\r": "%0D", "\n": "%0A"}
RECORDS = {
    "writing": 3, "wrote": 3, "refused": 3, "restoring": 3, "restored": 4, "original": 4,
    "given-up": 4,
}  # fmt: skip
"""Number of fields of each record that can share a line with others."""
REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
PLAIN = {code: char for char, code in CODES.items()}


def encoded(text: str | None) -> str:
    """The field that stands for `text`; no text is written as what stands for None."""
    if text is None:
        return "%-"
    return "".join(CODES.get(char, char) for char in text) or "%"


def decoded(field: str) -> str:
    """The text that a field stands for."""
    if field == "%":
        return ""
    return re.sub("%[0-9A-F]{2}", lambda code: PLAIN.get(code[0], code[0]), field)


@dataclass(frozen=True)
class Frame:
    """One thing that happened, and its fields."""

    kind: str
    fields: tuple[str, ...]


def frames(lines: Iterable[str], place: str) -> Iterator[Frame]:
    """The frames of a journal; a torn last line is dropped, damage before that is refused.

    `lines` keep their ends: a last one without is the torn one.
    """
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            return
        fields = _fields(line.removesuffix("\n"), f"{place} line {number}")
        while fields:  # what is done is noted on the line of what is done next
            size = RECORDS.get(fields[0], len(fields))
            kind, *texts = fields[:size]
            yield Frame(kind, tuple(map(decoded, texts)))
            fields = fields[size:]


def _fields(line: str, place: str) -> list[str]:
    version, _, tail = line.partition(" ")
    if re.fullmatch("labkit[0-9]+", version) and version != "labkit1":
        raise JournalDamaged(
            f"{place}: is written as {version}; this labkit reads labkit1",
            hint="use the labkit that wrote it",
        )
    match tail.split(" ", 2):
        case [crc, length, body] if version == "labkit1" and f"{crc} {length}" == cksum(
            body + "\n"
        ):
            return body.split(" ")
    raise JournalDamaged(
        f"{place}: does not match its checksum",
        said=line[:200],
        hint="nothing is put back by guessing: the lines before it are whole; `labkit journal HOST`"
        " shows them",
    )


def cksum(text: str) -> str:
    """The output of cksum(1) for `text`: POSIX's CRC, and the length in bytes."""
    content = text.encode("utf-8", "surrogateescape")
    length = len(content)
    size = length.to_bytes((length.bit_length() + 7) // 8, "little")
    # zlib's is the same of bits in reverse, but for what it begins with.
    crc = zlib.crc32((content + size).translate(REVERSED), 0xFFFFFFFF)
    return f"{int(f'{crc:032b}'[::-1], 2)} {length}"
