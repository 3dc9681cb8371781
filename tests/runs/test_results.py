"""Results on disk: all of a run or nothing of it, and nothing damaged is believed."""

import gzip
import json
import random
import resource
import subprocess
import threading
from pathlib import Path

import pytest

from labkit.errors import BadInput, ResultsError
from labkit.results import Results, Run

ASKED = {"study": "lat_ping", "where": "box", "label": "x"}
RUN = Run("VM Default/odd", block=2, order=7, state="finished", rows=({"n": 3},))


@pytest.fixture
def results(tmp_path):
    return Results.begin(tmp_path / "r", ASKED)


def test_what_is_kept_is_read_back_the_same(results):
    kept = results.keep(RUN, {"ping.txt": "64 bytes\n" * 1000})
    (read,) = Results.open(results.path).runs()
    assert read == kept and read.path == kept.path
    assert read.text("ping.txt") == "64 bytes\n" * 1000


def test_a_run_is_readable_without_labkit(results):
    kept = results.keep(RUN, {"ping.txt": "hello"})
    assert kept.path.name == "007-VM-Default-odd-b2"
    assert json.loads((kept.path / "run.json").read_text())["condition"] == "VM Default/odd"
    assert gzip.decompress((kept.path / "raw" / "ping.txt.gz").read_bytes()) == b"hello"


def test_a_failed_run_stays_beside_its_repetition(results):
    results.keep(Run("Native", 1, 1, "failed", why="no answer"), {})
    results.keep(Run("Native", 1, 1, "finished"), {})
    assert [run.state for run in results.runs()] == ["failed", "finished"]
    assert [run.state for run in results.finished()] == ["finished"]


def test_a_run_that_was_not_finished_writing_is_not_a_run(results):
    kept = results.keep(RUN, {"ping.txt": "hello"})
    kept.path.rename(kept.path.with_name(f".{kept.path.name}.half"))
    assert results.runs() == []


def test_sha256sum_finds_a_run_whole_and_each_flipped_bit_is_found(results):
    kept = results.keep(RUN, {"ping.txt": "hello"})
    checked = ("sha256sum", "--check", "--strict", "SHA256SUMS")
    subprocess.run(checked, cwd=kept.path, check=True, capture_output=True)
    assert kept.check() == []
    for name in ("run.json", "raw/ping.txt.gz", "SHA256SUMS", "../../study.json"):
        content = (kept.path / name).read_bytes()
        for at in range(0, len(content), 9):
            flipped = bytearray(content)
            flipped[at] ^= 1
            (kept.path / name).write_bytes(flipped)
            try:
                wrong = Run.read(kept.path).check()
            except ResultsError as error:
                wrong = [str(error)]
            assert wrong, f"{name}, byte {at}"
        (kept.path / name).write_bytes(content)


@pytest.mark.slow
def test_twenty_writers_at_once_lose_nothing(results):
    def write(block):
        for order in range(10):
            results.keep(Run("Native", 1, order, "finished", why=str(block)), {"a": "x"})

    writers = [threading.Thread(target=write, args=(n,)) for n in range(20)]
    [writer.start() for writer in writers]
    [writer.join() for writer in writers]
    assert len({(run.order, run.why) for run in results.runs()}) == 200


def test_a_run_with_more_in_it_than_is_known_here_says_who_may_know_it(results):
    kept = results.keep(RUN, {})
    fields = json.loads((kept.path / "run.json").read_text()) | {"weather": "fair"}
    (kept.path / "SHA256SUMS").unlink()
    (kept.path / "run.json").write_text(json.dumps(fields))
    with pytest.raises(ResultsError, match="'weather', which a newer labkit may know"):
        results.runs()


@pytest.mark.parametrize("damage", [b"", b"\x1f\x8b junk", gzip.compress(b"jello", mtime=0)])
def test_raw_text_that_changed_is_refused(results, damage):
    kept = results.keep(RUN, {"ping.txt": "hello"})
    (kept.path / "raw" / "ping.txt.gz").write_bytes(damage)
    with pytest.raises(ResultsError, match=r"ping\.txt\.gz"):
        results.runs()[0].text("ping.txt")


GOOD = '{"condition": "a", "block": 1, "order": 1, "state": "finished", "rows": []'
DAMAGED = [
    "", "{", "[]", '{"condition": 1}', '{"format": 1, "x": 2}', f'{GOOD}, "seconds": NaN}}',
    f'{GOOD}, "seconds": Infinity}}', f'{GOOD}, "block": 2}}', "[" * 100_000, "\0" * 100,
    f'{GOOD}, "facts": {"[" * 50}{"]" * 50}}}', f'{GOOD}, "raw": {{"../x": "0"}}}}',
    f'{GOOD}, "format": 2}}', f'{GOOD}, "settings": []}}', GOOD.replace("[]", "[1]") + "}",
    f'{GOOD}, "raw": {{".x": "0"}}}}', f'{GOOD}, "path": "/etc"}}'.replace('"a"', "7"),
]  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_run_is_named_and_the_rest_is_readable(results, text):
    kept = results.keep(RUN, {})
    other = results.keep(Run("Native", 1, 8, "finished"), {})
    (kept.path / "SHA256SUMS").unlink()
    (kept.path / "run.json").write_text(text)
    with pytest.raises(ResultsError, match=r"run\.json"):
        results.runs()
    read, damaged = results.readable()
    assert read == [other] and list(damaged) == [kept.path.name]


def test_a_run_without_checksums_is_read_but_nobody_calls_it_whole(results):
    kept = results.keep(RUN, {"ping.txt": "hello"})
    (kept.path / "SHA256SUMS").unlink()
    assert results.runs() == [kept]
    assert kept.check() == [f"{kept.path / 'SHA256SUMS'}: is gone, so changes cannot be detected"]


def test_a_file_that_was_put_beside_a_runs_own_is_named(results):
    kept = results.keep(RUN, {"ping.txt": "hello"})
    assert kept.strange() == []
    (kept.path / "raw" / "more.txt.gz").write_bytes(b"")
    (kept.path / "link").symlink_to("/etc/passwd")
    assert kept.check() == []
    assert kept.strange() == [
        f"{kept.path / name}: is not part of the run" for name in ("link", "raw/more.txt.gz")
    ]


def test_a_disk_that_takes_no_more_leaves_whole_runs_only(results):
    first = results.keep(RUN, {"ping.txt": "hello"})
    noise = random.Random(1).randbytes(100_000).hex()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(ResultsError, match="cannot keep a run") as error:
            results.keep(Run("Native", 1, 1, "finished"), {"ping.txt": noise})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "File too large" in str(error.value)
    assert [run.path for run in results.runs()] == [first.path]
    assert [path.name for path in (results.path / "runs").iterdir()] == [first.path.name]
    results.keep(Run("Native", 1, 1, "finished"), {"ping.txt": noise})


def test_results_go_on_under_the_same_question_only(results):
    assert Results.begin(results.path, ASKED).path == results.path
    with pytest.raises(BadInput, match="where"):
        Results.begin(results.path, {**ASKED, "where": "lab.toml"})


def test_a_newer_format_is_refused_and_left_alone(results):
    file = results.path / "study.json"
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))
    before = file.read_bytes()
    with pytest.raises(ResultsError, match="format 2"):
        Results.open(results.path)
    assert file.read_bytes() == before


@pytest.mark.parametrize("odd", [{"study": 7}, {"study": ""}, {"lab": "x"}, {"refused": []}, {}])
def test_a_question_that_is_none_is_refused(results, odd):
    whole = {"format": 1, **({**ASKED, **odd} if odd else {})}
    (results.path / "study.json").write_text(json.dumps(whole))
    with pytest.raises(ResultsError, match="not a study"):
        Results.open(results.path)


def test_results_that_do_not_exist_say_so(tmp_path):
    with pytest.raises(ResultsError, match="no results at"):
        Results.open(tmp_path / "nothing")


@pytest.mark.parametrize("odd, said", [
    ({"order": 10**30}, "no run is number"), ({"block": -5}, "no run is number"),
    ({"started": 7}, "started is not str"), ({"seconds": "long"}, "seconds is not a number"),
    ({"rows": [{"metric": "a", "p50": "abc"}]}, "p50 of a row is 'abc'"),
    ({"rows": [{"metric": "a", "p99.9": float("inf")}]}, "p99.9 of a row is 'inf'"),
    ({"rows": [{"metric": "a", "n": 2**63}]}, "n of a row"),
])  # fmt: skip
def test_figures_that_no_run_has_are_refused(odd, said):
    fields = {"condition": "a", "block": 1, "order": 1, "state": "finished", "rows": []}
    assert Run.of(fields, Path("x")).block == 1
    with pytest.raises(ResultsError, match=said):
        Run.of({**fields, **odd}, Path("x"))
