"""Where commas and line ends lie in a text, when only few of very many are looked up.

Each byte is one bit, set where a delimiter is. Counted word by word, the bits tell in which word
the n-th of them lies, so that the places of all the others are never written down.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labkit.telemetry.numbers import Bytes, Mask, Places, Words

WORD = 64
ONE = np.uint64(1)


def marks(mask: Mask) -> Bytes:
    """The bits of a mask, eight in a byte, the first in the lowest."""
    return np.packbits(mask, bitorder="little")


@dataclass(frozen=True)
class Delimiters:
    """Delimiters by their number, from 0: their bits, and how many there are up to each word."""

    words: Words
    counts: Places

    @classmethod
    def of(cls, words: Words) -> Delimiters:
        """Those that these bits mark."""
        return cls(words, np.cumsum(np.bitwise_count(words), dtype=np.int64))

    @property
    def count(self) -> int:
        """So many delimiters."""
        return int(self.counts[-1])

    def at(self, numbers: Places) -> Places:
        """Where those of these numbers are."""
        word = np.searchsorted(self.counts, numbers, side="right")
        left = self.words[word]
        skipped = numbers - (self.counts[word] - np.bitwise_count(left))
        for nth in range(int(skipped.max(initial=0))):
            left = np.where(nth < skipped, left & (left - ONE), left)  # without its lowest bit
        below: Places = np.bitwise_count((left - ONE) & ~left).astype(np.int64)
        return WORD * word + below
