"""HdrHistogram's compressed form, held against what the hdrhistogram package wrote."""

import pytest

from labkit.errors import ResultsError
from labkit.statistics.hdr_histogram import decoded

# HdrHistogram(1, 3_600_000_000, 3) of 5, 7, 7, 2500 and 1,000,000, by hdrhistogram 0.10.8.
KNOWN = "HISTFAAAACt4nJNpmSzMwMDAzQABzFCaEURcm7yEwf4DRICTiZFlszLT7y5GJgCQegcC"


def test_what_another_library_wrote_is_read_to_three_digits():
    values, counts = decoded(KNOWN)
    assert counts.tolist() == [1, 2, 1, 1]
    assert values == pytest.approx([5, 7, 2500, 1_000_000], rel=1e-3)


@pytest.mark.parametrize("text", ["", "HISTF", KNOWN[:-8], KNOWN[:20] + "AAAA" + KNOWN[24:], "é"])
def test_what_is_no_histogram_is_refused(text):
    with pytest.raises(ResultsError):
        decoded(text)
