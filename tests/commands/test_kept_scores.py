"""What was judged is not judged again; what is new, changed or broken is."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import synthetic

from labkit import studies
from labkit.pages import kept_scores, scorecard
from labkit.pages.kept_scores import kept_scorecard
from labkit.results import Results
from labkit.runs import bundle

pytestmark = pytest.mark.slow
STUDY = studies.find("lat_ping")
WIDE = 80
SAID = 15
"""Lines of the heads, the strongest two, and the legend."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tmp_path / "results"
    synthetic.write_results(made / "lat_ping" / "a", STUDY, repeats=4, count=100)
    return made


@pytest.fixture
def judged(monkeypatch):
    """The paths that were judged, call by call."""
    calls = []

    def noted(known, paths, *rest):
        found = gathered(known, paths, *rest)
        calls.append({path for path in found.evidence if path not in known.evidence})
        return found

    gathered = kept_scores.gathered
    monkeypatch.setattr(kept_scores, "gathered", noted)
    return calls


def test_of_one_study_no_recorded_run_of_another_is_opened(folder, judged):
    kept_scorecard(study="docker_stream")
    stems = [path.rpartition("/")[2] for path in judged[0]]
    assert stems == ["docker_stream.labkit"]


def test_it_is_the_scorecard_and_judges_only_what_is_new_or_changed(folder, judged):
    one, two = (folder / "lat_ping" / name for name in "ab")
    first, again = kept_scorecard(folder), kept_scorecard(folder)
    assert first == again == scorecard.scorecard(folder) and judged == [{str(one)}]
    assert kept_scorecard(folder, study="lat_ping").lines == tuple(
        line for line in first.lines if line.study == "lat_ping"
    )
    synthetic.write_results(two, STUDY, repeats=5, count=100)
    assert {line.evidence for line in kept_scorecard(folder).lines} == {"", str(two)}
    assert judged == [{str(one)}, {str(two)}]
    os.utime(next(two.glob("runs/*/run.json")))
    kept_scorecard(folder)
    (two / "looks.json").unlink()
    kept_scorecard(folder)
    assert judged[2:] == [{str(two)}, {str(two)}] and not judged[4:]


def test_a_bundle_is_opened_again_once_its_unpacked_copy_is_gone(folder, tmp_path, judged):
    shared = tmp_path / "shared"
    shared.mkdir()
    file = shared / "a.labkit"
    bundle.export(Results.open(folder / "lat_ping" / "a"), file)
    first = kept_scorecard(shared)
    for unpacked in (tmp_path / "out" / "bundles").iterdir():
        unpacked.rename(tmp_path / "elsewhere")
    assert kept_scorecard(shared) == first and judged == [{str(file)}] * 2


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"code": 1}', "other", "evidence"])
def test_what_is_kept_is_made_again_if_it_is_broken_or_of_another_labkit(folder, judged, broken):
    first = kept_scorecard(folder)
    (file,) = (folder.parent / "out" / "index").glob("scores-*.json")
    answer = json.loads(file.read_text())
    texts = {
        "other": {**answer, "code": "0.0 x"},
        "evidence": {**answer, "evidence": [{"path": 1}]},
    }
    file.write_text(json.dumps(texts[broken]) if broken in texts else broken)
    assert kept_scorecard(folder) == first and len(judged) == 2
    assert kept_scorecard(folder) == first and len(judged) == 2


def test_where_nothing_can_be_written_nothing_is_kept_and_the_answer_is_the_same(
    folder, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    for name in ("LABKIT_OUT", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "file" / "below"))
    assert kept_scorecard(folder).lines == scorecard.scorecard(folder).lines
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept_scorecard(folder)
    assert [*(tmp_path / "cache" / "labkit" / "index").glob("scores-*.json")]


def test_the_most_valid_blocks_of_a_lab_count_and_the_others_are_named(folder, typed):
    newer = synthetic.write_results(folder / "lat_ping" / "newer", STUDY, repeats=3, count=100)
    card = scorecard.scorecard(folder)
    judged = [line for line in card.lines if line.evidence]
    assert {(line.evidence, line.blocks) for line in judged} == {
        (str(folder / "lat_ping" / "a"), 4)
    }
    assert card.others == (f"{newer.path} (3 valid blocks)",)
    shown = " ".join(typed("scorecard", folder, "--all").split())
    assert f"{newer.path} (3 valid blocks)" in shown and judged[0].answer in shown


def test_another_lab_has_lines_of_its_own_and_the_next_best_steps_in_for_what_is_damaged(folder):
    best, other = (
        synthetic.write_results(folder / "lat_ping" / name, STUDY, repeats=blocks, count=100).path
        for name, blocks in (("best", 5), ("elsewhere", 3))
    )
    answer = json.loads((other / "study.json").read_text())
    answer["lab"]["hosts"] = {"server": {"cpu": "another"}}
    (other / "study.json").write_text(json.dumps(answer))
    for text in best.glob("runs/*/raw/*.gz"):
        text.write_bytes(b"nonsense")
    card = scorecard.scorecard(folder, study="lat_ping")
    assert {line.evidence for line in card.lines} == {str(folder / "lat_ping" / "a"), str(other)}
    assert len(card.unread) == 1 and str(best) in card.unread[0]
    assert {line.evidence for line in card.of_best()} == {str(folder / "lat_ping" / "a")}


def test_results_without_a_valid_block_take_no_place_of_those_that_have_some(folder):
    empty = synthetic.write_results(folder / "lat_ping" / "empty", STUDY, repeats=1, count=100).path
    answer = json.loads((empty / "study.json").read_text())
    answer["lab"] = {**answer["lab"], "name": "busy", "tier": "hosts"}
    (empty / "study.json").write_text(json.dumps(answer))
    shutil.rmtree(empty / "runs")
    card = scorecard.scorecard(folder, study="lat_ping")
    assert {line.evidence for line in card.lines} == {str(folder / "lat_ping" / "a")}
    assert card.others == (f"{empty} (0 valid blocks)",)


def test_two_results_of_one_machine_are_counted_once_for_each_claim(folder):
    other = synthetic.write_results(folder / "lat_ping" / "other", STUDY, repeats=3, count=100).path
    answer = json.loads((other / "study.json").read_text())
    answer["lab"]["name"] = "another box"
    (other / "study.json").write_text(json.dumps(answer))
    parts = scorecard._parts(scorecard.scorecard(folder, study="lat_ping"))
    (document,) = parts["documents"]
    assert len(document["lines"]) == 2 * document["total"]
    assert all(sum(c.values()) == document["total"] for c in document["labs"].values())


def test_the_first_screen_fits_a_small_terminal_and_names_all_that_was_measured(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDE))
    card = kept_scorecard()
    lines = card.text().splitlines()
    measured = {line.study for line in card.lines if line.evidence}
    documents = {line.document for line in card.lines}  # each may also say what was not measured
    assert len(lines) <= 2 * len(documents) + len(measured) + SAID
    assert max(map(len, lines)) <= WIDE
    assert len(measured) > 15 and all(any(name in line for line in lines) for name in measured)
    assert sum(line.startswith("Strongest ") for line in lines) == 2
    assert f"all {len(card.of_best())} claims" in card.text()


def test_what_was_judged_is_shown_without_loading_what_judges(folder):
    kept_scorecard(folder)
    code = (
        "import sys; from labkit.cli import main; main(['scorecard', sys.argv[1]]);"
        "print([name for name in sys.modules if name.startswith(('labkit.judging', 'scipy',"
        " 'polars', 'labkit.studies'))], file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert result.stderr.strip() == "[]" and "lat_ping" in result.stdout
