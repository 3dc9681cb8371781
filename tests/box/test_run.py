"""`labkit run` and `labkit report` on real hosts, by their lab.toml as on hosts of one's own."""

import json
from pathlib import Path

import pytest

from labkit.running.open_lab import named_results

pytestmark = [pytest.mark.box, pytest.mark.slow]
SHORT = ("-p", "repeats=2", "-p", "count=300")


@pytest.mark.torture
def test_a_study_runs_by_its_lab_file_and_its_report_can_be_written_again(
    labkit, lab_file, tmp_path, monkeypatch
):
    done = labkit("run", "lat_ping", "--where", str(lab_file), *SHORT, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert {row["condition"] for row in answer["rows"] if row["n"] == 600} == {
        "Native", "VM-Default", "VM-SRIOV", "VM-Latency-SRIOV",
    }  # fmt: skip
    assert answer["note"].startswith("Emulated")
    runs = [json.loads((Path(run) / "run.json").read_text()) for run in answer["runs"]]
    finished = [run for run in runs if run["state"] != "invalid"]
    assert len(finished) == 8
    assert all(run["state"] == "finished" and not run["rows"][0]["lost"] for run in finished)
    assert all("ping" in run["facts"]["hosts"]["client"]["version ping"] for run in runs)
    again = labkit("report", answer["runs"][3], "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["verdicts"] == answer["verdicts"]
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    for named in (answer["results"], answer["runs"][3], "lat_ping"):
        assert named_results(named).path == Path(answer["results"])
