"""Binder's image is built from what repo2docker writes, and all notebooks run in it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.torture

PROGRAMS = ("docker", "dockerd", "mmdebstrap")

HERE = Path(__file__).parent
NOTEBOOKS = sorted((HERE.parents[1] / "notebooks").glob("*.ipynb"))
FIRST_CHART_SECONDS = 60


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a Docker of its own")
@pytest.mark.skipif(not shutil.which("dockerd"), reason="no docker: make system")
def test_every_notebook_runs_in_binders_image_and_a_chart_is_there_within_a_minute(tmp_path):
    result = subprocess.run(
        [HERE / "build.sh", tmp_path], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert result.returncode == 0, result.stdout[-5000:]
    said = result.stdout[result.stdout.index("== the notebooks") :]
    assert "user 1000, " in said
    assert len(re.findall(r"^ran notebooks/\S+ in \d+ s$", said, re.MULTILINE)) == len(NOTEBOOKS)
    peak = re.search(r"^the most memory: (\d+) MiB", said, re.MULTILINE)
    assert 0 < int(peak[1]) <= 2048, said
    assert ", 100000 microseconds of 100000" in said
    first = re.search(r"a study's charts were there after (\d+) s", said)
    assert int(first[1]) < FIRST_CHART_SECONDS, said
