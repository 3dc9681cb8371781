"""A folder of one's own: its studies, claims, workloads and settings are found by every verb."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.machine import workspace
from labkit.results import Results, Run

HOME = Path(__file__).resolve().parents[2]
CLEAN = {name: word for name, word in os.environ.items()
         if name not in ("LABKIT_PATH", "PYTHONPATH")}  # fmt: skip
pytestmark = pytest.mark.slow

WORKLOAD = """
from dataclasses import dataclass
import numpy as np
from labkit.workload import Sample, Workload

@dataclass(frozen=True)
class Sorting(Workload):
    roles, loop, measures, seconds = ("server",), "", ("elapsed",), 1.0
    lines: int = 20000

    def run(self, hosts):
        script = "seq $1 | sort -R --random-source=/dev/zero | sort -n | tail -1; date +%s.%N"
        start = hosts["server"].check("date", "+%s.%N")
        return start + hosts["server"].check("sh", "-c", script, "sort", str(self.lines))

    @staticmethod
    def parse(text):
        start, last, end = text.split()
        return [Sample("elapsed", "s", np.array([float(end) - float(start)]))]
"""
SETTING = '''
from labkit.settings._fields import amount
from labkit.settings._ways import OnHost, by, of_sysctl

class Hops(OnHost):
    """The hops that packets of this host begin with."""

    hops: int = amount("time to live", 1, 255, "hops", default=64)
    on_linux = by(of_sysctl("net.ipv4.ip_default_ttl"))
'''
STUDY = """
from labkit.claims import published
from labkit.condition import Condition
from labkit.settings.hops import Hops
from labkit.study import Study
from labkit.workloads.sorting import Sorting

study = Study(
    name="sort_sizes", title="Sorting", question="Does it take longer to sort more?",
    source="A paper", workload=Sorting(), metric="elapsed", unit="s", topology="pair",
    quick={"repeats": 2},
    conditions=(
        Condition("Few", means="few numbers", here="few numbers", knobs={"lines": 2000}),
        Condition("Many", means="many numbers", here="many numbers", knobs={"lines": 40000},
                  settings=(Hops(77),)),
    ),
    claims=published.of("sort_sizes"),
)
"""
CLAIMS = """
document = "A paper"
metric = "elapsed"
statistics = ["median"]

[[claim]]
id = "sort-sizes-01"
form = "order"
statement = "Few numbers are sorted sooner"
source = "section 1"
conditions = ["Few", "Many"]
"""


RAN = """
from labkit import find_study, judge, open_lab, run, study_results
study, lab = find_study("sort_sizes"), open_lab("local")
results = run(study, lab, study_results(study, lab, "local"), repeats=3)
for verdict in judge(study, results):
    print(verdict.verdict, verdict.why)
"""


@pytest.fixture
def folder(tmp_path):
    """A workspace with a study, a workload and a setting of its own, and no notebook."""
    files = {
        "labkit.toml": 'needs = ">=0.1"\n', "studies/sort_sizes.py": STUDY,
        "workloads/sorting.py": WORKLOAD, "settings/hops.py": SETTING,
        "published/sort_sizes.toml": CLAIMS,
    }  # fmt: skip
    for name, text in files.items():
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "mine"


def labkit(*words, cwd, **more):
    env = {**CLEAN, "LABKIT_OUT": str(cwd / "out"), **more}
    words = (sys.executable, "-m", "labkit", *words)
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True)


def done(*words, cwd):
    """What a command says that does what it should."""
    result = labkit(*words, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout


def names(result):
    return {study["name"] for study in json.loads(result.stdout)}


def test_a_workspace_is_found_from_inside_by_the_variable_and_nowhere_else(folder, tmp_path):
    inside = folder / "data"
    inside.mkdir()
    assert "sort_sizes" in names(labkit("studies", "--json", cwd=inside))
    assert "sort_sizes" not in names(labkit("studies", "--json", cwd=tmp_path))
    result = labkit("studies", "--json", cwd=tmp_path, LABKIT_PATH=str(folder))
    assert "sort_sizes" in names(result) and "lat_ping" in names(result)
    lost = labkit("studies", cwd=tmp_path, LABKIT_PATH="/no/such")
    assert lost.returncode == 1 and "LABKIT_PATH: no folder /no/such" in lost.stderr
    assert "lat_ping" in lost.stdout


def test_an_installed_package_brings_studies_by_its_entry_points(folder, tmp_path):
    site = tmp_path / "site"
    info = site / "mypaper-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    folder.rename(site / "mypaper")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mypaper\nVersion: 1.0\n")
    kinds = ("studies", "workloads", "settings")
    groups = "".join(f"[labkit.{kind}]\nmine = mypaper.{kind}\n" for kind in kinds)
    (info / "entry_points.txt").write_text(f"{groups}[labkit.probes]\nmine = mypaper.lost\n")
    result = labkit("studies", "--json", cwd=tmp_path, PYTHONPATH=str(site))
    assert "sort_sizes" in names(result)
    assert "mypaper: entry point mine of labkit.probes" in result.stderr
    words = ("scorecard", str(site), "--study", "sort_sizes")  # else bundles are unpacked first
    shown = labkit(*words, cwd=tmp_path, PYTHONPATH=str(site))
    assert "1 claim: 1 not measured yet" in shown.stdout, shown.stderr


def test_the_nearest_workspace_is_the_one_around_this_folder(folder, tmp_path, monkeypatch):
    monkeypatch.setenv(workspace.VARIABLE, str(folder))
    for place, nearest in ((tmp_path, None), (folder, folder), (folder / "studies", folder)):
        monkeypatch.chdir(place)
        workspace._look.cache_clear()
        try:
            assert workspace.nearest() == nearest and workspace.workspaces() == (folder,)
        finally:
            workspace._look.cache_clear()


BROKEN = {
    "studies/torn.py": ("study = Study(", "torn.py:1"),
    "studies/odd.py": ("import labkit\n\nlabkit.nothing", "odd.py:3: AttributeError"),
    "studies/bare.py": ("x = 1", "bare.py:1: it has no study"),
    "studies/lat_ping.py": ("x = 1", "has a lat_ping already"),
    "studies/quits.py": ("import sys\n\nsys.exit(0)", "quits.py:3: SystemExit: 0"),
    "studies/talks.py": ("print('good morning')", "good morning"),
}


def test_a_broken_file_is_named_with_its_line_and_takes_nobody_down(folder):
    for name, (text, _) in BROKEN.items():
        (folder / name).write_text(text)
    result = labkit("studies", "--json", cwd=folder)
    assert result.returncode == 1 and {"sort_sizes", "lat_ping"} <= names(result)
    for _, words in BROKEN.values():
        assert words in result.stderr


def test_a_broken_workload_is_named_where_it_is_broken(folder):
    with (folder / "workloads/sorting.py").open("a") as file:
        file.write("\nraise RuntimeError('lost')\n")
    result = labkit("plan", "sort_sizes", cwd=folder)
    line = len((folder / "workloads/sorting.py").read_text().splitlines())
    assert result.returncode == 2 and f"sorting.py:{line}: RuntimeError: lost" in result.stderr


def test_a_load_whose_parse_raises_is_named_with_its_line_and_others_are_judged(folder, tmp_path):
    results = Results.begin(
        tmp_path / "out/results/sort_sizes/a", {"study": "sort_sizes", "lab": {"name": "mine"}}
    )
    run = Run("Few", 1, 1, "finished", "", {}, started="2026-01-01T00:00:00.000+00:00")
    results.keep(run, {"sorting.txt": "1.0\n"})
    judged = (str(results.path), str(HOME / "data/recorded/docker_stream.labkit"))
    result = labkit("scorecard", *judged, "--all", cwd=folder, COLUMNS="1000")
    lines = (folder / "workloads/sorting.py").read_text().splitlines()
    line = 1 + lines.index("        start, last, end = text.split()")
    assert f"sorting.py:{line}: Sorting: its `parse` failed" in result.stdout, result.stderr
    assert "docker_stream on " in result.stdout


def test_a_broken_setting_is_named_and_the_others_are_listed(folder):
    (folder / "settings/torn.py").write_text("def")
    result = labkit("settings", cwd=folder)
    assert result.returncode == 1 and "torn.py:1" in result.stderr and "Hops" in result.stdout
    unknown = labkit("plan", "Torn(3)", "--on", "server", cwd=folder)
    assert unknown.returncode == 2 and "torn.py:1" in unknown.stderr


READERS = {
    "quits": ("import sys\nsys.exit(0)\n", "quits.py:2: SystemExit: 0"),
    "bare": ("x = 1\n", "bare.py:1: it has no `read`"),
    "odd": ("def read(text):\n    print(text)\n    return 1 / 0\n", "odd.py:3: ZeroDivisionError"),
    "none": ("def read(text):\n    return []\n", "it holds no values"),
    "text": ("def read(text):\n    return text\n", "what `read` returns must be a list, not 'one"),
}


def test_a_broken_format_of_ones_own_is_named_with_file_and_line_and_nothing_is_kept(folder):
    (folder / "imports").mkdir()
    (folder / "out.txt").write_text("one line\n")
    for name, (text, words) in READERS.items():
        (folder / f"imports/{name}.py").write_text(text)
        result = labkit("results", "import", "--from", name, "A=out.txt", "--json", cwd=folder)
        assert result.returncode in (1, 2) and words in result.stderr, result.stderr
        assert "Traceback" not in result.stderr and not result.stdout
    assert not (folder / "out/results").exists()


MARKS = {
    'needs = ">=99"': "labkit.toml:1: it needs labkit >=99",
    'needs = "new"': "labkit.toml:1: is no range of versions: 'new'",
    "needs = 3": "labkit.toml:1: is no range of versions: 3",
    'need = ">=1"': "labkit.toml:1: unknown key 'need'",
    "needs =": "labkit.toml:1: is not TOML",
}


def test_a_workspace_for_another_labkit_is_named_and_left_out(folder, tmp_path):
    folders = [folder]
    for number, text in enumerate(MARKS):
        copy = tmp_path / f"copy{number}"
        (copy / "studies").mkdir(parents=True)
        (copy / f"studies/copy{number}.py").write_text(STUDY)
        (copy / "labkit.toml").write_text(text)
        folders.append(copy)
    path = os.pathsep.join(map(str, folders))
    result = labkit("studies", "--json", cwd=tmp_path, LABKIT_PATH=path)
    assert result.returncode == 1 and {"sort_sizes", "lat_ping"} <= names(result)
    assert not any(name.startswith("copy") for name in names(result))
    for words in MARKS.values():
        assert words in result.stderr


def test_the_code_of_a_workspace_that_others_may_write_is_run_only_if_it_was_named(folder):
    folder.chmod(0o777)
    result = labkit("studies", "--json", cwd=folder)
    assert "sort_sizes" not in names(result) and "others may write there" in result.stderr
    assert "sort_sizes" in names(labkit("studies", "--json", cwd=folder, LABKIT_PATH=str(folder)))


def test_a_new_study_is_written_into_a_folder_of_ones_own(tmp_path):
    words = ("new", "study", "disk_cache", "--document", "Caches", "--in", "mine")
    done(*words, cwd=tmp_path)
    written = {str(path.relative_to(tmp_path / "mine"))
               for path in (tmp_path / "mine").rglob("*") if path.is_file()}  # fmt: skip
    assert written == {
        "labkit.toml", "studies/disk_cache.py", "notebooks/disk-cache.ipynb",
        "published/disk_cache.toml", "published/disk_cache.csv",
    }  # fmt: skip
    again = labkit(*words, cwd=tmp_path)
    assert again.returncode == 2 and "there is a study disk_cache already" in again.stderr
    done("plan", "disk_cache", cwd=tmp_path / "mine")


def test_claims_that_are_there_already_give_a_study_its_conditions(tmp_path):
    (tmp_path / "published").mkdir()
    (tmp_path / "published/sort_sizes.toml").write_text(CLAIMS.replace("median", "mean"))
    done("new", "study", "sort_sizes", "--in", ".", cwd=tmp_path)
    file = tmp_path / "studies/sort_sizes.py"
    assert '"Few": DRAFT,\n    "Many": DRAFT,' in file.read_text()
    assert 'metric="elapsed"' in file.read_text()
    # Of what the skeleton runs nothing is judged, on whatever lab; of one's own lines all is.
    assert "this study does not measure it yet" in ran_here(tmp_path)
    text = file.read_text().replace('"Few": DRAFT', '"Few": "echo elapsed: 1"')
    file.write_text(text.replace('"Many": DRAFT', '"Many": "echo elapsed: 2"'))
    assert ran_here(tmp_path).startswith("holds ")
    file.write_text(file.read_text().replace('"echo elapsed: 2"', '"echo done"'))
    with pytest.raises(AssertionError, match=r"Many: the pattern .* finds nothing in the output"):
        ran_here(tmp_path)


def ran_here(folder):
    result = subprocess.run(
        (sys.executable, "-c", RAN), cwd=folder, capture_output=True, text=True,
        env={**CLEAN, "LABKIT_OUT": str(folder / "out")},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_new_study_has_a_condition_for_each_point_of_its_claims(tmp_path):
    names = [f"zstd [do={what}]" for what in ("compress", "decompress")]
    (tmp_path / "published").mkdir()
    claims = CLAIMS.replace('["Few", "Many"]', json.dumps(names))
    (tmp_path / "published/sort_sizes.toml").write_text(claims)
    written = done("new", "study", "sort_sizes", "--in", ".", cwd=tmp_path)
    study = json.loads(done("studies", "sort_sizes", "--json", cwd=tmp_path))
    assert study["conditions"] == names
    words = ("run", "sort_sizes", "--where", "local", "--quick")
    assert f"labkit {' '.join(words)}" in written
    (verdict,) = json.loads(done(*words, "--json", cwd=tmp_path))["verdicts"]
    assert "does not measure it yet" in verdict["why"]


def test_a_campaign_takes_a_study_of_ones_own_on_this_machine_alone(folder):
    text = '[[study]]\nname = "sort_sizes"\nlabs = ["local"]\n[study.sweep]\nlines = [10, 20]\n'
    (folder / "mine.toml").write_text(text)
    told = done("campaign", "check", "mine.toml", cwd=folder)
    assert "2 points of 1 studies" in told and "lines=20" in told


@pytest.mark.box
def test_a_study_of_ones_own_runs_without_a_notebook_and_is_judged(folder, lab_file):
    words = ("run", "sort_sizes", "--quick", "--lab", str(lab_file), "--json")
    answer = json.loads(done(*words, cwd=folder))
    assert answer["verdicts"][0]["claim"] == "sort-sizes-01"
    study = json.loads((Path(answer["results"]) / "study.json").read_text())
    assert study["workload"] == {"name": "Sorting", "lines": 20000}
    assert Path(answer["report"]).is_file()
    shown = done("scorecard", answer["results"], "--study", "sort_sizes", cwd=folder)
    assert "sort-sizes-01" in shown
