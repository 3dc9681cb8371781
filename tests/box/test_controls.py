"""The controls of a real lab: what is put into its link is found, and the link is as it was."""

import pytest
from boxes import NAME

from labkit.box.network.shaping import Shaping
from labkit.controls import kept
from labkit.running import control_runs

pytestmark = pytest.mark.box


def test_a_known_delay_is_found_with_its_size_and_taken_out_again(lab, monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    said = []
    found = control_runs.measure(lab, blocks=3, say=said.append)
    assert found.size_found, found.lines()
    assert found.put_in == 500 and found.equal.enough and len(said) == 12
    assert not Shaping.of(NAME).links
    assert kept(lab.name) == found
