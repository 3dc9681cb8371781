"""Columns found both ways, by a list of all delimiters and by their bits, wherever parts end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_columns import csv_of

from labkit.columns import counters, read
from labkit.errors import ResultsError


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(['"', ""]), st.sampled_from(["\n", "\r\n"]))
def test_both_ways_to_find_columns_read_the_same_wherever_parts_end(
    tmp_path_factory, data, quote, end
):
    columns, rows = data.draw(st.integers(30, 90)), data.draw(st.integers(1, 9))
    texts = data.draw(st.lists(st.lists(st.sampled_from(["", "7", "12.34", "1e3", "123456789.25"]),
        min_size=columns, max_size=columns), min_size=rows, max_size=rows))  # fmt: skip
    path = tmp_path_factory.mktemp("both") / "file.csv"
    whole = csv_of(texts, quote=quote, end=end)
    path.write_text(whole[: len(whole) - data.draw(st.integers(0, 20))], newline="")
    at = data.draw(st.integers(0, columns - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labkit.lines.PIECE", data.draw(st.integers(64, 4000)))
        patch.setattr("labkit.fields.PART", data.draw(st.sampled_from([64, 128, 1 << 19])))
        for few in (0, 1 << 19):  # as few of many, and as many
            patch.setattr("labkit.columns.FEW", few)
            expected = [float(row[at] or "nan") for row in texts]
            try:
                found = read(path, [counters(path)[at]])
            except ResultsError as refused:
                assert "no rows" in str(refused) and rows == 1
            else:
                assert found.times.size in (rows, rows - 1)
                assert np.array_equal(found.values[:, 0], expected[: found.times.size], True)
