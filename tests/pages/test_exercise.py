"""What a reader is told of an answer."""

import json
from pathlib import Path

import numpy as np
import pytest

from labkit.pages.exercise import EMPTY, check_name, check_number

NOTEBOOKS = sorted(Path(__file__).parents[2].glob("notebooks/*.ipynb"))
RATIOS = {"Native": 2.345, "VM-Default": 2083.4}


@pytest.mark.parametrize("answer", [63, 63.4, np.float64(63.4), np.int64(63)])
def test_a_right_number_may_be_rounded(answer):
    assert check_number(answer, 63, "as it is") == "right: as it is"


def test_a_fraction_is_right_with_three_digits_or_all():
    assert check_number(1 / 6, 1 / 6) == check_number(0.167, 1 / 6) == "right"


@pytest.mark.parametrize(
    ("answer", "said"),
    [(None, EMPTY), (60, "larger"), (70, "smaller"), (True, "answer with a number"),
     ("63", "without quotes, not '63'"), (float("nan"), "answer with a number")],
)  # fmt: skip
def test_what_is_said_of_a_wrong_number_helps(answer, said):
    found = check_number(answer, 63)
    assert found.startswith("not yet: ") and said in found


def test_a_name_is_right_however_it_is_written():
    assert check_name(" vm-default", RATIOS, "VM-Default", "times") == (
        "right: VM-Default has 2,083 times"
    )


@pytest.mark.parametrize(
    ("answer", "said"),
    [(None, EMPTY), ("Native", "Native has 2.35 times"),
     ("VM", """'VM' is not among the names: "Native", "VM-Default\""""), (3, "3 is not among")],
)  # fmt: skip
def test_what_is_said_of_a_wrong_name_helps(answer, said):
    found = check_name(answer, RATIOS, "VM-Default", "times")
    assert found.startswith("not yet: ") and said in found


def test_every_answer_of_a_notebook_is_checked_by_these():
    for file in NOTEBOOKS:
        cells = ("".join(cell["source"]) for cell in json.loads(file.read_text())["cells"])
        asked = [source for source in cells if "answer = None" in source]
        assert len(asked) >= 2 or file.name < "01" or file.name[:2] in ("02", "03")
        assert [source for source in asked if "check_n" not in source] == []
