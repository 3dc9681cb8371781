"""What `verify` knows of damaged results, every reader says; an edited label is doubted."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from labkit import studies
from labkit.commands.results import _wrong
from labkit.errors import BadInput
from labkit.results import DESIGN, Results
from labkit.running.open_lab import note, recorded
from labkit.running.remarks import lab_faults, remarks
from labkit.runs import integrity

STUDY = "lat_vmxnet3"


@pytest.fixture
def kept(tmp_path):
    shutil.copytree(recorded(STUDY), tmp_path / "kept")
    return tmp_path / "kept"


def told(kept):
    return "\n".join(remarks(studies.find(STUDY), Results.open(kept)))


def a_run(kept):
    return sorted((kept / "runs").iterdir())[3]


def test_whole_results_have_no_such_remark(kept):
    assert integrity.remarks(Results.open(kept)) == [] and "Emulated" in note(Results.open(kept))


def test_an_edited_tier_never_removes_the_label_of_emulation(kept):
    file = kept / "study.json"
    answer = json.loads(file.read_text())
    answer["lab"] |= {"tier": "hosts", "accelerator": ""}
    file.write_text(json.dumps(answer))
    results = Results.open(kept)
    assert note(results).startswith("Emulated or not: study.json was edited")
    assert integrity.EDIT_REMARK in told(kept)
    lines = [line for line in _wrong(kept) if "study.json" in line]
    assert len(lines) == 1, "once, not for each run"


def test_a_run_gone_from_the_middle_and_sums_that_are_gone_are_named(kept):
    shutil.rmtree(a_run(kept))
    (sorted((kept / "runs").iterdir())[0] / "SHA256SUMS").unlink()
    said = told(kept)
    assert "is gone" in said and "SHA256SUMS is gone" in said and integrity.ASK in said


def test_a_copied_run_is_no_second_one(kept):
    copy = a_run(kept).with_name(f"{a_run(kept).name}.2")
    shutil.copytree(a_run(kept), copy)
    assert "it was copied" in told(kept)
    assert any("it was copied" in line for line in _wrong(kept))


def test_a_link_among_raw_texts_is_no_part_of_a_run(kept):
    file = next((a_run(kept) / "raw").iterdir())
    file.rename(kept.parent / file.name)
    file.symlink_to(kept.parent / file.name)
    assert "is a link" in told(kept)
    assert any("is a link" in line for line in _wrong(kept))


def test_what_doctor_fails_is_said_again_of_the_runs():
    one = {"boot": "b", "network": "net:[1]", "nic eth0": "mtu=1500"}
    apart = {**one, "network": "net:[2]"}
    lab = {"tier": "hosts", "interfaces": {"server": "eth7", "client": "eth0"}}

    def told(server, **changed):
        run = SimpleNamespace(facts={"hosts": {"client": one, "server": server}})
        asked = {"lab": {**lab, **changed}}
        return [*lab_faults(SimpleNamespace(asked=asked, finished=lambda: [run]))]

    missing = "server has no interface eth7, so settings of it were left out"
    assert told(one) == [
        "client and server are one machine: traffic between them never left it", missing,
    ]  # fmt: skip
    assert told(apart) == [missing] and told(one, tier="root") == []
    (_, odd) = told(apart, elsewhere={"client": "10.0.0.7"})
    assert odd.startswith("client: eth0 does not have the address 10.0.0.7, so test traffic may")


def test_runs_of_one_condition_with_different_settings_are_named(kept):
    results = Results.open(kept)
    run = results.finished()[0]
    texts = {name: run.text(name) for name in run.raw}
    other = {**run.settings, "TimeToLive of server": "10"}
    results.keep(replace(run, block=99, order=99, settings=other), texts)
    wanted = f"the runs of {run.condition} are of different designs: TimeToLive of server"
    assert wanted in told(kept)


def test_a_question_that_differs_is_refused_with_what_differs(kept):
    asked = {**Results.open(kept).asked, DESIGN: {"VM": {"knobs": {"size": "9"}}, "Native": {}}}
    Results.begin(kept / "new", asked)
    edited = {**asked, DESIGN: {"VM": {"knobs": {"size": "10"}}, "Native": {}}, "seed": 77}
    with pytest.raises(BadInput, match=r"design \(VM \(knobs \(size\)\)\), seed differ") as error:
        Results.begin(kept / "new", edited)
    assert "another label" in error.value.hint
