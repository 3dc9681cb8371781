"""Networks that are slow or lose packets: what arrives is right, and what fails says so in time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.box, pytest.mark.slow]
SCRIPT = Path(__file__).resolve().parents[1] / "narrow.py"
CONNECT_SECONDS, COMMAND_SECONDS = 60, 60


def on(network, folder):
    words = ["unshare", "--net", sys.executable, str(SCRIPT), network, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_at_1_mbit_and_100_ms_a_batch_takes_as_long_as_one_command_and_a_file_its_bytes(tmp_path):
    """F05 (I-RATE, I-DELAY): the network's own time is the floor, and a few round trips above."""
    found = on("slow", tmp_path)
    assert found["right"]
    assert found["one"] >= 0.1 and found["batch"] <= found["one"] + 3 * 0.1 + 1
    floor = found["bytes"] * 8 / 1e6
    for way in ("up", "down"):
        assert floor <= found[way] <= 3 * floor + 3


def test_where_packets_are_lost_every_host_answers_rightly_or_fails_by_name_in_time(tmp_path):
    """F06 (I-LOSS): 16 logins at once; TCP repeats what is lost, and we repeat no command."""
    found = on("lossy", tmp_path)
    assert {said for said, *_ in found} <= {"well", "Unreachable", "OutcomeUnknown", "TimedOut"}
    assert [said for said, *_ in found].count("well") >= len(found) / 2
    for said, words, seconds in found:
        assert seconds <= CONNECT_SECONDS + COMMAND_SECONDS
        assert said == "well" or words.startswith("box1: ")
