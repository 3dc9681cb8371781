"""What other tools measured, judged on the claims of documents.

tests/claims/of_fio is of fio with as many requests a second as it was allowed: 1000, and 980 of
the reads that stand for the guest's.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from labkit import imports, studies
from labkit.charts.compared import ratios
from labkit.claims import published
from labkit.claims.judged_as import Claimed
from labkit.cli import main
from labkit.errors import BadInput, ResultsError
from labkit.pages.scorecard import scorecard
from labkit.results import Results
from labkit.running import measured
from labkit.running.open_lab import named_results, note

HERE = Path(__file__).parents[1]
LOADS = ("read", "write", "mixed")
FIO = {f"{side} [load={load}]": sorted((HERE / "claims/of_fio").glob(f"{side}-{load}.*"))
       for side in ("Native", "VM") for load in LOADS}  # fmt: skip
IOPS = ["max_iops='read iops' + 'write iops'", "max_iops=read iops", "max_iops=write iops"]
NETPERF = HERE / "imports/netperf/omni_pairs/input.txt"
GUEST = "VM, latency-sensitive"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    monkeypatch.setattr("labkit.runs.index.HOME", tmp_path)  # without what comes with labkit
    return tmp_path


def words(tool, study, metrics, files):
    said = [word for metric in metrics for word in ("--metric", metric)]
    named = [f"{name}={file}" for name, paths in files.items() for file in paths]
    return ["results", "import", "--from", tool, "--study", study, *said, *named]


def judged(results):
    return {line.claim: line for line in scorecard(results.path).lines if line.evidence}


@pytest.mark.slow
def test_what_fio_measured_elsewhere_is_judged_on_the_claims_of_its_study(typed):
    (told,) = typed(*words("fio", "docker-fio", IOPS, FIO), "--json")
    assert told["study"] == "docker_fio" and told["lacking"] == [] and len(told["found"]) == 6
    lines = judged(Results.open(Path(told["path"])))
    assert [line.verdict for line in lines.values()] == ["holds"] * 3
    first = lines["docker-fio-01"]
    assert first.effect == pytest.approx(0.02, abs=0.005) and len(first.local.effect.each) == 3
    assert (first.runs, first.tier, first.evidence) == (18, "imported", told["path"])
    assert first.lab == "files of fio" and first.when[:2] == "20"
    shown = " ".join(typed("scorecard", "--study", "docker_fio").split())
    assert "docker-fio-01: holds" in shown and "marked as imported" in shown
    assert "Emulated" not in shown


def test_a_claim_that_imported_runs_contradict_is_contradicted():
    native, guest = "Native [load=read]", "VM [load=read]"
    turned = {native: FIO[guest], guest: FIO[native]}
    found = imports.take_in("fio", turned, "x", Claimed.said("docker_fio", ["max_iops=read iops"]))
    assert judged(found)["docker-fio-01"].verdict == "contradicted"


@pytest.mark.slow
def test_what_is_lacking_is_named_by_the_import_and_by_the_verdict(typed):
    some = {name: files for name, files in FIO.items() if name != "VM [load=write]"}
    output = typed(*words("fio", "docker_fio", IOPS, some))
    assert "5 of 6 figures" in output and "not: VM [load=write]" in output
    damaged = named_results("docker_fio").path.with_name("damaged")
    damaged.mkdir()
    (damaged / "study.json").write_text("{")
    line = judged(named_results("docker_fio"))["docker-fio-02"]
    assert line.verdict == "not testable here"
    assert line.why.startswith("not measured: VM [load=write]; import")


def test_a_study_that_cannot_be_run_says_what_to_import(monkeypatch):
    monkeypatch.setattr(studies, "names", list)
    (line, *_) = [x for x in scorecard(study="specweb_15vm").lines if x.claim[-2:] == "02"]
    assert "(throughput, in Gbit/s)" in line.why
    assert line.why.endswith("labkit results import --study specweb_15vm")


def test_a_file_without_what_is_claimed_is_answered_with_what_it_has(typed):
    output = typed(*words("fio", "docker_fio", [], FIO), code=2)
    assert "which of its metrics is max_iops of Native [load=read]?" in output
    assert "it has read iops (1/s), read bandwidth (MB/s)" in output
    assert '--metric "max_iops=read iops"' in output
    assert '--metric "latency=latency mean"' in typed(
        *words("netperf", "docker_netperf", [], {"Native": [NETPERF]}), code=2
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "metrics", "name", "said"),
    [
        ("docker_fio", [], "Native [load=reed]", "did you mean 'Native [load=read]'"),
        ("docker_fi", [], "Native", "did you mean 'docker_fio'"),
        ("docker_netperf", ["latncy=latency p50"], "Native", "did you mean 'latency'"),
        ("docker_netperf", ["latency"], "Native", "which metric of the tool is it?"),
        ("docker_netperf", ["latency=throughput"], "Native", "latency is in 1/s, not in µs"),
        ("docker_netperf", ["latency=1e6 / 'throughput"], "Native", "is not a quantity"),
        ("docker_netperf", ["latency='latency p50' / 0"], "Native", "it divides by 0"),
        ("docker_netperf", ["latency='latency p5' * 2"], "Native", "it has throughput (1/s), "),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_written(
    home, typed, study, metrics, name, said
):
    assert said in typed(*words("netperf", study, metrics, {name: [NETPERF]}), code=2)
    assert not (home / "out" / "results").exists()


def test_metrics_are_those_of_a_study_and_studies_those_of_other_tools(typed):
    assert "--from fio" in typed("results", "import", "--study", "docker_fio", "a.labkit", code=2)
    assert "which --study?" in typed(
        "results", "import", "--from", "fio", "--metric", "a=b", "a", code=2
    )
    assert "a= names no file" in typed("results", "import", "--from", "fio", "a=", code=2)


def test_an_expression_may_turn_a_rate_into_the_claimed_figure_in_its_unit():
    claimed = Claimed.said("docker_netperf", ["latency=1e6 / 'throughput'"])
    found = imports.take_in("netperf", {"Native": [NETPERF]}, "x", claimed)
    (run,) = found.runs()
    first = measured.samples(found, run)[0]
    assert (first.metric, first.unit) == ("latency", "us")
    assert first.values == pytest.approx([1e6 / 36070.26])
    assert run.rows[0]["metric"] == measured.main_metric(found) == "latency"


def test_of_one_file_each_condition_takes_its_own_metric():
    two = HERE / "imports/fio/two_jobs/input.json"
    ways = ["max_iops: Native [load=read]=one: read iops", "max_iops=two: write iops"]
    files = {"Native [load=read]": [two], "Native [load=write]": [two]}
    found = imports.take_in("fio", files, "x", Claimed.said("docker_fio", ways))
    values = {name: blocks[1][0] for name, blocks in measured.of_claims(found).items()}
    assert values["Native [load=read]"] == pytest.approx(25874.635569)
    assert values["Native [load=write]"] == pytest.approx(21936.708861)


def latencies(home, sides):
    files = {}
    for name, values in sides.items():
        for n, value in enumerate(values):
            file = home / f"{name}.{n}.txt"
            file.write_text(NETPERF.read_text().replace("P50_LATENCY=13", f"P50_LATENCY={value}"))
            files.setdefault(name, []).append(file)
    return files


@pytest.mark.slow
def test_medians_that_runs_tell_are_judged_by_their_mean_and_no_other_percentile_is(home):
    files = latencies(home, {"Native": [30.0, 30.2, 29.8], GUEST: [45.1, 45.0, 44.9]})
    claimed = Claimed.said("docker_netperf", ["latency=latency p50"])
    line = judged(imports.take_in("netperf", files, "a", claimed))["docker-netperf-02"]
    assert line.verdict == "holds" and line.effect == pytest.approx(15)
    files = {"VM-Latency-SRIOV": files["Native"], "VM-Default": files[GUEST]}
    claimed = Claimed.said("lat_netperf", ["response_time=latency p50"])
    lines = judged(imports.take_in("netperf", files, "b", claimed))
    assert lines["lat-netperf-03"].verdict == "holds"
    means = "; each run has one value, and their mean is judged"
    assert lines["lat-netperf-03"].why.endswith(means)
    files = {f"{name} [vms=4]": each for name, each in files.items()}
    line = judged(imports.take_in("netperf", files, "c", claimed))["lat-netperf-05"]
    assert line.verdict == "not testable here" and "one value each" in line.why


def test_files_that_tell_one_figure_in_two_units_are_refused(home):
    text = NETPERF.read_text()
    other = home / "other.txt"
    other.write_text(text.replace("Trans/s", "10^9bits/s"))
    claimed = Claimed.said("docker_redis", [])
    with pytest.raises(BadInput, match=r"other\.txt: throughput is in 10\^9bits/s, not in 1/s"):
        imports.take_in("netperf", {"Native": [NETPERF], "VM": [other]}, "x", claimed)


@pytest.mark.slow
def test_imported_runs_are_listed_shown_drawn_and_exported_as_of_their_study(capsys, typed):
    assert main(words("fio", "docker_fio", IOPS, FIO)) == 0
    results = named_results("docker-fio")
    capsys.readouterr()
    (listed,) = typed("results", "list", "--study", "docker_fio", "--json")
    assert (listed["study"], listed["tier"]) == ("docker_fio", "imported")
    assert "Emulated" not in note(results) and "fio" in note(results)
    drawn = ratios(measured.of_metric(results, "max_iops"), "Native [load=read]").to_dict()
    assert "VM [load=mixed]" in json.dumps(drawn)
    assert "labkit scorecard" in typed("report", "docker_fio", code=2)
    assert (
        main(["results", "export", "docker_fio", "-o", str(results.path.parent / "x.labkit")]) == 0
    )
    there = results.path.parent / "x.labkit"
    verdicts = [line.verdict for line in scorecard(there).lines if line.evidence]
    assert verdicts == ["holds"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("odd", [[], {"study": "docker_fio"}, {"study": "docker_fio", "ways": [1]},
                                 {"study": "x", "ways": {}}])  # fmt: skip
def test_results_that_say_oddly_what_they_are_of_are_named_and_the_others_read(home, odd):
    claimed = Claimed.said("docker_fio", IOPS)
    good = imports.take_in("fio", FIO, "good", claimed)
    bad = good.path.with_name("bad")
    shutil.copytree(good.path, bad)
    answer = json.loads((bad / "study.json").read_text())
    (bad / "study.json").write_text(json.dumps({**answer, "claims": odd}))
    card = scorecard(home / "out" / "results")
    assert {line.evidence for line in card.lines if line.evidence} == {str(good.path)}
    with pytest.raises((BadInput, ResultsError)):
        measured.judged(Results.open(bad))


def test_units_are_those_of_metrics_that_are_claimed():
    for study in published.names():
        whole = published.published(study)
        assert whole.units.keys() <= {one for asked in whole.wanted().values() for one in asked}


@pytest.mark.parametrize("guest, wanted", [(35, "holds"), (95, "contradicted")])
def test_kept_texts_of_two_labs_are_judged_as_one(tmp_path, guest, wanted):
    """As notebooks/docs/lab-esxi.md says of a bare machine and of guests on ESXi."""
    text = (HERE / "cases/Netperf/tcp_rr/stdout.txt").read_text()
    files = {"Native": [], "VM, latency-sensitive": []}
    for (name, kept), mean in zip(files.items(), (20, guest), strict=True):
        for block in range(6):
            kept.append(tmp_path / f"{name}-{block}.txt")
            said = re.sub(r"MEAN_LATENCY=[\d.]+", f"MEAN_LATENCY={mean + block / 50:.2f}", text)
            kept[-1].write_text(said)
    claimed = Claimed.said("docker_netperf", ["latency=latency mean"])
    found = judged(imports.take_in("netperf", files, "x", claimed))
    assert found["docker-netperf-02"].verdict == wanted
