"""What each study shows without a lab: it is declared, its claims can fail, its notebook runs.

A study adds no test: these and those of `test_on_the_box.py` walk `labkit/studies`.
"""

import ast
import asyncio
import inspect
import json
import re
import subprocess
from pathlib import Path

import nbformat
import pytest
from planted import verdicts

from labkit import studies
from labkit.box import topology
from labkit.claim import NotHere
from labkit.claims import published
from labkit.errors import ResultsError
from labkit.machine.places import HOME
from labkit.results import Results
from labkit.running import notebook
from labkit.running.open_lab import recorded, shortened, usual, with_load
from labkit.runs import bundle
from labkit.verdict import CONTRADICTED, HOLDS

MOST_RECORDED, MOST_CLONE = 2 << 20, 120_000_000
CASES = Path(__file__).resolve().parents[1] / "cases"
TOPOLOGY = "pair"


def test_every_study_is_declared_wholly():
    for name in studies.names():
        study, document = studies.find(name), published.published(name).document.split(" (")[0]
        assert study.name == name
        assert study.title and study.question.endswith("?"), f"{name}: a title, a question?"
        assert document in study.source, f"{name}: its source does not name {document}"
        assert study.claims == published.of(name), f"{name}: it judges what is claimed in it"
        conditions = [condition.name for condition in study.conditions]
        assert conditions and len(set(conditions)) == len(conditions), f"{name}: {conditions}"
        for condition in study.conditions:
            assert condition.means and condition.here, f"{name}: {condition.name} means nothing"
        topology.find(study.topology or TOPOLOGY)


def test_a_quick_run_of_every_study_asks_for_what_its_workload_knows():
    for name in studies.names():
        study = studies.find(name)
        knobs = {knob: value for knob, value in study.quick.items() if knob != "repeats"}
        assert study.quick.get("repeats"), f"{name}: quick names no repeats"
        short = with_load(shortened(study, "box"), **knobs)
        few = [condition.name for condition in short.conditions]
        assert set(study.few) <= set(few) and (few == list(study.few) or not study.few), name
        cells = notebook.notebook(name).read_text()
        assert set(re.findall(r'by_hand = \\"(.+?)\\"\\n', cells)) <= set(few), name
        for condition in short.conditions:
            assert all(condition.load(load) for load in short.loads), name


def test_what_a_usual_run_leaves_out_is_asked_for_by_no_claim_and_can_be_asked_for():
    for name in studies.names():
        study = studies.find(name)
        names = [condition.name for condition in usual(study, "box").conditions]
        assert set(study.extra) == {condition.name for condition in study.conditions} - set(
            names
        ), name
        asked = {one.rpartition(": ")[2] for claim in study.claims for one in claim.names()}
        assert not asked & set(study.extra) and not set(study.few) & set(study.extra), name
        known = notebook.parameters(notebook.notebook(name)) if study.extra else {"every": {}}
        assert "every" in known, f"{name}: nobody can ask for {study.extra}"


def measurable(study):
    """The metrics that its workloads read from what their tools really printed."""
    found = {}
    events = {type(event) for condition in study.conditions for event in condition.events}
    found |= {metric: unit for event in events for metric, unit in event.measures.items()}
    for load in study.loads:
        cases = list((CASES / type(load).__name__).glob("*/expected.json"))
        assert cases, f"{study.name}: tests/cases/{type(load).__name__} has no output of its tool"
        for case in cases:
            read = json.loads(case.read_text())
            found |= {one["metric"]: one["unit"] for one in read if isinstance(read, list)}
    return found


def test_a_workload_measures_what_it_says_and_nothing_else():
    loads = {type(load) for name in studies.names() for load in studies.find(name).loads}
    for kind in (kind for kind in loads if kind.measures):
        read = [json.loads(case.read_text())
                for case in (CASES / kind.__name__).glob("*/expected.json")]  # fmt: skip
        metrics = {row["metric"].partition(" [")[0] for rows in read if isinstance(rows, list)
                   for row in rows}  # fmt: skip
        assert {*kind.measures} == metrics, kind.__name__
    assert sum(bool(kind.measures) for kind in loads) > 10


def measured(study, metric, named, known, there):
    """A point that the metric has in a tool's output may stand behind the condition's name."""
    condition, _, point = named.partition(" [")
    own = max(
        (one for one in known if one.endswith("]") and named.startswith(f"{one[:-1]}, ")),
        key=len, default="",
    )  # fmt: skip
    if own:  # a condition at a point of its own
        condition, point = own, named.removeprefix(f"{own[:-1]}, ")
    at_point = f"{metric or study.metric}_[{point}".replace(" ", "_")
    alone = named in known and (not metric or metric in there)
    return alone or (condition in known and at_point in there)


def test_every_claim_of_a_study_is_about_what_it_measures_or_says_why_not():
    for name in studies.names():
        study = studies.find(name)
        metrics, known = measurable(study), {condition.name for condition in study.conditions}
        assert metrics.get(study.metric) == study.unit, f"{name}: {metrics} in no case"
        there = {metric.replace(" ", "_") for metric in metrics}
        for claim in study.claims:
            names = [one.rpartition(": ")[::2] for one in claim.names()]
            lacking = [(m, c) for m, c in names if not measured(study, m, c, known, there)]
            reasons = {*study.unmeasured, *(study.untold if study.draft else ())}
            told = [reason for reason in reasons if any(reason in f"{m}: {c}" for m, c in names)]
            assert not lacking or told, f"{claim.id}: {lacking} is not measured; see `unmeasured`"


@pytest.mark.slow
@pytest.mark.parametrize("study", published.names())
def test_each_claim_can_hold_and_can_fail_or_it_would_say_nothing(study):
    for claim in published.of(study):
        if not isinstance(claim, NotHere):
            found = verdicts(claim)
            assert {HOLDS, CONTRADICTED} <= found, f"{claim.id} can only be {found}"


@pytest.mark.slow
def test_what_is_recorded_of_a_study_is_one_small_file_and_whole():
    files = list((HOME / "data/recorded").iterdir())
    assert {file.suffix for file in files} == {bundle.SUFFIX}, "labkit results export --small"
    for file in files:
        assert file.stat().st_size <= MOST_RECORDED, f"{file.name}: fewer or shorter runs, please"
        results = Results.open(bundle.open_bundle(file))
        assert results.study == file.stem and results.finished(), file.name
        usual_box = studies.find(results.study).topology or "lab"
        assert results.asked["lab"]["name"] == usual_box, f"{file.name}: `labkit run` names boxes"
        assert [line for run in results.runs() for line in run.check()] == [], file.name
        assert all(run.raw for run in results.finished()), f"{file.name} lacks raw text"


def test_recorded_runs_have_controls():
    """All but one: later runs of it, which have them, say less."""
    bundles = [bundle.open_bundle(file) for file in (HOME / "data/recorded").iterdir()]
    lacking = {r.study for r in map(Results.open, bundles) if "controls" not in r.asked}
    assert lacking == {"docker_linpack"}


def test_a_clone_stays_small():
    words = ["git", "-C", str(HOME)]
    usage = [*words, "rev-list", "--objects", "--disk-usage", "HEAD"]
    history = subprocess.run(usage, capture_output=True, text=True)
    if history.returncode:
        pytest.skip(f"git does not tell what a clone holds: {history.stderr}")
    result = subprocess.run([*words, "ls-files", "-z"], capture_output=True, text=True, check=True)
    files = [HOME / name for name in result.stdout.split("\0") if (HOME / name).is_file()]
    assert int(history.stdout) + sum(file.stat().st_size for file in files) < MOST_CLONE


@pytest.mark.slow
@pytest.mark.parametrize("study", studies.names())
def test_the_notebook_of_a_study_runs_on_what_is_recorded(study, monkeypatch, tmp_path, capsys):
    """Cell by cell as a kernel runs them; in a kernel, and as a user who may do nothing: torture"""
    try:
        recorded(study)
    except ResultsError as lacking:
        pytest.skip(f"{lacking.what}; CONTRIBUTING.md says how to record it")
    monkeypatch.chdir(notebook.notebook(study).parent)
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    names = executed(notebook.notebook(study), {"where": "recorded"})
    assert names["lab"] is None and names["results"].study == study
    assert {verdict.claim for verdict in names["verdicts"]} == {c.id for c in names["study"].claims}
    assert capsys.readouterr().out


def executed(source, values):
    """The names of a notebook whose cells ran, with other `values` for its parameters."""
    names = {}
    for cell in nbformat.read(source, as_version=4).cells:
        if cell.cell_type == "code":
            code = compile(cell.source, source.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if inspect.isawaitable(begun := eval(code, names)):
                asyncio.run(waiting(begun))
            if "parameters" in cell.metadata.get("tags", ()):
                names |= values
    return names


async def waiting(begun):
    await begun
