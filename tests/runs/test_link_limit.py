"""A stream that is as fast as its link says so, with what to look at in its place."""

import json

import pytest

from labkit.results import Results
from labkit.running.open_lab import recorded
from labkit.runs import link_limit


def limited(tmp_path, links):
    """The recorded streams, as if their links had been these."""
    source = Results.open(recorded("docker_netperf"))
    asked = {**source.asked, "lab": {**source.asked["lab"], "links": links}}
    (tmp_path / "runs").symlink_to(source.path / "runs")
    (tmp_path / "study.json").write_text(json.dumps(asked))
    return link_limit.remarks(Results.open(tmp_path))


def test_only_streams_that_fill_the_link_are_named(tmp_path):
    said = limited(tmp_path, {"client": {"rate": "1 Gbit/s"}})
    assert said and all("link of client, 1000 Mbit/s" in one for one in said)
    sent = next(one for one in said if "way=send" in one)
    assert "Native" in sent and "VM" not in sent
    assert "CPU time per gigabyte" in sent


@pytest.mark.parametrize(
    "links", [{}, {"client": {"delay": "1 ms"}}, {"client": {"rate": "10 Gbit/s"}}]
)
def test_where_no_link_is_the_limit_nothing_is_said(tmp_path, links):
    assert limited(tmp_path, links) == []
