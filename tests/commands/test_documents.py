"""Documents of others in a folder as a user has one: their claims are read, run and judged."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[2]
FOLDER = HOME / "data/documents"
JUDGED = """
import json, sys
from labkit import find_study, judge, study_results
for name in sys.argv[1:]:
    study = find_study(name)
    results = study_results(study, None, "recorded")
    told = {v.claim: [v.verdict, v.effect, v.blocks] for v in judge(study, results)}
    print(json.dumps({"lab": results.asked["lab"]["tier"], "verdicts": told}))
"""
ASKED = """
import json
from labkit import open_lab
from labkit.workloads.key_value_pair import KeyValuePair
server = open_lab("local").host("server")
for network in ("host", "bridge", "nat", "vxlan"):
    load = KeyValuePair(network=network, requests=3000, clients=5)
    samples = load.parse(load.run({"server": server}))
    print(json.dumps({one.metric: float(one.values[0]) for one in samples}))
"""
STARTED = """
import json, shutil
from labkit import open_lab
from labkit.workloads.container_start import PACKAGES, ContainerStart
server = open_lab("local").host("server")
for runtime in filter(shutil.which, PACKAGES):
    load = ContainerStart(runtime=runtime, times=2)
    (sample,) = load.parse(load.run({"server": server}))
    print(json.dumps({runtime: [float(value) for value in sample.values]}))
"""
NAMESPACES = (
    "import pathlib; print(sorted(p.name for p in pathlib.Path('/run').glob('netns/host[12]')))"
)
ENGINES = (
    "import pathlib; print(sorted(p.parent.name for p in pathlib.Path('/proc').glob('[0-9]*/comm')"
    " if p.read_text().strip() in ('dockerd', 'containerd', 'conmon')))"
)
COUNTS = {"gvisor": 3, "container_network": 5, "container_start": 4, "felter": 4, "felter_logs": 9}
pytestmark = pytest.mark.slow


def ran(tmp_path, *words):
    env = {**os.environ, "LABKIT_PATH": str(FOLDER), "LABKIT_OUT": str(tmp_path)}
    words = (sys.executable, *words)
    result = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_claims_and_the_studies_of_the_examples_can_be_read(tmp_path):
    for name, many in COUNTS.items():
        file = FOLDER / f"published/{name}.toml"
        said = ran(tmp_path, "-m", "labkit", "claims", "check", str(file))
        assert f"{many} claims can be read." in said
    study = json.loads(ran(tmp_path, "-m", "labkit", "studies", "gvisor", "--json"))
    assert len(study["conditions"]) == 6 and study["claims"] == [f"gvisor-0{n}" for n in (1, 2, 3)]


def test_the_recorded_runs_of_the_examples_are_real_and_decide_claims(tmp_path):
    stems = sorted(file.stem for file in (FOLDER / "recorded").glob("*.labkit"))
    told = [json.loads(line) for line in ran(tmp_path, "-c", JUDGED, *stems).splitlines()]
    assert {"container_network", "felter", "gvisor"} <= {*stems}
    assert all(one["lab"] == "hosts" for one in told)
    verdicts = {name: one["verdicts"] for name, one in zip(stems, told, strict=True)}
    assert verdicts["container_network"]["container-network-04"][0] == "holds"
    assert all(blocks >= 3 for of in verdicts.values() for _, _, blocks in of.values())
    gvisor = verdicts["gvisor"]
    assert gvisor["gvisor-01"][0] == "contradicted" and gvisor["gvisor-03"][0] == "holds"
    _, effect, blocks = gvisor["gvisor-01"]
    assert blocks == 7 and effect == pytest.approx(123, rel=0.01), told


def test_the_page_of_an_artifact_says_how_it_is_measured_again(tmp_path):
    words = ("report", str(FOLDER / "recorded/gvisor.labkit"), "--artifact", "--json")
    page = Path(json.loads(ran(tmp_path, "-m", "labkit", *words))["page"]).read_text()
    assert "labkit run gvisor --where local -p repeats=7" in page


# Figures of the authors' logs: facts, as numbers.
def test_a_document_is_judged_by_its_authors_own_logs_without_a_run(tmp_path):
    words = ("-m", "labkit", "results", "import", str(FOLDER / "measured/felter_logs.csv"))
    ran(tmp_path, *words, "--from", "values", "--study", "felter_logs")
    lines = json.loads(
        ran(tmp_path, "-m", "labkit", "scorecard", "--study", "felter_logs", "--json")
    )
    found = {line["claim"].removeprefix("felter-logs-"): line for line in lines}
    assert found["01"]["verdict"] == found["03"]["verdict"] == found["07"]["verdict"] == "holds"
    assert found["02"]["verdict"] == "contradicted"
    assert found["02"]["effect"] == pytest.approx(130.28 / 290.83, rel=1e-3)
    assert found["05"]["verdict"] == "undecided" and found["05"]["blocks"]


@pytest.mark.box
def test_each_network_of_the_example_is_made_asked_and_gone_again(tmp_path):
    before = ran(tmp_path, "-c", NAMESPACES)
    told = [json.loads(line) for line in ran(tmp_path, "-c", ASKED).splitlines()]
    assert len(told) == 4 and all({"throughput", "latency", "cpu time"} == {*one} for one in told)
    assert all(one["throughput"] > 100 and 1 < one["latency"] < 1e6 for one in told)
    assert ran(tmp_path, "-c", NAMESPACES) == before


@pytest.mark.box
def test_each_runtime_of_the_example_starts_containers_and_its_daemon_goes_again(tmp_path):
    before = ran(tmp_path, "-c", ENGINES)
    told = [json.loads(line) for line in ran(tmp_path, "-c", STARTED).splitlines()]
    if not told:
        pytest.skip("needs crun")
    assert all(len(times) == 2 and min(times) > 0.001 for one in told for times in one.values())
    assert ran(tmp_path, "-c", ENGINES) == before
