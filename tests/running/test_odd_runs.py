"""Remarks on runs that lie apart, from results on disk."""

import json

import numpy as np
import pytest
from synthetic import ping_text

from labkit import studies
from labkit.results import Results, Run
from labkit.running.remarks import odd_runs, remarks

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
