"""The output of many commands on one stream; a mark that none of them knows ends each."""

from collections.abc import Iterator
from dataclasses import dataclass

LONGEST = 256
"""A mark and its words are never longer, in bytes."""


class BrokenStream(Exception):
    """A mark followed by something that no shell of ours says."""


@dataclass(frozen=True)
class Mark:
    """The end of one command on one stream, and the words that the shell put behind it."""

    words: tuple[bytes, ...]


class Marked:
    """Cuts a stream at its marks, however the bytes arrive; it holds back a few bytes at most."""

    def __init__(self, nonce: bytes) -> None:
        self._nonce = nonce
        self._held = b""

    def feed(self, part: bytes) -> Iterator[bytes | Mark]:
        """Yield all that is now known to be output, in order, and the marks between."""
        tail = self._held + part if self._held else part
        while (at := tail.find(self._nonce)) >= 0:
            end = tail.find(b"\n", at, at + LONGEST)
            if end < 0 and len(tail) - at >= LONGEST:
                raise BrokenStream(f"a mark of more than {LONGEST} bytes")
            if at:
                yield tail[:at]
            if end < 0:
                self._held = tail[at:]
                return
            yield Mark(tuple(tail[at + len(self._nonce) : end].split()))
            tail = tail[end + 1 :]
        start = self._mark_begin(tail)
        self._held = tail[start:]
        if start:
            yield tail[:start]

    # Where the end of `rest` may be the beginning of a mark.
    def _mark_begin(self, tail: bytes) -> int:
        at = tail.find(self._nonce[:1], max(0, len(tail) - len(self._nonce) + 1))
        while at >= 0 and not self._nonce.startswith(tail[at:]):
            at = tail.find(self._nonce[:1], at + 1)
        return len(tail) if at < 0 else at
