"""Notebooks by papermill on recorded data, as a user who may do nothing, with no lab at all."""

import json
import os
import sys
import tempfile
from pathlib import Path

import pytest
from plain_user import UID, PlainUser

from labkit import studies
from labkit.errors import ResultsError
from labkit.running.open_lab import recorded

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def is_recorded(stem):
    """Whether a run of that study comes with labkit; one that is new may have none yet."""
    try:
        return stem not in studies.names() or bool(recorded(stem))
    except ResultsError:
        return False


# A lesson about changes needs a host whose settings it may change.
ALL = [
    path for path in sorted(NOTEBOOKS.glob("*.ipynb"))
    if path.stem[:2] != "02" and is_recorded(path.stem[3:].replace("-", "_"))
]  # fmt: skip
ONE = [path for path in ALL if path.stem[:2] == "06"]
RUN = """\
import json, pathlib, sys, time
from labkit.machine import lean
lean.start_lean()
import papermill
from labkit.running.notebook import LEAN
for source in map(pathlib.Path, sys.argv[1:]):
    begun = time.monotonic()
    papermill.execute_notebook(
        str(source), source.name, {"where": "recorded"}, kernel_name="python3", progress_bar=False,
        extra_arguments=[LEAN])
    print(json.dumps([source.stem, time.monotonic() - begun]), flush=True)
"""


@pytest.mark.parametrize("notebooks", [
    pytest.param(ONE, id="a study"),
    pytest.param(ALL, id="all", marks=pytest.mark.torture),
])  # fmt: skip
def test_notebooks_run_on_recorded_data_for_who_may_do_nothing(notebooks):
    # Nobody else may look into the folder that pytest keeps.
    with tempfile.TemporaryDirectory() as home:
        done = PlainUser(Path(home), uid=UID + 1).run(sys.executable, "-c", RUN, *notebooks)
    assert done.returncode == 0, done.stderr[-3000:]
    took = dict(map(json.loads, done.stdout.splitlines()))
    assert list(took) == [path.stem for path in notebooks]
