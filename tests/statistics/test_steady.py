import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from measurable import measurable

from labkit.errors import BadInput
from labkit.statistics.steady import BATCH, _rank, steady, told, warm_up


def related(rng, size, phi):
    noise = rng.standard_normal(size) * np.sqrt(1 - phi**2)
    return scipy.signal.lfilter([1], [1, -phi], noise)


def warming(rng, size=3000, until=600, by=3.0, phi=0.5):
    """A run that begins slow and gets quicker until it is steady."""
    slow = by * np.clip(1 - np.arange(size) / until, 0, None)
    return np.exp(4 + 0.2 * (related(rng, size, phi) + slow))


@pytest.mark.parametrize("until", [100, 300, 600])
def test_a_warm_up_is_found_about_where_it_ends(until):
    rng = np.random.default_rng(1)
    cuts = [warm_up(warming(rng, until=until)) for _ in range(60)]
    # The last third of the slope is within the scatter of what follows.
    assert 0.4 * until < np.median(cuts) < 1.3 * until


def test_a_run_without_warm_up_loses_little():
    rng = np.random.default_rng(2)
    found = [steady(np.exp(0.2 * related(rng, 3000, 0.5))) for _ in range(100)]
    assert np.mean([run.steady for run in found]) > 0.9
    assert np.median([run.share_cut for run in found]) < 0.05


def test_one_late_stall_does_not_hide_the_warm_up():
    values = warming(np.random.default_rng(3))
    values[2900] *= 100_000
    assert 200 < warm_up(values) < 1000


def test_a_run_that_never_settles_says_so():
    values = warming(np.random.default_rng(4), until=3000, by=20)
    found = steady(values)
    assert not found.steady and found.cut >= 1500


def test_mser_is_the_definition_of_the_paper():
    ranks = scipy.stats.rankdata(values := np.random.default_rng(5).lognormal(4, 0.3, 400))
    batches = ranks.reshape(-1, BATCH).mean(axis=1)
    errors = [np.sum((batches[d:] - batches[d:].mean()) ** 2) / (batches.size - d) ** 2
              for d in range(batches.size - 5)]  # fmt: skip
    assert warm_up(values) == BATCH * int(np.argmin(errors))


def test_ranks_are_scipys():
    for values in ([3.0, 1, 3, 2, 3], np.ones(60), np.random.default_rng(3).integers(0, 9, 500)):
        assert (_rank(np.asarray(values, float)) == scipy.stats.rankdata(values)).all()


@pytest.mark.slow
@settings(max_examples=100)
@given(arrays(np.float64, st.integers(1, 400), elements=measurable(1e9)))
def test_any_run_has_an_answer(values):
    found = steady(values)
    assert 0 <= found.cut < found.samples == values.size


def test_too_few_samples_are_not_called_steady():
    assert not steady(np.ones(49)).steady
    assert steady(np.ones(50)).steady and steady(np.ones(50)).cut == 0
    with pytest.raises(BadInput, match="not numbers"):
        steady([1.0, np.nan])


def test_a_study_is_told_of_warm_ups_and_of_runs_that_never_settle():
    rng = np.random.default_rng(9)
    calm = {b: rng.lognormal(4, 0.2, 2000) for b in range(8)}
    assert told({"calm": calm}) == []
    assert told({"one": {**calm, 3: warming(rng, until=300, by=3)}}) == [], "it may be chance"
    warm = {**calm, **{b: warming(rng, until=300, by=3) for b in range(6)}}
    (said,) = told({"warm": warm})
    assert said.startswith("warm: 6 of 8 runs begin with a warm-up, the longest of ")
    assert said.endswith("samples; nothing was cut")
    restless = {b: warming(rng, until=3000, by=20) for b in range(2)}
    assert told({"x": restless}) == ["x: 2 of 2 runs were still changing in their second half"]
    assert told({"few": {1: np.ones(10)}}) == []
