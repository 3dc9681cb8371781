"""Marks in a stream are found, however the bytes arrive, and nothing else is taken for one."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.ssh.shell import LONGEST_MARK, BrokenStream, Marked

NONCE = b"9c0d1f9c0d2e9c0d1f9c0d3b00000099"
# Pieces that make life hard: parts of the mark, the mark of somebody else, ends of lines.
PIECES = [b"", b"9", b"9c0d", b"\n", b" 1 0\n", b"1e" * 16, NONCE[:31] + b"8", bytes(range(256))]
WORDS = [b"1", b"23", b"0", b"-", b"left", b"99.01"]
EACH = 100


def read(parts):
    marked, outputs, marks = Marked(NONCE), [b""], []
    for part in parts:
        for piece in marked.feed(part):
            if isinstance(piece, tuple):
                marks.append(list(piece))
                outputs.append(b"")
            else:
                outputs[-1] += piece
    return outputs, marks, marked


def cut(whole, at):
    edges = sorted({0, len(whole), *(n % (len(whole) + 1) for n in at)})
    return [whole[a:b] for a, b in itertools.pairwise(edges)]


def output(chance):
    pieces = [*PIECES, NONCE[: chance.randrange(32)], NONCE[chance.randrange(1, 32) :]]
    return b"".join(chance.choices(pieces, k=chance.randrange(5)))


@pytest.mark.slow
@settings(max_examples=100_000 // EACH)
@given(st.integers(0, 1 << 64))
def test_every_output_arrives_whole_between_its_marks(seed):
    chance = random.Random(seed)
    for _ in range(EACH):
        outputs = [output(chance) for _ in range(chance.randrange(4))]
        said = [chance.choices(WORDS, k=chance.randrange(6)) for _ in outputs]
        text = b"".join(
            out + NONCE + b" " + b" ".join(words) + b"\n"
            for out, words in zip(outputs, said, strict=True)
        )
        # An output that ends as the mark begins could make one with it; a real one is random.
        if any((out + NONCE).find(NONCE) != len(out) for out in outputs):
            continue
        cuts = [chance.randrange(len(text) + 1) for _ in range(chance.randrange(8))]
        found, marks, _ = read(cut(text, cuts))
        assert (found, marks) == ([*outputs, b""], said)


@pytest.mark.parametrize("size", range(1, 80))
def test_parts_of_every_size(size):
    whole = b"9c0d" + NONCE + b" 1 0\n\n" + NONCE + b" 2 left\nrest9c0"
    outputs, marks, _ = read([whole[at : at + size] for at in range(0, len(whole), size)])
    assert marks == [[b"1", b"0"], [b"2", b"left"]]
    assert outputs == [b"9c0d", b"\n", b"rest"]


def test_what_cannot_be_a_mark_is_handed_out_at_once():
    assert list(Marked(NONCE).feed(b"prompt> ")) == [b"prompt> "]
    assert list(Marked(NONCE).feed(b"x" + NONCE[:31])) == [b"x"]


def test_a_mark_without_end_is_broken_and_holds_little():
    marked = Marked(NONCE)
    with pytest.raises(BrokenStream):
        for _ in range(LONGEST_MARK):
            list(marked.feed(b"" if _ else NONCE))
            list(marked.feed(b"x"))


def test_much_is_passed_on_without_being_held():
    marked, block, size = Marked(NONCE), b"9c0d" * (1 << 14), 0
    for _ in range(200):
        size += sum(len(piece) for piece in marked.feed(block))
    assert size > 199 * len(block)
