"""Counters are named by a part of their name, and have short names in pictures."""

import pytest

from labkit.charts.over_time import counters_over_time
from labkit.errors import BadInput, Unknown
from labkit.telemetry.counters import read
from labkit.telemetry.matching import matching, short
from tests.telemetry.test_columns import csv_of

NAMES = [rf"\\esx1\Group Cpu({n}:{vm})\{what}" for n, vm in ((7, "web"), (8, "db[1]"))
         for what in ("% Used", "% Ready")]  # fmt: skip


def test_a_pattern_is_a_part_of_a_name_in_any_case():
    assert matching(NAMES, ["ready"]) == [NAMES[1], NAMES[3]]
    assert matching(NAMES, ["web*used"]) == [NAMES[0]]
    assert matching(NAMES, ["db[1]", "READY"]) == [NAMES[2], NAMES[3], NAMES[1]]


def test_an_unknown_counter_is_refused_with_those_that_are_there():
    with pytest.raises(Unknown, match="known: % Ready, % Used"):
        matching(NAMES, ["% Run"])
    many = [rf"\\h\Memory\counter {n}" for n in range(100)]
    with pytest.raises(BadInput, match="no counter of 100 has 'none' in its name"):
        matching(many, ["none"])


def test_short_names_leave_out_what_is_the_same_for_all_and_stay_different():
    assert short([NAMES[1], NAMES[3]]) == ("% Ready", ["web", "db[1]"])
    assert short(NAMES)[0] == "" and short(NAMES)[1][0] == r"Group Cpu(7:web)\% Used"
    two = [r"\\h\Group Cpu(7:web)\% Used", r"\\h\Group Cpu(8:web)\% Used"]
    assert short(two) == ("% Used", ["Group Cpu(7:web)", "Group Cpu(8:web)"])


def test_too_many_lines_for_one_picture_are_refused(tmp_path):
    (tmp_path / "many.csv").write_text(csv_of([["1"] * 30] * 3))
    with pytest.raises(BadInput, match="30 counters are too many for one picture"):
        counters_over_time(read(tmp_path / "many.csv"))
