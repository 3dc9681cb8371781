"""What `verify` knows of damaged results, every reader says; an edited label is doubted."""

import json
import shutil

import pytest

from labkit import studies
from labkit.commands.results import _wrong
from labkit.results import Results
from labkit.running.open_lab import note, recorded
from labkit.runs import integrity

STUDY = "lat_vmxnet3"


@pytest.fixture
def kept(tmp_path):
    shutil.copytree(recorded(STUDY), tmp_path / "kept")
    return tmp_path / "kept"


def told(kept):
    return "\n".join(studies.find(STUDY).remarks(Results.open(kept)))


def a_run(kept):
    return sorted((kept / "runs").iterdir())[3]


def test_whole_results_have_no_such_remark(kept):
    assert integrity.remarks(Results.open(kept)) == [] and "Emulated" in note(Results.open(kept))


def test_an_edited_tier_never_removes_the_label_of_emulation(kept):
    file = kept / "study.json"
    said = json.loads(file.read_text())
    said["lab"] |= {"tier": "hosts", "accelerator": ""}
    file.write_text(json.dumps(said))
    results = Results.open(kept)
    assert note(results).startswith("Emulated or not: study.json was edited")
    assert integrity.EDITED in told(kept)
    lines = [line for line in _wrong(kept) if "study.json" in line]
    assert len(lines) == 1, "once, not for each run"


def test_a_run_gone_from_the_middle_and_sums_that_are_gone_are_told(kept):
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
