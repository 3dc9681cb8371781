"""`labkit results`: what scripts rely on."""

import json
import shutil

import pytest
import synthetic

from labkit import studies
from labkit.machine.places import HOME
from labkit.machine.records import digest, listed
from labkit.running.open_lab import recorded
from labkit.runs import bundle

TAKEN = "\x1b]0;taken\x07\u202e"
STUDY = studies.find("lat_ping")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    monkeypatch.chdir(tmp_path)
    synthetic.write_results(tmp_path / "out" / "results" / "lat_ping" / "a", STUDY, 3, 60)
    return tmp_path


@pytest.fixture
def said(typed):
    return lambda *words, code=0: typed("results", *words, code=code)


@pytest.mark.slow
def test_results_are_listed_with_how_many_runs_finished(home, said):
    listed = said("list", "--study", "lat-ping", "--json")
    mine = next(row for row in listed if row["path"].startswith(str(home)))
    facts = {"label": "synthetic", "finished": 12, "runs": 12, "tier": "test"}
    assert facts.items() <= mine.items()
    assert "12 of 12" in said("list")
    assert said("list", "--study", "nothing", "--json") == []
    assert said("list", "--study", "nothing") == "There are no results of nothing here.\n"


def test_results_of_a_study_and_one_run_are_shown(home, said):
    whole = said("show", "lat_ping", "--json")
    assert len(whole["runs"]) == 12 and whole["damaged"] == {}
    run = said("show", whole["runs"][0]["path"], "--json")
    assert run["condition"] == "Native" and run["rows"]
    one = said("show", run["path"])
    assert "p50=~" not in one and "p99=~" in one and "too few samples beyond it" in one
    shown = said("show", "lat_ping")
    assert "001-Native-b1" in shown and "Native, VM-Default, VM-SRIOV" in shown


@pytest.mark.slow
def test_a_bundle_goes_to_another_machine_and_is_asked_there(home, said, monkeypatch):
    made = said("export", "lat_ping", "--json")
    assert made["path"] == "lat_ping-a.labkit"
    assert "is there already" in said("export", "lat_ping", code=2)
    assert "no folder" in said("export", "lat_ping", "-o", "nowhere/x.labkit", code=2)
    assert "--from TOOL" in said("import", __file__, code=1)
    assert "no results at" in said("show", str(home / "out/results/lat_ping/a/runs/no"), code=1)
    monkeypatch.setenv("LABKIT_OUT", str(home / "other"))
    (taken,) = said("import", "lat_ping-a.labkit", "--json")
    path = str(home / "other" / "results" / "lat_ping" / "a")
    assert taken == {"path": path, "state": "imported", "left_out": []}
    text = "select condition, count(*) as n from runs group by 1 order by 1"
    found = said("query", text, taken["path"], "--json")
    assert found[0] == {"condition": "Native", "n": 3}
    assert said("query", text, str(home), "--json")[0]["n"] == 3  # in the bundle


@pytest.mark.slow
def test_what_was_changed_since_is_found_and_the_rest_stays_readable(home, said):
    assert said("verify", "--json")["wrong"] == []
    run = home / "out" / "results" / "lat_ping" / "a" / "runs" / "001-Native-b1" / "run.json"
    run.write_bytes(run.read_bytes().replace(b'"Native"', b'"Mative"'))
    (wrong,) = said("verify", "lat_ping", "--json", code=1)["wrong"]
    assert "run.json" in wrong and "has changed" in wrong
    other = next(run.parents[1].glob("002-*"))
    (other / "raw" / "notes.txt").write_text("mine")
    (third := next(run.parents[1].glob("003-*")) / "SHA256SUMS").unlink()
    wrong = said("verify", "lat_ping", "--json", code=1)["wrong"]
    assert wrong[1:] == [
        f"{other / 'raw' / 'notes.txt'}: is not part of the run",
        f"{third}: is gone, so changes cannot be detected",
    ]
    listed = next(r for r in said("list", "--json") if r["path"].startswith(str(home)))
    assert str((listed["finished"], listed["broken"])) == "(11, 1)", "they are whole numbers"
    assert "run.json" in said("export", "lat_ping", code=1)


def test_a_run_that_is_gone_from_among_the_others_is_found(home, said):
    runs = home / "out" / "results" / "lat_ping" / "a" / "runs"
    for number in ("001", "004", "005"):
        shutil.rmtree(next(runs.glob(f"{number}-*")))
    (next(runs.glob("007-*")) / "run.json").unlink()
    assert said("verify", "lat_ping", "--json", code=1)["wrong"] == [
        f"{runs}: what was measured as number {which} is gone" for which in ("1", "4 to 5", "7")
    ]


@pytest.mark.slow
def test_two_executions_differ_by_what_was_asked_and_by_what_came_out(home, said):
    other = home / "out" / "results" / "lat_ping" / "b"
    synthetic.write_results(other, STUDY, 3, 80)
    found = said("diff", str(other.with_name("a")), str(other), "--json")
    assert {"what": "workload: count", "old": "60", "new": "80"} in found["facts"]
    assert len(found["effects"]) == 8 and {e["verdict"] for e in found["effects"]} == {"undecided"}
    shown = said("diff", str(other.with_name("a")), str(other))
    assert shown.index("\nNative") < shown.index("\nVM-Default") < shown.index("workload: count")
    assert shown.count("not clearly other") == 8 and "risk of 5 %" in shown
    assert "\nNative, 99 %: p99 needs 10 samples beyond it and has 1" in shown
    assert "are the same" in said("diff", "lat_ping", "lat_ping", code=2)
    run = str(other / "runs" / "001-Native-b1")
    assert "the other is not" in said("diff", str(other), run, code=2)


@pytest.mark.slow
def test_what_has_one_value_a_run_is_compared_by_its_mean_and_long_facts_stay_on_the_screen(
    said, monkeypatch, tmp_path
):
    monkeypatch.setenv("COLUMNS", "80")
    there = HOME / "data" / "recorded"
    files = (str(there / f"{name}.labkit") for name in ("lat_cpu_exclusive", "lat_feature"))
    shown = said("diff", *files)
    lines = [x for x in shown.splitlines() if not x.startswith(("old ", "new "))]
    assert "    old: lat_cpu_exclusive" in lines and not [x for x in lines if len(x) > 80]
    assert "Run 1: only the old one has it" in lines
    conditions = lines[lines.index("conditions") + 1]
    assert conditions.startswith("    old: ") and "[" not in conditions and "'" not in conditions
    whole = bundle.open_bundle(there / "lat_vmxnet3.labkit")
    shutil.copytree(whole, tmp_path / "again")
    shown = said("diff", str(whole), str(tmp_path / "again"))
    assert "+0.0 %" in shown and "No known difference between them" in shown


@pytest.mark.slow
def test_a_study_that_was_never_measured_here_stands_for_the_recorded_one(
    monkeypatch, tmp_path, said
):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "nothing"))
    assert said("show", "lat_10us", "--json")["path"] == str(recorded("lat_10us"))
    lacking = said("show", "lat_pong", code=1)
    assert "no results at lat_pong" in lacking and "labkit results list" in lacking


@pytest.mark.slow
def test_a_terminal_obeys_nothing_that_results_of_others_say(home, said):
    a, b = (home / "out" / "results" / "lat_ping" / name for name in "ab")
    synthetic.write_results(b, STUDY, 3, 80)
    for file in b.glob("runs/*/run.json"):
        fields = json.loads(file.read_text())
        taken = {"condition": TAKEN, "why": TAKEN, "facts": {"file": TAKEN, "left_out": TAKEN}}
        file.write_text(json.dumps(fields | taken))
        sums = file.with_name("SHA256SUMS")
        sums.write_text("".join(f"{digest(file.parent / n)}  {n}\n" for n in listed(file.parent)))
    run = next(b.glob("runs/001-*"))
    (run / f"x{TAKEN}").write_text("")
    asked = [("list",), ("show", str(b)), ("show", str(run)), ("diff", str(a), str(b))]
    shown = [said(*words) for words in asked] + [said("verify", str(b), code=1)]
    said("export", str(b), "-o", "b.labkit")
    shown.append(said("import", "b.labkit"))
    assert [one for one in shown if "\x1b" in one or "\u202e" in one] == []
    assert sum("\\x1b" in one for one in shown) == 5
