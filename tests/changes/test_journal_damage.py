"""A journal that was cut, damaged, or written by a later labkit: found out, and nothing guessed."""

import io
import re
from itertools import product

import pytest
from knobs import HERE, NEW

from labkit.changes.journal import history, lines_of
from labkit.changes.journal_lines import decoded, frames
from labkit.changes.restore import restore
from labkit.errors import JournalDamaged

SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "cut", [1, 7, *(pytest.param(n, marks=SLOW) for n in (2, 3, 4, 5, 6, 8, 9))]
)
def test_a_journal_cut_anywhere_makes_no_wrong_value(bench, cut):
    bench.apply()
    file = bench.changes / "1.open"
    content = file.read_bytes()
    file.write_bytes(content[: len(content) * cut // 12])
    bench.restore(flags="breaking")
    assert set(bench.values().values()) <= {"old\n", "new\n"}
    assert all((bench.changes / name).exists() for name in bench.left())


def test_what_is_damaged_is_said_with_the_part_that_can_be_read(bench):
    whole = as_applied(bench)
    (bench.changes / "1.open").write_bytes(with_flipped(whole, len(whole) // 2, 0))
    done = bench.restore(flags="breaking")
    assert "damaged" in done.stdout and bench.values() == NEW
    (one,) = history(HERE)
    assert one.damage and one.damage.split("\n")[0] in "\n".join(lines_of(one))


def with_flipped(whole, at, bit):
    return bytes([*whole[:at], whole[at] ^ 1 << bit, *whole[at + 1 :]])


def believed(bench, journals):
    """Which of these journals the script does not call damaged."""
    bench.reset()
    bench.apply()
    # Each is a change set of its own, so that the script need be started only once.
    for n, journal in enumerate(journals, 1):
        (bench.changes / f"{n}.open").write_bytes(journal)
    said = decoded(bench.restore(flags="breaking").stdout)
    damaged = re.findall(r"damaged \S+/(\d+)\.open", said)
    assert bench.values() == NEW and len(bench.left()) == len(journals)
    return {*range(1, len(journals) + 1)} - {*map(int, damaged)}


def as_applied(bench):
    bench.apply()
    return (bench.changes / "1.open").read_bytes()


# All but the very last byte, the end of its line: without it that is a torn tail, and no damage.
@pytest.mark.slow
def test_a_flipped_bit_in_any_byte_is_found_by_labkit(bench):
    whole = as_applied(bench)
    for at, bit in product(range(len(whole) - 1), range(8)):
        changed = with_flipped(whole, at, bit).decode("utf-8", "surrogateescape")
        with pytest.raises(JournalDamaged):
            list(frames(io.StringIO(changed), "1.open"))


# One bit of each byte, another each time; all of them in `make torture`.
@pytest.mark.when_changed("labkit/changes/", "labkit/machine/stopping.py")
@pytest.mark.slow
@pytest.mark.parametrize(
    "bit", [None, *(pytest.param(n, marks=pytest.mark.torture) for n in range(8))]
)
def test_a_flipped_bit_in_any_byte_is_found_by_the_script_and_nothing_is_put_back(bench, bit):
    whole = as_applied(bench)
    changed = [
        with_flipped(whole, at, at % 8 if bit is None else bit) for at in range(len(whole) - 1)
    ]
    for first in range(0, len(changed), 150):
        assert believed(bench, changed[first : first + 150]) == set()


@pytest.mark.torture
def test_a_journal_cut_at_any_length_makes_no_wrong_value(bench):
    whole = as_applied(bench)
    for length in range(len(whole)):
        bench.reset()
        bench.apply()
        (bench.changes / "1.open").write_bytes(whole[:length])
        bench.restore(flags="breaking")
        assert set(bench.values().values()) <= {"old\n", "new\n"}


def test_nothing_is_put_back_by_the_journal_of_a_later_labkit(bench):
    file = bench.changes / "1.open"
    file.write_bytes(as_applied(bench).replace(b"labkit1 ", b"labkit2 "))
    found = restore(HERE, breaking=True)
    assert not found.ok and "a later labkit wrote it" in str(found) and bench.values() == NEW
    (one,) = history(HERE)
    assert "is written as labkit2; this labkit reads labkit1" in one.damage
    assert bench.left() == ["1.open"]
