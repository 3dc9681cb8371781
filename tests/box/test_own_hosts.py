"""The README's commands for hosts of one's own, on two hosts of a box as if they were remote."""

import json
import re
import shlex
from pathlib import Path

import pytest
from boxes import NAME
from lab_toml import described
from leftovers import another

from labkit.gates import gate
from labkit.lab import Lab
from labkit.machine.places import HOME
from labkit.results import Results
from labkit.verdict import NOT_TESTABLE

pytestmark = [
    pytest.mark.box, pytest.mark.slow,
    pytest.mark.when_changed("labkit/gates/", "labkit/running/", "labkit/commands/", "README.md"),
]  # fmt: skip

SECTION = re.compile(r"^## Your own hosts\n.*?```\n(.*?)```", re.MULTILINE | re.DOTALL)
SHORT = ("-p", "repeats=3", "-p", "count=300", "--json")
BRIEF = {"run": ((), SHORT), "compare": (("--blocks", "3"), ())}
STAMP = re.compile(r"^\[(\d+\.\d+)\] .* icmp_seq=(\d+) ttl=\d+ time=([\d.]+) ms", re.MULTILINE)


@pytest.fixture(scope="module")
def boxed():
    """Two hosts and a guest on the server, as in data/labs/example.toml."""
    with another(f"{NAME}-6", "pair") as lab:
        yield lab


def trusted(labkit, file):
    """Each key is shown first, and kept when its fingerprint was said."""
    for role in Lab.read(file).hosts:
        shown = labkit("trust", role, "--lab", str(file), "--json")
        for one in re.findall(r"SHA256:[A-Za-z0-9+/=]+", shown.stdout + shown.stderr):
            done = labkit("trust", role, "--lab", str(file), "--yes", one)
        assert done.returncode == 0, (shown, done)


def readme():
    """The lines of the section on hosts of one's own."""
    return SECTION.search((HOME / "README.md").read_text("utf-8"))[1].splitlines()


def missed(text, interval=0.001):
    """The share of requests that were due and not sent, by all time stamps of a ping."""
    found = [(float(at) - float(ms) / 1000, int(number)) for at, number, ms in STAMP.findall(text)]
    (first, begun), (last, ended) = found[0], found[-1]
    return 1 - (ended - begun) * interval / (last - first)


def test_all_commands_of_the_readme_end_well_with_verdicts_and_figures(boxed, labkit, tmp_path):
    lines = [shlex.split(line, comments=True) for line in readme() if "apply" not in line]
    verbs = [verb for _, verb, *_ in lines]
    assert verbs == ["trust", "doctor", "prepare", "plan", "run", "compare", "restore"]
    # Other tests share this machine.
    file = described(boxed, tmp_path / "lab.toml", gate.NAMES)
    trusted(labkit, file)
    said = {}
    for _, verb, *words in lines[1:]:
        words = [{"lab.toml": str(file), "COMMAND": "true"}.get(word, word) for word in words]
        before, after = BRIEF.get(verb, ((), ()))
        done = labkit(verb, *before, *words, *after)
        assert done.returncode == 0, (verb, done.stdout[-2000:], done.stderr)
        said[verb] = done.stdout
    answer = json.loads(said["run"])
    with_one_guest = {"Native", "VM-Default", "VM-SRIOV", "VM-Latency-SRIOV"}
    assert {row["condition"] for row in answer["rows"]} == with_one_guest
    assert answer["note"] == "", "real hosts, as far as their lab.toml says"
    assert len(answer["verdicts"]) >= 7 and all(one["why"] for one in answer["verdicts"])
    # ping spins for a millisecond, and is late only where its own time stamps say so.
    results = Results.open(Path(answer["results"]))
    assert [run.state for run in results.runs()] == ["finished"] * 12
    for run in results.finished():
        late = "load generator" in run.gates.get("client", {})
        assert late is (missed(run.text("ping.txt")) > 0.05)
    judged = {one["claim"]: one for one in answer["verdicts"] if one["effect"] is not None}
    assert {"lat-ping-05", "lat-ping-06"} <= set(judged)
    for claim in ("lat-ping-05", "lat-ping-06"):
        found = judged[claim]
        assert found["verdict"] != NOT_TESTABLE and found["effect"] > 0
        assert (found["low"], found["high"]) == (None, None), "three blocks have no interval"
