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
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

# Eight characters in a word, the first of them in its lowest byte; "0" is taken off each by XOR.
ZEROS = np.uint64(0x3030_3030_3030_3030)
SIXES, TOPS = np.uint64(0x7676_7676_7676_7676), np.uint64(0x8080_8080_8080_8080)
POINT, POINT_MASK = np.uint64((ord(".") ^ ord("0")) << 40), np.uint64(0xFF << 40)
TEN, BYTE, PAIR, HALF = np.uint64(10), np.uint64(8), np.uint64(16), np.uint64(32)
EVERY_OTHER = np.uint64(0x0000_00FF_0000_00FF)
FIRST, SECOND = np.uint64(100 + (10**6 << 32)), np.uint64(1 + (10**4 << 32))
"""What the four pairs of digits count: the first and third, the second and fourth."""
BEFORE_POINT, ONE_ON = np.uint64(2**40 - 1), np.uint64(2**8 - 1)
ABOVE, LESS_ABOVE = np.uint64(10**8), np.uint64(10**8 - 10**7)
ONE, TOP_BIT = np.uint64(1), np.uint64(63)
UNIT = np.float64(1).view(np.uint64)
HUNDRED = np.float64(100).view(np.uint64) - UNIT
LONGEST = 15
"""So many digits are less than 2**53: a double holds them, and one division rounds but once."""
LAST = np.array([2**64 - 2 ** (64 - 8 * size) for size in range(9)], np.uint64)
"""The mask of a word's last characters, by their number."""


def decimals(words: Words, ends: Places, size: Places, into: Numbers) -> Places:
    """Fields like 1234 and 12.34 of up to 16 characters, and the places of those that were none.

    `words` is all of the text; `ends` and `size` are those of fields, in bytes.
    """
    # The last eight characters are one word, what is before them another.
    low = _last(_gathered(words, ends - 8), size)
    pointed = _without_point(low)
    digits, odd = _digits(low)
    long = np.flatnonzero(size > 8)
    if long.size:
        more = size.take(long)
        more -= 8
        high, also = _digits(_last(_gathered(words, ends.take(long) - 16), more))
        if np.bitwise_or.reduce(also) & TOPS:
            odd[long] |= also
        # A point took the place of one digit.
        worth = pointed.take(long)
        worth *= LESS_ABOVE
        np.subtract(ABOVE, worth, out=worth)
        high *= worth
        high += digits.take(long)
        digits[long] = high
    # Read as signed, which they are below 2**53 either way: that is turned into doubles faster.
    into[:] = digits.view(np.int64)
    # By 1 or 100, put together from the bits of these two.
    divisor = pointed * HUNDRED
    divisor += UNIT
    into /= divisor.view(np.float64)
    return _odd_ones(odd, size, pointed.view(np.int64))


# Two words that lie as the processor wants them are fetched faster than one that lies anywhere.
def _gathered(words: Words, places: Places) -> Words:
    # The eight bytes that begin at each place; the places are used up.
    lost = (places & 7) << 3
    places >>= 3
    word = words.take(places)
    word >>= lost.view(np.uint64)
    places += 1
    rest = words.take(places)
    # All 64 bits are too far for one shift.
    np.subtract(56, lost, out=lost)
    rest <<= lost.view(np.uint64)
    rest <<= BYTE
    word |= rest
    return word


def _without_point(word: Words) -> Words:
    # 1 where the sixth character was a point: what was before it is moved into its place.
    pointed = word & POINT_MASK
    pointed ^= POINT
    pointed -= ONE
    pointed >>= TOP_BIT
    moved = word & BEFORE_POINT
    moved *= ONE_ON
    moved -= POINT
    moved *= pointed
    word += moved
    return pointed


def _odd_ones(odd: Words, size: Places, pointed: Places) -> Places:
    # Mostly there is none, and one look at all of them together tells.
    if not np.bitwise_or.reduce(odd) & TOPS and size.min() > 0 and size.max() <= LONGEST:
        return np.empty(0, np.int64)
    return np.flatnonzero((odd & TOPS != 0) | (size < 1) | (size > LONGEST + pointed))


def _last(word: Words, size: Places) -> Words:
    # So many last characters of each word, "0" taken off each; nothing before them.
    word ^= ZEROS
    word &= LAST.take(size, mode="clip")
    return word


def _digits(word: Words) -> tuple[Words, Words]:
    # Eight digits at once: neighbours are joined to pairs, then pairs to a number in the upper
    # half. The second is not 0 in TOPS where a character was no digit.
    odd = word + SIXES
    odd |= word
    pairs = word * TEN
    word >>= BYTE
    word += pairs
    np.bitwise_and(word, EVERY_OTHER, out=pairs)
    pairs *= FIRST
    word >>= PAIR
    word &= EVERY_OTHER
    word *= SECOND
    word += pairs
    word >>= HALF
    return word, odd
