"""Remarks on runs that lie apart, and on streams that are as fast as their link."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from synthetic import ping_text

from labkit import studies
from labkit.results import Results, Run
from labkit.running.open_lab import recorded
from labkit.running.remarks import link_limit, odd_runs, remarks

STUDY = studies.find("lat_ping")


def results_of(tmp_path, medians):
    results = Results.begin(tmp_path / "r", {**STUDY.asked("box", 1), "lab": {"name": "l"}})
    rng, order = np.random.default_rng(1), 0
    for block in range(len(next(iter(medians.values())))):
        for name, figures in medians.items():
            order += 1
            odd = {"server": {"steal": "3 %"}} if figures[block] == 16 else {}
            run = Run(name, block + 1, order, "finished", gates=odd,
                      started=f"2026-01-01T10:{order:02d}:00.000+00:00")  # fmt: skip
            values = np.round(figures[block] + rng.normal(0, 0.6, 300)).clip(1)
            results.keep(run, {"ping.txt": ping_text(values)})
    return results


def test_a_block_apart_is_named_with_its_time_its_gates_and_nothing_is_dropped(tmp_path):
    results = results_of(tmp_path, {"Native": [9, 9, 9, 16, 9], "VM-SRIOV": [30, 31, 29, 30, 30]})
    said = [line for line in remarks(STUDY, results) if "lies apart" in line]
    assert len(said) == 1
    assert said[0].startswith("Native: block 4 lies apart, with a median of 16 µs where the others")
    assert "it was run 7 of 10, at 10:07; its gates saw steal on server" in said[0]
    assert len(results.finished()) == 10 and json.dumps(said)


def test_what_is_nothing_in_most_blocks_is_no_measure_of_the_others(tmp_path):
    results = results_of(tmp_path, {"Native": [9] * 6, "VM-SRIOV": [30] * 6})
    seldom = {block: np.array([5.0 * (block == 4)]) for block in range(1, 7)}
    steady = {block: np.array([30.0]) for block in range(1, 7)}
    assert odd_runs(results, {"Native": seldom, "VM-SRIOV": steady}, "us") == []


@pytest.mark.slow
def test_two_states_and_the_run_from_which_all_was_slower_are_named(tmp_path):
    later = [20] * 6 + [40] * 6
    results = results_of(tmp_path, {"Native": later, "VM-SRIOV": [2 * x for x in later]})
    text = "\n".join(remarks(STUDY, results))
    assert "Native: these runs come from two states, of 20 µs (blocks 1, 2, 3, 4, 5, 6)" in text
    assert "more blocks of each are needed" in text
    assert "from run 13 on (Native, block 7) all conditions were slower by about" in text


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
