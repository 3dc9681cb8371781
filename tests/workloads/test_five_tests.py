"""Each of the five rates is the one that its own test reads, and the mean weighs all alike."""

from math import prod
from pathlib import Path

import pytest
from figures import figures

from labkit.errors import Unknown
from labkit.runs.capacity import Capacity
from labkit.workloads._lasting import lasts
from labkit.workloads.five_tests import RATES, FiveTests, text_of

TEXT = (Path(__file__).parents[1] / "cases/FiveTests/in_a_container/stdout.txt").read_text()


@pytest.mark.parametrize("test", RATES)
def test_a_rate_is_that_of_its_own_test(test):
    load, metric = RATES[test]
    alone = figures(load, text_of(test, TEXT))[metric]
    assert figures(FiveTests, TEXT)[f"performance [test={test}]"] == alone > 0


def test_twice_as_much_of_one_test_weighs_the_same_whichever_it_is():
    rates = [figures(FiveTests, TEXT)[f"performance [test={test}]"] for test in RATES]
    assert figures(FiveTests, TEXT)["performance"] == pytest.approx(prod(rates) ** 0.2)


def test_short_tests_are_repeated_after_a_break_and_long_ones_found_again():
    assert not lasts(FiveTests(percent=3, millions=17, mebibytes=64, trials=3, threads=1))
    assert lasts(FiveTests(percent=3, millions=17, mebibytes=64, trials=3, duration=9))


def test_sizes_fit_the_smallest_of_all_places():
    small = Capacity(1, 512 << 10, 400 << 10, cache=8 << 10, disk=100 << 10)
    fitted = FiveTests().fitted([Capacity(8, 64 << 20, 60 << 20, disk=1 << 30), small])
    assert fitted.threads == 1 and fitted.mebibytes == 40
    assert max(fitted.loads[test].memory for test in RATES) < small.memory
    assert all(test in fitted.scaled for test in ("linpack", "stream", "fio"))


def test_a_test_that_is_none_of_the_five_is_answered_with_those():
    with pytest.raises(Unknown, match="linpack"):
        text_of("lapack", TEXT)
