"""What `labkit new study` writes passes the tests of all studies as it stands."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labkit import studies
from labkit.errors import BadInput
from labkit.running import new_study

HOME = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "out", "__pycache__", ".*_cache", "*.egg-info")
# All that looks at studies, their notebooks and their published files, and needs no box.
GENERIC = (
    "tests/studies/test_every_study.py", "tests/pages/test_notebooks.py",
    "tests/house/test_architecture.py",
    "tests/house/test_readme.py", "tests/house/test_prose.py", "tests/claims/test_claims.py",
    "tests/claims/test_who_decides.py", "tests/commands/test_scorecard.py",
)  # fmt: skip
# In the folder of a copy, Python takes the labkit of that copy.
# What is slow there and of the other studies is proved where they are.
ELSEWHERE = "runs_on_what_is_recorded or each_claim_can or recorded_box or moved_with_the_question"
ONLY_NEW = f"not ({ELSEWHERE}) or tried_cache or tried_stacks"
CLEAN = {name: word for name, word in os.environ.items() if not name.startswith("PYTEST_")}


def ran(folder, *words):
    words = (sys.executable, "-m", *words)
    return subprocess.run(words, cwd=folder, env=CLEAN, capture_output=True, text=True)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the tree with two new studies: one has claims already, the other gets one."""
    folder = tmp_path_factory.mktemp("copy") / "labkit"
    shutil.copytree(HOME, folder, ignore=LEFT_OUT, symlinks=True)
    for words in (
        ("tried_cache", "--document", "Caches That Tests Try"),
        ("tried-stacks", "--question", "Which stack answers a ping sooner?", "--title",
         "Two stacks"),
        (claimed(),),
    ):  # fmt: skip
        done = ran(folder, "labkit", "new", "study", *words)
        assert done.returncode == 0, done.stderr
    return folder


def claimed():
    """A study whose claims are there, and no more; there may be none left one day."""
    stems = sorted(path.stem for path in (HOME / "data/published").glob("*.toml"))
    return next((stem for stem in stems if stem not in studies.names()), "last_one")


@pytest.mark.when_changed("labkit/running/new_study.py", "labkit/studies/", "tests/studies/")
@pytest.mark.slow
def test_a_new_study_passes_all_tests_of_studies(copy):
    chosen = ("-k", f"{ONLY_NEW} or {claimed()}")
    done = ran(copy, "pytest", "-q", "-p", "no:cacheprovider", *chosen, *GENERIC)
    assert done.returncode == 0, done.stdout[-5000:]


@pytest.mark.slow
def test_a_new_study_is_listed_as_a_draft_and_its_source_is_listed_too(copy):
    listed = {
        load["name"]: load for load in json.loads(ran(copy, "labkit", "studies", "--json").stdout)
    }
    assert listed["tried_cache"]["draft"] and listed["tried_cache"]["claims"] == ["tried-cache-01"]
    assert listed["tried_stacks"]["question"] == "Which stack answers a ping sooner?"
    sources = (copy / "data/published/SOURCES.md").read_text("utf-8")
    assert "| Caches That Tests Try | not named | tried_cache |" in sources
    decided = (copy / "notebooks/docs/proof/claims.md").read_text("utf-8")
    assert "\n| tried-cache-01 | " in decided and "\n| tried-stacks-01 | " in decided


@pytest.mark.slow
def test_a_second_study_of_a_document_joins_its_row(copy):
    words = ("--document", "Caches That Tests Try")
    assert ran(copy, "labkit", "new", "study", "tried_queue", *words).returncode == 0
    sources = (copy / "data/published/SOURCES.md").read_text("utf-8")
    assert "| Caches That Tests Try | not named | tried_cache, tried_queue |" in sources


@pytest.mark.parametrize(("words", "said"), [
    (("lat_ping",), "there is a study lat_ping already"), (("../disk",), "cannot be called"),
    (("Disk Cache",), "small letters, digits and single underscores"),
    (("_disk",), "cannot be called '_disk'"), (("class",), "cannot be called 'class'"),
    (("d" * 31,), "at most 30"), (("disk", "--question", "Fast"), "ends with a question mark"),
    (("disk", "--title", 'a "title"'), "the title of a study cannot be"),
])  # fmt: skip
def test_a_name_or_a_text_that_cannot_be_meant_is_refused_and_nothing_is_written(
    words, said, typed, monkeypatch
):
    monkeypatch.setattr(Path, "write_text", None)
    assert said in typed("new", "study", *words, code=2)


def test_nothing_is_written_where_one_of_the_files_is_there(monkeypatch, tmp_path):
    made = new_study.NewStudy("tried_cache")
    there = tmp_path / "there"
    there.write_text("mine")
    files = {tmp_path / "new": "text", there: "text"}
    monkeypatch.setattr(new_study.NewStudy, "files", lambda self: files)
    with pytest.raises(BadInput, match="is there already"):
        new_study.write(made)
    assert there.read_text() == "mine" and not (tmp_path / "new").exists()
