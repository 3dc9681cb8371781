"""What a reader is told of an answer."""

import json
import re
import tomllib
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from book_links import ANY, questions

from labkit import studies
from labkit.errors import Unknown
from labkit.pages.exercise import EMPTY, EXERCISES, check, check_name, check_number, exercises
from labkit.pages.guess import Guess

NOTEBOOKS = sorted(Path(__file__).parents[2].glob("notebooks/*.ipynb"))
RATIOS = {"Native": 2.345, "VM-Default": 2083.4}


@pytest.mark.parametrize(("answer", "said"), [
    *((number, "right: as it is") for number in (63, 63.4, np.float64(63.4), np.int64(63))),
    (None, EMPTY), (60, "not yet: the right number is larger"), (70, "smaller"),
    (True, "answer with a number"), ("63", "without quotes, not '63'"),
    (float("nan"), "answer with a number"),
])  # fmt: skip
def test_a_right_number_may_be_rounded_and_what_is_said_of_a_wrong_one_helps(answer, said):
    assert said in check_number(answer, 63, "as it is")
    assert check_number(1 / 6, 1 / 6) == check_number(0.167, 1 / 6) == "right"


@pytest.mark.parametrize(("answer", "said"), [
    (" vm-default", "right: VM-Default has 2,083 times"), (None, EMPTY),
    ("Native", "not yet: Native has 2.35 times"), (3, "not yet: 3 is not among"),
    ("VM", """not yet: 'VM' is not among the names: "Native", "VM-Default\""""),
])  # fmt: skip
def test_a_name_is_right_however_it_is_written_and_what_is_said_of_a_wrong_one_helps(answer, said):
    assert check_name(answer, RATIOS, "VM-Default", "times").startswith(said)


def test_every_answer_of_a_notebook_is_checked_by_these():
    for file in NOTEBOOKS:
        cells = ("".join(cell["source"]) for cell in json.loads(file.read_text())["cells"])
        asked = [source for source in cells if "answer = None" in source]
        assert len(asked) >= 2 or file.name < "01" or file.name[:2] in ("02", "03")
        assert [source for source in asked if "print(check" not in source] == []


def test_answers_of_exercises_stand_in_no_notebook_and_each_is_asked_for():
    asked = {}
    for book in NOTEBOOKS:
        cells = json.loads(book.read_text("utf-8"))["cells"]
        source = "\n".join("".join(cell["source"]) for cell in cells)
        assert not re.search(r"check_number\(answer, [\d.]+[,)]", source), book.name
        for study, number in re.findall(r'check\("(\w+)", (\d), answer\)', source):
            asked.setdefault(study, set()).add(int(number))
    assert asked == {file.stem: {*exercises(file.stem)} for file in EXERCISES.glob("*.toml")}


@pytest.mark.parametrize("study", [file.stem for file in sorted(EXERCISES.glob("*.toml"))])
def test_each_exercise_takes_its_right_answer_and_no_other_and_has_a_solution(study):
    for number, entry in exercises(study).items():
        assert check(study, number, entry["right"]).startswith("right")
        assert check(study, number, entry["right"] * 1.1).endswith("smaller")
        assert entry["solution"].endswith(".")


def test_each_study_asks_three_questions_that_no_other_asks_and_answers_them_apart():
    asked = {file.stem: questions(file.stem) for file in EXERCISES.glob("*.toml")}
    assert {*asked} == {*studies.built_in()} and {len(three) for three in asked.values()} == {3}
    assert len({*chain(*asked.values())} - {*ANY}) == 3 * len(asked)
    shown = "".join(book.read_text("utf-8") for book in NOTEBOOKS)
    for file in EXERCISES.glob("*.toml"):
        for entry in tomllib.loads(file.read_text("utf-8"))["question"]:
            assert json.dumps(entry["asks"], ensure_ascii=False)[1:-1] in shown
            assert entry["solution"].endswith(".") and entry["solution"] not in shown


def test_a_study_without_questions_of_its_own_asks_those_of_any():
    assert questions("not_yet_a_study") == ANY


def test_an_exercise_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(Unknown, match="unknown exercise '9'") as error:
        check("lat_ping", 9, 1)
    assert "1" in str(error.value)
    with pytest.raises(Unknown):
        check("lat_pong", 1, 1)


def test_a_guess_is_kept_for_the_next_time_and_read_beside_the_result(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    guess = Guess("lat_ping")
    guess.ask()
    guess.field.value = " the guest,\ntwice as slow "
    again = Guess("lat_ping")
    assert again.field.value == again.text == "the guest, twice as slow"
    again.remind()
    assert not capsys.readouterr().out, "where nobody is there, nothing is asked or printed"
    again.field.value = ""
    assert not Guess("lat_ping").text
