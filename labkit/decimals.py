"""Numbers of two decimals or none, read out of their characters many at a time.

Eight characters are a word: neighbours are joined to pairs, and pairs to a number, by few
multiplications of all words at once. What comes out is what `float` reads, to the last bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

# Eight characters in a word, the first of them in its lowest byte; "0" is taken off each by XOR.
ZEROS = np.uint64(0x3030_3030_3030_3030)
SIXES, TOPS = np.uint64(0x7676_7676_7676_7676), np.uint64(0x8080_8080_8080_8080)
POINT, POINT_MASK = np.uint64((ord(".") ^ ord("0")) << 40), np.uint64(0xFF << 40)
TEN, BYTE, PAIR, HALF = np.uint64(10), np.uint64(8), np.uint64(16), np.uint64(32)
EVERY_OTHER = np.uint64(0x0000_00FF_0000_00FF)
# What the four pairs of digits count: the first and third, the second and fourth. A point in the
# place of the sixth digit is a zero that the third pair ends with, and does not count.
FIRST, SECOND = np.uint64(100 + (10**6 << 32)), np.uint64(1 + (10**4 << 32))
POINTED_FIRST, POINTED_SECOND = np.uint64(10 + (10**5 << 32)), np.uint64(1 + (10**3 << 32))
ABOVE, POINTED_ABOVE = np.uint64(10**8), np.uint64(10**7)
LONGEST = 15
"""So many digits are less than 2**53: a double holds them, and one division rounds but once."""
LAST = np.array([2**64 - 2 ** (64 - 8 * size) for size in range(9)], np.uint64)
"""The mask of a word's last characters, by their number."""


def decimals(words: Words, ends: Places, size: Places, into: Numbers) -> Places:
    """Fields like 1234 and 12.34 of up to 16 characters, and the places of those that were none.

    `words` holds the eight bytes that begin at each place; `ends` and `size` are those of fields.
    """
    # The last eight characters are one word, what is before them another.
    low = _last(words[ends - 8], size)
    pointed = (low & POINT_MASK) == POINT
    low ^= pointed * POINT
    first = np.where(pointed, POINTED_FIRST, FIRST)
    digits, odd = _digits(low, first, np.where(pointed, POINTED_SECOND, SECOND))
    long = np.flatnonzero(size > 8)
    if long.size:
        high, also = _digits(_last(words[ends[long] - 16], size[long] - 8), FIRST, SECOND)
        digits[long] += high * np.where(pointed[long], POINTED_ABOVE, ABOVE)
        odd[long] |= also
    # Read as signed, which they are below 2**53 either way: that is turned into doubles faster.
    into[:] = digits.view(np.int64)
    into /= np.where(pointed, 100.0, 1.0)
    return _odd_ones(odd, size, pointed)


def _odd_ones(odd: Words, size: Places, pointed: Mask) -> Places:
    # Mostly there is none, and one look at all of them together tells.
    if not np.bitwise_or.reduce(odd) & TOPS and size.min() > 0 and size.max() <= LONGEST:
        return np.empty(0, np.int64)
    return np.flatnonzero((odd & TOPS != 0) | (size < 1) | (size > LONGEST + pointed))


def _last(word: Words, size: Places) -> Words:
    # So many last characters of each word, "0" taken off each; nothing before them.
    word ^= ZEROS
    word &= LAST.take(size, mode="clip")
    return word


def _digits(
    word: Words, first: Words | np.uint64, second: Words | np.uint64
) -> tuple[Words, Words]:
    # Eight digits at once: neighbours are joined to pairs, then pairs to a number in the upper
    # half. The second is not 0 in TOPS where a character was no digit.
    odd = word + SIXES
    odd |= word
    pairs = word * TEN
    word >>= BYTE
    word += pairs
    np.bitwise_and(word, EVERY_OTHER, out=pairs)
    pairs *= first
    word >>= PAIR
    word &= EVERY_OTHER
    word *= second
    word += pairs
    word >>= HALF
    return word, odd
