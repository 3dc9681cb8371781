"""A plan and a campaign foresee the run that the notebook makes, with the notebook's values."""

import pytest

from labkit import studies
from labkit.running.notebook import as_run, usual_values


@pytest.mark.parametrize("name", ["lat_netperf", "lat_cpu_exclusive", "docker_fio", "lat_ping"])
def test_a_load_lasts_as_long_as_the_notebook_says(name):
    study, values = studies.find(name), usual_values(studies.find(name))
    planned, blocks = as_run(study, {}, "box")
    knobs = vars(planned.workload)
    assert {n: v for n, v in values.items() if n in knobs}.items() <= knobs.items()
    assert blocks == values["repeats"]
    assert as_run(study, {"repeats": 9}, "box") == (planned, 9)


@pytest.mark.parametrize("name", ["ld_vmotion", "vcenter_ha"])
def test_conditions_that_take_long_are_planned_only_if_asked_for(name):
    study = studies.find(name)
    names = {c.name for c in as_run(study, {}, "box")[0].conditions}
    assert names == {c.name for c in study.conditions} - {*study.extra}
    assert len(as_run(study, {"every": True}, "box")[0].conditions) == len(study.conditions)


def test_a_short_run_has_few_conditions_and_its_own_sizes():
    study = studies.find("hadoop_v6")
    short, blocks = as_run(study, {"quick": True}, "box")
    assert {c.name for c in short.conditions} == {*study.few}
    assert (blocks, short.workload.rows) == (study.quick["repeats"], study.quick["rows"])


@pytest.mark.parametrize("name, runs", [("docker_fio", 3), ("lat_netperf", 0)])
def test_a_plan_on_this_machine_says_what_it_leaves_out(name, runs, typed):
    out = typed("plan", name, "--lab", "local")
    assert "VM" in out.partition("Left out there:")[2] and "No setting was touched" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    says = f"{runs} runs of about" if runs else "no condition can be measured there"
    assert says in " ".join(out.split()) and ("blocks would find" in out) == bool(runs)


@pytest.mark.parametrize("words, why", [
    (["--condition", "VM [rtt=25]"], "did you mean 'VM [rtt=25ms]'"),
    (["-p", "line=100"], "does not take line"),
    (["--quick", "-p", "duration=3"], "a quick run of ld_vmotion sets"),
    (["-p", "repeats=until decided"], "a plan is of a number of blocks"),
])  # fmt: skip
def test_bad_words_end_a_plan_before_a_box_is_made(words, why, monkeypatch, typed):
    monkeypatch.setattr("labkit.box.up", None)
    assert why in typed("plan", "ld_vmotion", *words, code=2)
