"""A sweep is drawn: the figure of a study against the parameter that was varied."""

import re

import pytest
from campaigns import made_up

from labkit.campaign.report import sweeps, write

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))


def test_a_sweep_has_a_picture_of_its_figure_by_its_parameter(tmp_path):
    campaign = made_up(tmp_path, "swept", 2, sweep=(300, 600, 900))
    (drawn,) = sweeps(campaign)
    assert "lat_ping on recorded: " in drawn and " by count" in drawn and "VM-Default" in drawn
    assert "at 300.0: " in drawn and "at 900.0: " in drawn
    assert "<h2>Sweeps</h2>" in write(campaign).read_text("utf-8")


def test_of_one_value_there_is_no_sweep(tmp_path):
    assert not [*sweeps(made_up(tmp_path, "single", 1))]


def test_the_columns_of_verdicts_are_in_the_order_of_their_numbers(tmp_path):
    text = write(made_up(tmp_path, "ordered", 1, sweep=(900, 1200, 300))).read_text("utf-8")
    heads = re.findall(r"<th[^>]*>recorded: count=(\d+)", text)
    assert heads[:3] == ["300", "900", "1200"]
