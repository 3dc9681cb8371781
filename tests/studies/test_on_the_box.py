"""Each study runs on the lab in a box: quickly, judged, and with everything put back.

`make test` runs `lat_ping` and the studies whose own parts have changed; `make torture`, all.
"""

import json
from pathlib import Path

import pytest
from brought import bring
from changed import PAIR, changed
from simulator import simulator_or_skip

from labkit import kernels, studies
from labkit.changes.journal import hello
from labkit.lab import opened
from labkit.results import Results
from labkit.workloads.management import Management

pytestmark = [pytest.mark.box, pytest.mark.slow]


def pytest_generate_tests(metafunc):
    """Studies of one topology follow each other, so that each box is made once."""
    every = "torture" in metafunc.config.getoption("markexpr")
    chosen = [studies.find(name) for name in (studies.names() if every else changed())]
    if not every:  # a draft has not run whole yet, and says so
        chosen = [study for study in chosen if not study.draft]
    chosen.sort(key=lambda study: study.topology)
    marks = [pytest.mark.torture] if every else []
    metafunc.parametrize("name", [pytest.param(one.name, marks=marks) for one in chosen])


def test_a_quick_run_measures_judges_and_puts_everything_back(name, box_of, labkit):
    study = studies.find(name)
    if isinstance(study.workload, Management):
        simulator_or_skip()
    bring(*study.loads)
    lab_file = box_of(study.topology or PAIR)
    result = labkit("run", name, "--quick", "--where", str(lab_file), "--json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    results = Results.open(Path(answer["results"]))
    own_kernels = results.asked.get("kernels")
    label = f"One machine. {kernels.told(own_kernels)}." if own_kernels else "Emulated"
    assert answer["note"].startswith(label)
    assert measured(results) == asked(study, results)
    assert all(run.check() == [] and (run.rows or run.why) for run in results.runs())
    assert [verdict["claim"] for verdict in answer["verdicts"]] == [
        claim.id for claim in study.claims
    ]
    assert Path(answer["report"]).stat().st_size > 10_000
    with opened(lab_file) as lab:
        assert [hello(host).open for host in lab.hosts.values()] == [()] * len(lab.hosts)


def asked(study, results):
    """The conditions of a quick run that the lab can do, at least one, in each of its blocks."""
    refused = results.asked["refused"]
    assert all(refused.values()), "a condition that cannot be measured says why"
    usual = {condition.name for condition in study.conditions} - set(study.extra)
    names = set(study.few or usual) - refused.keys()
    assert names, refused
    return {(name, block) for name in names for block in range(1, study.quick["repeats"] + 1)}


def measured(results):
    """Each condition and block that a run was finished of."""
    return {(run.condition, run.block) for run in results.finished()}
