"""plan, apply, restore, settings and journal by the command line, over a real sshd."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from knobs import Knob
from lab_toml import lab_toml, reached_at, table
from sshd import serving

from labkit import box
from labkit.cli import main
from labkit.condition import Condition
from labkit.errors import Unfinished
from labkit.lab import opened
from labkit.results import Results
from labkit.running import loop
from labkit.study import Study
from labkit.workloads.ping import Ping

HOME = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
# A study of its own, which a site file puts beside those of labkit.
STUDY = """
import sys
sys.path.insert(0, {tests!r})
from knobs import Knob
from labkit.condition import Condition
from labkit.study import Study
from labkit.workloads.ping import Ping

WAY = {way}
study = Study(
    name="knobs", title="Knobs", question="q", source="s", workload=Ping(), metric="round trip",
    unit="us", claims=(), conditions=(
        Condition("new", "new", "new", (Knob({a!r}, "new"), Knob({b!r}, "new", WAY))),
        Condition("none", "none", "none"),
        Condition("newer", "newer", "newer", (Knob({a!r}, "newer"),)),
        Condition("some", "some", "some", (Knob({a!r}, "new"),), optional=(Knob({c!r}, "new"),)),
        Condition("all", "all", "all", (Knob({a!r}, "new"), Knob({c!r}, "new"))),
    ),
)
"""


@pytest.fixture
def lab(tmp_path):
    with serving(tmp_path) as server:
        host = table("server", **reached_at(server.address()))
        lab_toml(tmp_path / "lab.toml", host, known_hosts="known_hosts")
        for name in ("a", "b"):
            (tmp_path / name).write_text("old\n")
        yield tmp_path


@pytest.fixture
def labkit(lab):
    def call(*words, way="()", lab_file="lab.toml"):
        files = {name: str(lab / name) for name in "abc"}
        (lab / "knobs_study.py").write_text(
            STUDY.format(tests=str(HOME / "tests/helpers"), way=way, **files)
        )
        run = (
            "import sys; sys.path.insert(0, sys.argv[1]); import knobs_study, labkit.studies as s; "
            "s.find = lambda name: knobs_study.study; from labkit.cli import main; "
            "sys.exit(main(sys.argv[2:]))"
        )
        words = [*words, "--lab", str(lab / lab_file)]
        return subprocess.run(
            [sys.executable, "-c", run, str(lab), *words], capture_output=True, text=True,
            env={**os.environ, "LABKIT_OUT": str(lab / "out")}, cwd=HOME,
        )  # fmt: skip

    return call


def values(lab):
    return (lab / "a").read_text(), (lab / "b").read_text()


@pytest.mark.when_changed("labkit/changes/", "labkit/commands/")
def test_a_plan_says_what_would_change_and_touches_nothing(lab, labkit):
    result = labkit("plan", "knobs", "--json", way='(("needs", frozenset({"guest restart"})),)')
    assert result.returncode == 0, result.stderr
    plan = json.loads(result.stdout)
    able = [step for step in plan["steps"] if step["thing"] != str(lab / "c")]
    steps = {(step["thing"], step["wanted"]): step for step in able}
    assert {(s["current"], s["state"]) for s in steps.values()} == {("old", "possible")}
    assert steps[str(lab / "b"), "new"]["needs"] == ["guest restart"]
    assert values(lab) == ("old\n", "old\n") and not (lab / "changes").exists()
    text = " ".join(labkit("plan", "knobs", "--condition", "new").stdout.split())
    assert (
        f"{lab / 'a'}, {lab / 'b'}: old -> new" in text
        and "To measure: no condition can be measured there." in text
    )
    assert plan["demand"]["runs"] == 0  # it has no client


@pytest.mark.when_changed("labkit/changes/", "labkit/commands/")
def test_what_is_applied_stays_until_it_is_restored(lab, labkit):
    result = labkit("apply", "knobs", "--condition", "new")
    assert result.returncode == 0, result.stderr
    assert f"{lab}/a: old -> new" in result.stdout and values(lab) == ("new\n", "new\n")
    refused = labkit("apply", "knobs", "--condition", "newer")
    assert refused.returncode == 1
    assert "unfinished change set #1" in refused.stderr
    put_back = f"labkit restore server --lab {lab / 'lab.toml'}"
    assert put_back in refused.stderr and f"until: {put_back}" in result.stdout
    assert "unfinished change set #1" in (output := labkit("plan", "knobs").stdout)
    (warned,) = json.loads(labkit("plan", "knobs", "--json").stdout)["warnings"]
    assert warned.endswith(put_back) and put_back in " ".join(output.split())
    assert "NOT put back" in labkit("journal", "server").stdout
    restored = json.loads(labkit("restore", "server", "--json").stdout)
    assert {one["outcome"] for one in restored["server"]["things"]} == {"restored"}
    assert values(lab) == ("old\n", "old\n")
    assert "nothing to put back" in labkit("restore", "--all").stdout
    assert "#1, put back" in labkit("journal", "server").stdout


def test_a_condition_without_settings_leaves_nothing_to_put_back(lab, labkit):
    result = labkit("apply", "knobs", "--condition", "none")
    assert (result.returncode, result.stdout) == (0, "Nothing was changed: all is as asked for.\n")


# What it would measure would be neither its conditions nor what was applied.
def test_a_study_is_refused_where_something_is_applied_and_says_what_to_type(lab, labkit, tmp_path):
    assert labkit("apply", "knobs", "--condition", "new").returncode == 0
    asked = Condition("new", "n", "n", (Knob(str(lab / "a"), "newer"),), roles={"client": "server"})
    study = Study("knobs", "k", "q", "s", Ping(count=9), (asked,), "round trip", "us", ())
    results = Results.begin(tmp_path / "runs", {"study": "knobs", "seed": 1})
    with opened(lab / "lab.toml") as there, pytest.raises(Unfinished) as error:
        loop.run(study, there, results, repeats=1)
    assert f"labkit restore server --lab {lab / 'lab.toml'}" in str(error.value)
    assert not results.runs() and values(lab) == ("new\n", "new\n")


@pytest.mark.when_changed("labkit/changes/", "labkit/commands/")
def test_an_older_plan_is_applied_only_while_the_host_is_as_it_was(lab, labkit):
    plan = labkit("plan", "knobs", "--condition", "new", "--json").stdout
    (lab / "plan.json").write_text(plan)
    (lab / "b").write_text("theirs\n")
    stale = labkit("apply", str(lab / "plan.json"))
    assert stale.returncode == 1 and "plan is stale" in stale.stderr and "theirs" in stale.stderr
    assert values(lab) == ("old\n", "theirs\n")
    (lab / "b").write_text("old\n")
    assert labkit("apply", str(lab / "plan.json")).returncode == 0
    assert values(lab) == ("new\n", "new\n")
    assert labkit("restore", "server").returncode == 0


@pytest.mark.when_changed("labkit/changes/", "labkit/commands/")
def test_what_a_host_has_not_is_named_before_and_left_out_only_where_it_is_optional(lab, labkit):
    steps = json.loads(labkit("plan", "knobs", "--condition", "some", "--json").stdout)["steps"]
    assert [step["state"] for step in steps if step["thing"] == str(lab / "c")] == ["impossible"]
    assert labkit("apply", "knobs", "--condition", "some").returncode == 0
    assert values(lab) == ("new\n", "old\n") and not (lab / "c").exists()
    assert labkit("restore", "server").returncode == 0
    result = labkit("apply", "knobs", "--condition", "all")
    assert result.returncode == 2 and "c: No such file" in result.stderr
    assert values(lab) == ("old\n", "old\n")


def test_what_somebody_else_changed_is_said_and_left(lab, labkit):
    labkit("apply", "knobs", "--condition", "new")
    (lab / "a").write_text("theirs\n")
    result = labkit("restore", "server")
    assert result.returncode == 1 and "changed by somebody else to 'theirs'" in result.stdout
    assert values(lab) == ("theirs\n", "old\n")


def test_a_host_says_which_settings_it_supports(labkit):
    rows = json.loads(labkit("settings", "server", "--json").stdout)
    nic = next(row for row in rows if row["name"] == "GuestNic")
    assert nic["state"] == "impossible" and "no guest of the box" in nic["why"]


def test_settings_of_a_lab_are_those_of_a_host_that_is_named(typed):
    said = typed("settings", "--lab", "hosts.toml", code=2)
    assert "no host of hosts.toml is named" in said and "labkit settings server --lab" in said


def test_without_a_lab_only_what_is_there_is_put_back_and_no_box_is_made(monkeypatch, typed):
    monkeypatch.setattr(box, "up", lambda *_, **__: pytest.fail("a box was made"))
    monkeypatch.setattr(box, "names", lambda: [])
    assert main(["restore", "--all"]) == 0
    for verb in ("restore", "journal", "settings"):
        output = typed(verb, "server", code=2)
        assert "no box is up (labkit box up); for hosts of your own: --lab FILE" in output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as somebody else")
def test_a_box_of_another_user_is_passed_over_with_a_word(monkeypatch, tmp_path, capsys):
    (tmp_path / "key").touch(mode=0o600)
    (tmp_path / "lab.toml").write_text('[hosts.server]\ncontrol = "192.0.2.1"\nkey = "key"\n')
    theirs = SimpleNamespace(name="theirs", state="up", lab=str(tmp_path / "lab.toml"))
    monkeypatch.setattr(box, "names", lambda: ["theirs"])
    monkeypatch.setattr(box, "status", lambda _: theirs)
    os.setreuid(65534, 0)
    try:
        assert main(["settings", "server"]) == 2
    finally:
        os.setreuid(0, 0)
    output = capsys.readouterr().err
    assert "box theirs is another user's" in output and "no box is up" in output


def test_a_plan_that_is_not_there_is_not_taken_for_a_study(tmp_path, typed):
    assert f"no plan {tmp_path}/plan.json" in typed("apply", tmp_path / "plan.json", code=2)


def test_hosts_are_named_or_all_are_meant(labkit):
    assert labkit("restore").returncode == 2
    assert "not both" in labkit("restore", "server", "--all").stderr
    assert "known: server" in labkit("restore", "moon").stderr
