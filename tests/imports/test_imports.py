"""What other tools wrote, read as samples: real files of each, garbage by the line, and bombs.

The files were written by the tools themselves (fio 3.33, iperf 3.12, netperf 2.7, sockperf 3.7,
redis-benchmark 7.0, Flent 2.1, hyperfine 1.15, pgbench 15, sysbench 1.0, wrk 4.1, memtier_benchmark
of 2026-03, stream.c 5.10, HPC Challenge 1.5). Those of PerfKitBenchmarker, the Phoronix Test Suite,
fio 2, Intel's LINPACK, STREAM in GB/s and esxtop, and the Flent files named by what they hold, have
our numbers in the form of files that others published; the readers were tried on those files too.
"""

import gzip
import json
import random
from pathlib import Path

import numpy as np
import pytest

from labkit import imports
from labkit.errors import BadInput, LabkitError, ResultsError, Unknown
from labkit.results import Results, Run
from labkit.running import measured
from labkit.runs import integrity, looks

PROGRAMS = ("netperf",)

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("[a-z]*/*"))


def file_of(case):
    """The file of a case, such as `fio/two_jobs`."""
    (found,) = (HERE / case).glob("input.*")
    return found


def text_of(case):
    return imports.text_of(file_of(case))


def told(sample):
    values = sample.values
    return {
        "metric": sample.metric, "unit": sample.unit, "lost": sample.lost, "n": len(values),
        "first": round(float(values[0]), 4), "sum": round(float(values.sum()), 2),
    }  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_each_file_is_read_as_expected(case):
    expected = json.loads((case / "expected.json").read_text())
    read = imports.find(case.parent.name).read
    text = text_of(case)
    if isinstance(expected, dict):
        with pytest.raises(ResultsError) as error:
            read(text)
        assert expected["refused"] in str(error.value)
    else:
        assert [told(sample) for sample in read(text)] == expected


def test_every_format_has_cases():
    assert {case.parent.name for case in CASES} == set(imports.names())


@pytest.mark.parametrize("name", ["netperf", "redis_benchmark", "sockperf"])
def test_a_number_that_may_have_been_cut_off_is_no_figure(name):
    kind = imports.find(name)
    for case in CASES:
        text = text_of(case).rstrip() + "\n"
        wanted = json.loads((case / "expected.json").read_text())
        if case.parent.name == name and isinstance(wanted, list):
            assert not kind.left_out(text)
            last = text.rstrip().rfind("\n") + 1
            for end in range(last + 1, len(text)):
                assert read_or_none(kind, text[:end]) == read_or_none(kind, text[:last])
                assert text[last:end].strip()[:20] in kind.left_out(text[:end])


def read_or_none(kind, text):
    try:
        return [told(sample) for sample in kind.read(text)]
    except ResultsError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("name", imports.names())
def test_a_format_reads_samples_or_refuses_whatever_the_text(name):
    kind, chance = imports.find(name), random.Random(name)
    texts = [text_of(case) for case in CASES if case.parent.name == name]
    for round in range(600):
        text = mutated(chance.choice(texts)[:20_000], chance)
        try:
            found = kind.read(text)
        except LabkitError:
            continue
        assert found, round
        for sample in found:
            assert np.isfinite(sample.values).all() and len(sample.values)
            assert isinstance(sample.metric, str) and isinstance(sample.unit, str)


ODD = [
    "", "NaN", "-1", "1e999", "{", "]", '"', ",", "\0", "\x1b[31m", "<x>", "null", "[]", "é", "\n",
]  # fmt: skip


def mutated(text, chance):
    for _ in range(chance.randint(1, 4)):
        at, length = chance.randrange(len(text) + 1), chance.choice([0, 1, 5, 40])
        text = text[:at] + chance.choice(ODD) * chance.choice([1, 1, 3]) + text[at + length :]
    return text[: chance.randrange(len(text) + 1)] if chance.random() < 0.2 else text


@pytest.mark.parametrize("name", imports.names())
@pytest.mark.parametrize(
    "text", ["", "nonsense", "{}", "[]", "null", "{" * 5000, "[" * 100_000, "<a>" * 10_000]
)
def test_what_is_nothing_of_the_tool_is_refused(name, text):
    with pytest.raises(ResultsError):
        imports.find(name).read(text)


DOCTYPE = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
BOMB = f"{DOCTYPE}<PhoronixTestSuite>&b;</PhoronixTestSuite>"


@pytest.mark.parametrize("text", [BOMB, BOMB.encode("utf-16").decode("utf-16"), "<!DOCTYPE a><a/>"])
def test_xml_that_could_read_files_or_grow_is_refused_unread(text):
    with pytest.raises(ResultsError, match="document type"):
        imports.find("phoronix").read(text)


def test_a_histogram_with_too_many_values_is_refused_before_it_fills_the_memory():
    told = {"bins": {"1000": 10**12}, "N": 10**12, "mean": 1.0}
    reads = {"total_ios": 1, "iops": 1, "bw": 1, "clat_ns": told}
    job = {"jobname": "a", "error": 0, "read": reads}
    with pytest.raises(ResultsError, match="impossible number"):
        imports.find("fio").read(json.dumps({"jobs": [job]}))


@pytest.mark.parametrize(
    "whole",
    [b"\x1f\x8b nonsense", gzip.compress(b"x" * 999)[:-9], b"\xff\xfe\x00"],
    ids=["no gzip", "half a gzip", "no UTF-8"],
)
def test_a_file_that_is_no_text_is_refused(tmp_path, whole):
    (tmp_path / "x").write_bytes(whole)
    with pytest.raises(ResultsError, match=r"unpacked|cut short|not text\n.*\n.*iconv"):
        imports.text_of(tmp_path / "x")


def test_a_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "MOST_BYTES", 1 << 20)
    for sizes in ([8 << 20], [700_000] * 2, [1 << 20] * 2):
        (tmp_path / "x").write_bytes(b"".join(gzip.compress(bytes(size)) for size in sizes))
        with pytest.raises(ResultsError, match="larger than 1 MiB"):
            imports.text_of(tmp_path / "x")


def test_a_packed_file_is_read_to_its_end_even_if_it_was_appended_to(tmp_path):
    whole = gzip.compress(b"one\n") + gzip.compress(b"two\n")
    (tmp_path / "x").write_bytes(whole)
    assert imports.text_of(tmp_path / "x") == "one\ntwo\n"
    for damaged in (whole[:-1], whole + b"garbage"):
        (tmp_path / "x").write_bytes(damaged)
        with pytest.raises(ResultsError, match=r"cut short|cannot be unpacked"):
            imports.text_of(tmp_path / "x")


# --- as results ----------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    return tmp_path


def iperf3_files(home, count=3):
    text = file_of("iperf3/tcp").read_text()
    paths = []
    for n in range(count):
        paths.append(home / f"run{n}.json")
        paths[-1].write_text(text.replace('"bits_per_second":\t1', f'"bits_per_second":\t{n + 1}'))
    return paths


def test_imported_files_are_runs_like_others(home):
    first, *others = iperf3_files(home)
    results = imports.take_in("iperf3", {"bare": [first], "guest": others}, "mine")
    runs = results.runs()
    assert [(run.condition, run.block) for run in runs] == [("bare", 1), ("guest", 1), ("guest", 2)]
    assert all(run.check() == [] and run.rows[0]["metric"] == "throughput" for run in runs)
    found = measured.of_metric(results, measured.main_metric(results))
    blocks_of = {name: sorted(blocks) for name, blocks in found.items()}
    assert blocks_of == {"bare": [1], "guest": [1, 2]}
    assert runs[0].facts["file"] == "run0.json"


def test_nothing_is_written_when_one_file_cannot_be_read_and_nothing_is_overwritten(home):
    good, *_ = iperf3_files(home)
    (home / "bad.json").write_text("{")
    with pytest.raises(ResultsError):
        imports.take_in("iperf3", {"a": [good, home / "bad.json"]}, "mine")
    assert not (home / "out").exists()
    imports.take_in("iperf3", {"a": [good]}, "mine")
    with pytest.raises(BadInput, match="is there already"):
        imports.take_in("iperf3", {"a": [good]}, "mine")


@pytest.mark.parametrize("sides", [{"a": [0, 1, 0]}, {"a": [0], "b": [0]}, {"a": [0, 1], "b": [1]}])
def test_a_measurement_is_one_block_of_one_condition(home, sides):
    files = iperf3_files(home)
    packed = home / "packed.json.gz"
    packed.write_bytes(gzip.compress(files[0].read_bytes()))
    asked = {name: [files[n] for n in some] for name, some in sides.items()}
    with pytest.raises(BadInput, match=r"has the same content as .*run\d\.json, for a"):
        imports.take_in("iperf3", asked, "mine")
    with pytest.raises(BadInput, match=r"packed\.json\.gz, for b, has the same content"):
        imports.take_in("iperf3", {"a": [files[0]], "b": [packed]}, "mine")
    assert not (home / "out").exists()


def test_the_same_files_are_imported_once_under_whatever_label(home):
    first, second, third = iperf3_files(home)
    before = imports.take_in("iperf3", {"a": [first, second]}, "mine")
    with pytest.raises(BadInput, match=f"{before.path} holds these measurements already"):
        imports.take_in("iperf3", {"a": [second, first]}, "other")
    assert imports.take_in("iperf3", {"a": [first, second, third]}, "more").finished()


def test_a_look_at_files_is_counted_when_they_are_imported_again_with_more(home):
    a, b = (files := iperf3_files(home, 10))[:5], files[5:]
    looks.look(imports.take_in("iperf3", {"a": a[:3], "b": b[:3]}, "first"))
    assert looks.taken(imports.take_in("iperf3", {"a": a, "b": b}, "again")) == (3,)
    unlike = {"a": a[:2], "b": b[1:3]}
    assert looks.taken(imports.take_in("iperf3", unlike, "others")) == ()


def test_of_an_older_import_a_file_that_is_there_twice_counts_once(home):
    first, second, _ = iperf3_files(home)
    results = imports.take_in("iperf3", {"a": [first, second]}, "mine")
    for block in (3, 4):
        run = Run("a", block, block, "finished", rows=results.runs()[0].rows)
        results.keep(run, {"import.txt": imports.text_of(first)})
    (blocks,) = measured.of_metric(results, "throughput").values()
    assert sorted(blocks) == [1, 2]
    assert "003-a-b3 holds the same measurement as a run before it" in integrity.remarks(results)[0]


def test_labkit_results_import_from_show_and_diff(home, typed):
    files = iperf3_files(home)
    words = ("results", "import", "--from", "iperf3", "--label", "x", "--json")
    (taken,) = typed(*words, f"bare={files[0]}", f"guest={files[1]}")
    assert "throughput" in typed("results", "show", taken["path"])
    runs = [run.path for run in Results.open(Path(taken["path"])).runs()]
    answer = typed("results", "diff", *runs, "--json")
    assert {"what": "condition", "old": "bare", "new": "guest"} in answer["facts"]
    assert answer["effects"][0]["verdict"] == "undecided"
    typed("results", "verify", taken["path"])
    said = typed("results", "import", "--from", "oracle", files[0], code=2)
    assert "known: esxtop, fio" in said


def test_an_import_tells_what_of_a_file_that_was_cut_off_it_left_out(home, typed):
    cut, whole = file_of("esxtop/cut_short"), file_of("esxtop/two_counters")
    words = ("results", "import", "--from", "esxtop", "--label")
    (taken,) = typed(*words, "x", f"a={cut}", "--json")
    assert taken["left_out"] == ["input.csv: the last line is not whole (2 of 3 fields)"]
    said = typed(*words, "y", f"b={cut}")
    assert "left out of input.csv: the last line is not whole" in said
    (run,) = (home / "out/results/imported/y/runs").iterdir()
    assert "not whole" in typed("results", "show", run, "--json")["facts"]["left_out"]
    assert typed(*words, "z", whole, "--json")[0]["left_out"] == []


def test_tests_of_phoronix_that_failed_are_told_to_be_left_out():
    said = "2 without a result: OpenSSL: Algorithm: RSA4096 (sign/s), x264: Bosphorus"
    left_out = imports.find("phoronix").left_out
    assert left_out(text_of("phoronix/one_title_two_units")) == said
    one_of_two = text_of("phoronix/as_documented")
    assert left_out(one_of_two) == "1 without a result: Compile (two)"
    assert left_out(one_of_two.replace("<Value></Value>", "<Value>60.5</Value>")) == ""


def test_an_unknown_format_lists_the_known_ones():
    with pytest.raises(Unknown, match=r"flent, iperf3|fio, flent"):
        imports.find("pong")
    assert imports.find("redis-benchmark") is imports.find("redis_benchmark")


def test_of_several_files_the_one_that_is_no_output_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    good = file_of("fio/two_jobs")
    (tmp_path / "odd.json").write_text("{}")
    with pytest.raises(ResultsError, match=r"odd\.json: "):
        imports.take_in("fio", {"a": [good, tmp_path / "odd.json"]}, "mixed")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("version", "read"), [(4, "as they are"), (3, "turned round")])
def test_round_trips_like_their_own_rates_are_read_by_the_version_of_the_file(version, read):
    # 1000 / 31.62 is 31.63: as rates, these fit the interpolated ones a little better.
    raw = [31.5, 31.6, 31.65, 31.7, 31.75]
    steps = [1000 / value for value in raw]
    file = {"version": version, "metadata": {}, "results": {"Ping (ms) UDP": steps},
            "raw_values": {"Ping (ms) UDP": [{"val": value} for value in raw]}}  # fmt: skip
    (found,) = imports.find("flent").read(json.dumps(file))
    assert np.allclose(found.values, raw if read == "as they are" else steps)


def test_jobs_of_one_name_and_commands_that_come_again_are_several_values_of_a_metric():
    told = text_of("fio/two_jobs")
    answer = json.loads(told[told.find("{") :])
    found = imports.find("fio").read(json.dumps({"jobs": answer["jobs"] * 3}))
    once = imports.find("fio").read(told)
    assert [s.metric for s in found] == [s.metric for s in once]
    assert all(
        s.values.tolist() == one.values.tolist() * 3 for s, one in zip(found, once, strict=True)
    )
    text = text_of("redis_benchmark/csv")
    once, twice = (imports.find("redis_benchmark").read(text * n) for n in (1, 2))
    assert [s.values.tolist() for s in twice] == [s.values.tolist() * 2 for s in once]


def test_runs_of_different_numbers_of_clients_stay_apart():
    text = text_of("redis_benchmark/long")
    more = text.replace("50 parallel clients", "120 parallel clients")
    read = imports.find("redis_benchmark").read
    usual, found = read(text), {one.metric: one for one in read(text + more)}
    assert len(found) == 2 * len(usual)
    for one in usual:
        for name in (one.metric, f"{one.metric} [clients=120]"):
            assert found[name].values.tolist() == one.values.tolist()


def test_of_what_fio_says_while_it_runs_only_the_last_counts_and_each_run_counts():
    whiles, others = text_of("fio/status_interval"), text_of("fio/three_runs")
    read = imports.find("fio").read
    (one,) = (s.values.tolist() for s in read(whiles) if s.metric == "read iops")
    (two,) = (s.values.tolist() for s in read(whiles + "\n" + whiles) if s.metric == "read iops")
    assert two == one * 2 and len(one) == 1
    whole = [json.loads("{" + part) for part in f"\n{others}".split("\n{")[1:]]
    for told in (others, "\n".join(map(json.dumps, whole)), "fio: a warning\n" + others):
        (found,) = (s.values.tolist() for s in read(told) if s.metric == "read iops")
        assert found == [run["jobs"][0]["read"]["iops"] for run in whole]


def test_runs_of_jobs_of_other_names_are_metrics_of_their_own():
    text = text_of("fio/three_runs")
    found = imports.find("fio").read(text.replace('"jobname" : "a"', '"jobname" : "b"', 1))
    counts = {s.metric: len(s.values) for s in found if s.metric.endswith("read iops")}
    assert counts == {"b: read iops": 1, "a: read iops": 2}
