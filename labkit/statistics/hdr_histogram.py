"""HdrHistogram's compressed form (V2), as other tools write it.

Base64 of a cookie, a length and a zlib stream. The stream has a head of 40 bytes, then counts as
zigzag LEB128. A negative count stands for a run of zeros. The buckets are those of HdrHistogram: a
value keeps its first bits, as many as its decimal digits take.
"""

import base64
import binascii
import struct
import zlib
from collections.abc import Iterable

import numpy as np

from labkit.errors import ResultsError
from labkit.statistics.pooled import Values

COOKIE, PACKED_COOKIE = 0x1C849303 | 0x10, 0x1C849304 | 0x10
HEAD = struct.Struct(">IIIIQQd")
MOST_COUNTS, MOST_BYTES = 1 << 22, 64 << 20
MOST_SAMPLES = 20_000_000


def decoded(text: str) -> tuple[Values, Values]:
    """The values, each in the middle of its bucket, and how often each was counted."""
    payload, digits, unit = _unpack(text)
    # As many bits as keep values of so many digits apart, twice over.
    bits = (2 * 10**digits - 1).bit_length()
    counts: dict[int, int] = {}
    index = 0
    for number in _numbers(payload):
        if number > 0:
            counts[index] = number
        index += max(1, -number)
        if index > MOST_COUNTS:
            raise ResultsError("an HdrHistogram with more buckets than any has")
    if sum(counts.values()) > MOST_SAMPLES:
        raise ResultsError(f"an HdrHistogram with more than {MOST_SAMPLES} samples")
    shift = max(unit.bit_length() - 1, 0)
    middles = [_middle(at, bits) * (1 << shift) for at in counts]
    return np.array(middles, np.float64), np.array([*counts.values()], np.float64)


def _unpack(text: str) -> tuple[bytes, int, int]:
    try:
        content = base64.b64decode(text.strip(), validate=True)
        cookie, length = struct.unpack(">II", content[:8])
        unpacker = zlib.decompressobj()
        inside = unpacker.decompress(content[8 : 8 + length], MOST_BYTES)
        head = HEAD.unpack(inside[: HEAD.size])
    except (binascii.Error, struct.error, zlib.error, ValueError) as error:
        problem = "this is not an HdrHistogram (V2, compressed)"
        raise ResultsError(problem, said=str(error)) from None
    size, _, digits, unit = head[1:5]
    sound = cookie == PACKED_COOKIE and head[0] == COOKIE and 1 <= digits <= 5 and unit > 0
    payload = inside[HEAD.size :]
    if not sound or not unpacker.eof or size != len(payload):
        raise ResultsError("this is not a whole HdrHistogram (V2, compressed)")
    return payload, digits, unit


def _middle(index: int, bits: int) -> float:
    half = 1 << (bits - 1)
    shift = max(index // half - 1, 0)
    low = (index - shift * half) << shift
    return low + (1 << shift) // 2


def _numbers(payload: bytes) -> Iterable[int]:
    number = place = 0
    for byte in payload:
        number |= (byte if place == 8 else byte & 0x7F) << (7 * place)
        place += 1
        if place == 9 or byte < 0x80:
            yield (number >> 1) ^ -(number & 1)
            number = place = 0
    if place:
        raise ResultsError("an HdrHistogram that ends within a number")
