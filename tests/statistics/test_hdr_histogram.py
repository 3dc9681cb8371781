"""HdrHistogram's compressed form, held against what the hdrhistogram package wrote."""

import numpy as np
import pytest
from synthetic import write_results

from labkit import imports, studies
from labkit.errors import BadInput, ResultsError
from labkit.running.histogram_log import histogram_log
from labkit.statistics.hdr_histogram import decoded, encoded

# HdrHistogram(1, 3_600_000_000, 3) of 5, 7, 7, 2500 and 1,000,000, by hdrhistogram 0.10.8.
KNOWN = "HISTFAAAACt4nJNpmSzMwMDAzQABzFCaEURcm7yEwf4DRICTiZFlszLT7y5GJgCQegcC"


def test_what_another_library_wrote_is_read_to_three_digits():
    values, counts = decoded(KNOWN)
    assert counts.tolist() == [1, 2, 1, 1]
    assert values == pytest.approx([5, 7, 2500, 1_000_000], rel=1e-3)


@pytest.mark.parametrize("digits", [1, 2, 3, 5])
def test_values_come_back_within_their_digits_as_often_as_they_were(digits):
    given = np.round(np.random.default_rng(digits).lognormal(9, 2, 3000))
    values, counts = decoded(encoded(given, digits))
    assert np.repeat(values, counts.astype(int)) == pytest.approx(np.sort(given), rel=10.0**-digits)


@pytest.mark.parametrize("given", [[], [-1], [np.nan], [1e30]])
def test_what_it_cannot_hold_is_refused(given):
    with pytest.raises(BadInput):
        encoded(np.array(given, float))


@pytest.mark.parametrize("text", ["", "HISTF", KNOWN[:-8], KNOWN[:20] + "AAAA" + KNOWN[24:], "é"])
def test_what_is_no_histogram_is_refused(text):
    with pytest.raises(ResultsError):
        decoded(text)


def test_results_go_out_as_a_log_and_come_in_again(tmp_path):
    results = write_results(tmp_path / "r", studies.find("lat_ping"), repeats=1, count=200)
    found = imports.find("hdr_histogram").read(histogram_log(results))
    assert len(found) == len(results.finished())
    native = next(one for one in found if one.metric == "Native-b1")
    sample = studies.find("lat_ping").sample(results.finished()[0])
    assert native.values == pytest.approx(np.sort(1000 * sample.values), rel=1e-3)
