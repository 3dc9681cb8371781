"""What polars reads at once is what is read field by field, of whole and of damaged files."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import ResultsError
from labkit.telemetry.counters import counters, read
from tests.telemetry.test_columns import by_hand, csv_of

pytestmark = pytest.mark.slow


@settings(max_examples=100)
@given(st.data(), st.sampled_from(['"', ""]), st.sampled_from(["\n", "\r\n"]))
def test_both_ways_to_read_columns_find_the_same(tmp_path_factory, data, quote, end):
    columns, rows = data.draw(st.integers(30, 90)), data.draw(st.integers(1, 9))
    texts = data.draw(st.lists(st.lists(st.sampled_from(["", "7", "12.34", "1e3", "123456789.25"]),
        min_size=columns, max_size=columns), min_size=rows, max_size=rows))  # fmt: skip
    path = tmp_path_factory.mktemp("both") / "file.csv"
    whole = csv_of(texts, quote=quote, end=end)
    path.write_text(whole[: len(whole) - data.draw(st.integers(0, 20))], newline="")
    at = data.draw(st.integers(0, columns - 1))
    with pytest.MonkeyPatch.context() as patch:
        for hand in (False, True):
            if hand:
                by_hand(patch)
            expected = [float(row[at] or "nan") for row in texts]
            try:
                found = read(path, [counters(path)[at]])
            except ResultsError as error:
                assert "no rows" in str(error) and rows == 1
            else:
                assert found.times.size in (rows, rows - 1)
                assert np.array_equal(found.values[:, 0], expected[: found.times.size], True)


ODD = [
    b"", b",", b"\n", b'"', b'"\n"', b"\r", b"x", b'",\n', b" " * 40, b"\n\n", b'"(PDH-CSV', b"\0",
]  # fmt: skip


@settings(max_examples=150)
@given(st.data(), st.sampled_from(['"', ""]))
def test_a_damaged_file_gives_the_same_both_ways(tmp_path_factory, data, quote):
    rows = [[f"{7 * row + place}.25" for place in range(35)] for row in range(12)]
    whole = csv_of(rows, quote=quote).encode()
    body = whole.index(b"\n") + 1
    again = data.draw(st.sampled_from([b"", whole[:body], whole[body:], b"The end.\n"]))
    at = data.draw(st.integers(body, len(whole)))
    # As likely as not where a line ends, which is where most depends on it.
    if at % 2:
        at = max(body, whole.rindex(b"\n", 0, at) + data.draw(st.sampled_from([0, 1])))
    left = at + data.draw(st.integers(0, 12))
    path = tmp_path_factory.mktemp("damaged") / "file.csv"
    path.write_bytes(whole[:at] + data.draw(st.sampled_from(ODD)) + again + whole[left:])
    names = [counters(path)[data.draw(st.sampled_from([0, 7, 34]))]]
    told = []
    with pytest.MonkeyPatch.context() as patch:
        for hand in (False, True):
            if hand:
                by_hand(patch)
            try:
                found = read(path, names)
                told.append((found.times.tolist(), found.values.tolist(), found.cut))
            except ResultsError as error:
                told.append(str(error))
    assert repr(told[0]) == repr(told[1])
