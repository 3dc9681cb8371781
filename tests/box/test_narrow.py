"""Networks that are slow or lose packets: what arrives is right, and what fails says so in time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = ("unshare",)

pytestmark = [pytest.mark.box, pytest.mark.slow]
SCRIPT = Path(__file__).resolve().parents[1] / "helpers/narrow.py"
CONNECT_SECONDS, COMMAND_SECONDS = 60, 60


def on(network, folder, *numbers):
    words = ["unshare", "--net", sys.executable, SCRIPT, network, folder, *map(str, numbers)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("ms", [100, pytest.param(300, marks=pytest.mark.torture)])
def test_at_1_mbit_a_command_takes_a_round_trip_and_a_file_its_bytes(tmp_path, ms):
    """F05 (I-RATE, I-DELAY): the network's own time is the floor, and a few round trips above."""
    found, trip = on("slow", tmp_path, ms), ms / 1000
    assert found["right"]
    assert trip <= found["one"] <= 4 * trip + 1
    floor = found["bytes"] * 8 / 1e6
    for way in ("up", "down"):
        assert floor <= found[way] <= 3 * floor + 30 * trip


@pytest.mark.parametrize(
    ("loss", "logins"), [(15, 16), pytest.param(30, 50, marks=pytest.mark.torture)]
)
def test_where_packets_are_lost_every_host_answers_rightly_or_fails_by_name_in_time(
    tmp_path, loss, logins
):
    """F06 (I-LOSS): so many logins at once; TCP repeats what is lost, and we repeat no command."""
    found = on("lossy", tmp_path, loss, logins)
    assert {said for said, *_ in found} <= {"well", "Unreachable", "OutcomeUnknown", "TimedOut"}
    assert [said for said, *_ in found].count("well") >= len(found) / 2
    for said, words, seconds in found:
        assert seconds <= CONNECT_SECONDS + COMMAND_SECONDS
        assert said == "well" or words.startswith("box1: ")
