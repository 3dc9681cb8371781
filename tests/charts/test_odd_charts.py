"""Pictures of what is no ordinary latency: zeros, many conditions, long names, no numbers."""

import json

import numpy as np
import pytest
import synthetic

from labkit import charts
from labkit.errors import BadInput

MEASURED = synthetic.measured()


@pytest.mark.slow
def test_what_a_log_scale_has_no_place_for_is_drawn_on_a_linear_one():
    idle = {"idle": {1: np.zeros(50), 2: np.ones(50)}, "early": {1: -np.ones(50)}}
    # The shares of a distribution are on a log scale of their own.
    for drawn, shares in ((charts.ladder, 0), (charts.spread, 1)):
        assert json.dumps(drawn(MEASURED).to_dict()).count('"type": "log"') > shares
        assert json.dumps(drawn(idle).to_dict()).count('"type": "log"') == shares


@pytest.mark.slow
def test_a_legend_of_many_or_long_names_has_rows():
    many = {f"condition {n}": {1: np.array([1.0, 2.0])} for n in range(30)}
    assert '"columns": 4' in json.dumps(charts.ladder(many).to_dict())
    long = {f"{'long ' * 20}{n}": {1: np.array([1.0, 2.0])} for n in range(3)}
    assert '"columns": 1' in json.dumps(charts.spread(long).to_dict())


def test_samples_that_are_no_numbers_are_not_drawn():
    with pytest.raises(BadInput, match="VM: some samples are not numbers"):
        charts.spread({"VM": {1: np.array([1.0, np.nan])}})
    with pytest.raises(BadInput, match="some values of the run are not numbers"):
        charts.round_trips(np.array([1.0, np.nan]))
