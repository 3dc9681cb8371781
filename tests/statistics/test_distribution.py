import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from labkit.errors import BadInput, ResultsError
from labkit.statistics import distribution
from labkit.statistics.distribution import Distribution, tail_note
from labkit.statistics.estimate import ratio
from labkit.statistics.percentiles import interval
from labkit.statistics.pooled import MOST_KEPT, Pooled, percentile

positive = st.just(0.0) | st.floats(1e-100, 1e100)
lots = arrays(np.float64, st.integers(1, 300), elements=positive)


@pytest.mark.slow
@settings(max_examples=100)
@given(lots, st.floats(0.1, 99.9))
def test_a_percentile_of_it_is_off_by_less_than_one_in_ten_thousand(values, q):
    pooled = Pooled.of({0: Distribution.of(values)})
    assert pooled.percentile(q) == pytest.approx(percentile(values, q), rel=6.2e-5, abs=0)
    assert pooled.percentile(0) == values.min() and pooled.percentile(100) == values.max()


@pytest.mark.slow
@settings(max_examples=100)
@given(lots, lots, lots)
def test_merging_is_the_same_as_counting_together_in_any_order(a, b, c):
    one, two, three = map(Distribution.of, (a, b, c))
    together = Distribution.of(np.concatenate([a, b, c]))
    assert Distribution.merged([three, Distribution.merged([one, two])]) == together
    assert together.size == a.size + b.size + c.size
    assert (together.least, together.most) == (
        min(map(np.min, (a, b, c))),
        max(map(np.max, (a, b, c))),
    )


@pytest.mark.slow
@settings(max_examples=50)
@given(lots)
def test_it_is_kept_as_json_and_comes_back_the_same(values):
    there = Distribution.of(values)
    back = Distribution.from_json(json.loads(json.dumps(there.as_json())))
    assert back == there
    assert (
        back.bins.tolist() == there.bins.tolist() and back.counts.tolist() == there.counts.tolist()
    )


@pytest.mark.slow
def test_a_million_samples_are_kept_in_a_few_kilobytes():
    values = np.random.default_rng(1).lognormal(4, 0.3, 1_000_000)
    assert len(json.dumps(Distribution.of(values).as_json())) < 60_000


@pytest.mark.parametrize("kind", ["float32", "int64", "strided"])
def test_numbers_of_other_kinds_are_counted_too(kind):
    values = np.arange(1, 1000) % 97 + 1
    given = (
        np.stack([values, values], 1)[:, 0].astype(float)
        if kind == "strided"
        else values.astype(kind)
    )
    assert Distribution.of(given) == Distribution.of(values.astype(float))


def test_zeros_tiny_and_huge_values_are_counted_side_by_side():
    values = np.array([0.0, -0.0, 5e-324, 1e-300, 1.0, 1e300] * 50_000)
    found = Distribution.of(values)
    assert found.size == 300_000 and found.least == 0 and found.most == 1e300
    assert Distribution.of(np.sort(values)) == found


def test_many_chunks_far_apart_stay_few_counts(monkeypatch):
    monkeypatch.setattr(distribution, "AT_ONCE", 4)
    values = np.concatenate([np.full(4, 10.0**n) for n in range(-150, 150)])
    assert Distribution.of(values).bins.size == 300
    assert Distribution.of(values).size == 1200


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "no samples"),
        ([1.0, np.nan], "not numbers"),
        ([np.inf, 1.0], "not numbers"),
        ([1.0, -2.0], "from 0 up, and there is -2"),
    ],
    ids=["none", "nan", "inf", "negative"],
)
def test_what_it_cannot_hold_is_refused(values, said):
    with pytest.raises(BadInput, match=said):
        Distribution.of(values)
    with pytest.raises(BadInput, match="no distributions"):
        Distribution.merged([])


def bomb():
    import base64
    import zlib

    return base64.b64encode(zlib.compress(b"\0" * 50_000_000)).decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"format": 2}, {"packed": "*"}, {"packed": ""}, {"packed": bomb}, {"bins": 10**12},
        {"bins": 2}, {"bins": -1}, {"least": 3.0}, {"most": float("nan")}, {"least": "x"},
        {"bins": None}, {"packed": None},
    ],
    ids=["format", "text", "empty", "bomb", "huge", "fewer", "negative", "least", "nan", "word",
         "none", "null"],
)  # fmt: skip
def test_what_was_not_kept_by_it_is_refused(change):
    change = {key: value() if value is bomb else value for key, value in change.items()}
    kept = {**Distribution.of([1.0, 2.0, 3.0]).as_json(), **change}
    tracemalloc.start()
    with pytest.raises(ResultsError, match="not a kept distribution"):
        Distribution.from_json(kept)
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()
    with pytest.raises(ResultsError):
        Distribution.from_json({})


# --- intervals --------------------------------------------------------------------------------


def blocks(seed, count=5, samples=3000):
    rng = np.random.default_rng(seed)
    return {k: np.exp(0.05 * rng.standard_normal()) * rng.lognormal(4, 0.3, samples)
            for k in range(count)}  # fmt: skip


@pytest.mark.parametrize("q", [50, 99, 99.9])
def test_intervals_of_counted_blocks_are_those_of_their_samples(q):
    a, b = blocks(1), blocks(2)
    x, y = ({k: Distribution.of(v) for k, v in side.items()} for side in (a, b))
    for exact, counted in [(interval(a, q), interval(x, q)), (ratio(a, b, q), ratio(x, y, q))]:
        assert counted.value == pytest.approx(exact.value, rel=1.3e-4)
        assert (counted.low, counted.high) == pytest.approx((exact.low, exact.high), rel=2e-3)
        assert counted.enough == exact.enough


def test_more_samples_than_are_kept_one_by_one_are_counted():
    many = blocks(3, samples=MOST_KEPT // 4)
    found, few = Pooled.of(many), Pooled.of({k: v[:1000] for k, v in many.items()})
    assert found.levels.size < 50_000 < found.size
    assert few.levels.size == few.size == 5000
    assert found.percentile(99.99) == pytest.approx(
        percentile(np.concatenate(list(many.values())), 99.99), rel=6.2e-5
    )


def test_many_samples_of_which_some_are_below_zero_are_kept():
    values = np.random.default_rng(5).standard_normal((3, MOST_KEPT))
    found = Pooled.of(dict(enumerate(values)))
    assert found.percentile(50) == percentile(values, 50)
    with pytest.raises(BadInput, match="from 0 up"):
        Pooled.of({0: Distribution.of([1.0]), 1: values[0]})


def test_one_run_of_many_samples_has_an_interval_but_not_enough_blocks():
    values = np.random.default_rng(4).lognormal(4, 0.3, 1_000_000)
    whole = interval({0: values}, 99.99)
    counted = interval({0: Distribution.of(values)}, 99.99)
    for found in (whole, counted):
        assert found.low < found.value < found.high < 1.1 * found.low and not found.enough


def test_the_tail_says_how_many_samples_it_lacks():
    assert tail_note(99.99, 20_000) == (
        "p99.99 of 20000 samples has 2 beyond it; 10 beyond it, "
        "or 100000 samples in all, are needed"
    )
    assert tail_note(99.9, 10_000) == tail_note(50, 20) == ""
    assert "1000 samples in all" in tail_note(1, 500)
