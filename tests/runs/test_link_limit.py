"""A stream that is as fast as its link says so, with what to look at in its place."""

import re
from dataclasses import replace

import pytest

from labkit.results import Results
from labkit.running.open_lab import recorded
from labkit.running.remarks import link_limit


def limited(tmp_path, links, slow=""):
    """The recorded streams, as if their links had been these, and one condition half as fast."""
    source = Results.open(recorded("docker_netperf"))
    asked = {**source.asked, "lab": {**source.asked["lab"], "links": links}}
    results = Results.begin(tmp_path / "streams", asked)
    for run in source.finished():
        texts = {name: run.text(name) for name in run.raw}
        share = 0.5 if run.condition == slow else 1
        rows = [{**row, "p50": row["p50"] * share} for row in run.rows]
        results.keep(replace(run, rows=rows), texts)
    return link_limit(results)


def conditions(remark):
    return set(re.search(" in (.*): that hides", remark)[1].split(", "))


def test_only_streams_that_fill_the_link_are_named(tmp_path):
    said = limited(tmp_path, {"client": {"rate": "1 Gbit/s"}}, slow="VM")
    assert said and all("link of client, 1000 Mbit/s" in one for one in said)
    sent = next(one for one in said if "way=send" in one)
    assert {"Native", "VM-Docker"} <= conditions(sent) and "VM" not in conditions(sent)
    assert "CPU time per gigabyte" in sent


@pytest.mark.parametrize(
    "links", [{}, {"client": {"delay": "1 ms"}}, {"client": {"rate": "10 Gbit/s"}}]
)
def test_where_no_link_is_the_limit_nothing_is_said(tmp_path, links):
    assert limited(tmp_path, links) == []
