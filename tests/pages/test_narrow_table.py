"""Tables of many figures in a terminal of 80 columns, and the sentence of what was found."""

import pytest

from labkit.pages.report_head import finding
from labkit.pages.terminal import narrow_table, table
from labkit.verdict import CONTRADICTED, HOLDS, NOT_TESTABLE, UNDECIDED

HEAD = ["round trip", "median", "90 %", "99 %", "99.9 %", "99.99 %", "document's median"]


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("conditions", [1, 2, 7])
def test_a_table_of_wide_rows_fits_and_loses_nothing(conditions):
    rows = [(f"VM-Latency-{n}", *(f"{n}{q} (100 to 2000)" for q in range(5)), "20")
            for n in range(conditions)]  # fmt: skip
    shown = narrow_table(rows, HEAD)
    assert max(map(len, shown.splitlines())) <= 80
    assert all(cell in shown for row in rows for cell in row)


def test_a_table_that_fits_stays_as_it_is():
    rows = [("Native", "9", "10", "12", "15", "~20", "18")]
    assert narrow_table(rows, HEAD) == table(rows, HEAD)


def verdict(word, effect, low, high, statement, *each, says=""):
    return {"verdict": word, "effect": effect, "low": low, "high": high, "statement": statement,
            "why": f"A / B = {effect}", "each": each, "measured": "",
            "local": {"says": says} if says else None}  # fmt: skip


def found(*verdicts):
    return list(verdicts)


def test_the_claim_that_was_decided_most_clearly_is_what_was_found():
    loose = verdict(HOLDS, 0.5, 0.2, 0.9, "loose")
    clear = verdict(CONTRADICTED, 3.0, 2.9, 3.1, "clear")
    other = verdict(NOT_TESTABLE, None, None, None, "other")
    said = finding(found(loose, clear, other))
    counts = "1 holds, 1 is contradicted, 1 cannot be tested here"
    assert said == (
        f"Found: of 3 claims {counts}. Decided most clearly: clear. This is contradicted."
    )


def test_of_few_blocks_the_clearest_is_found_by_how_they_differ():
    loose = verdict(HOLDS, 0.5, 0.2, 0.9, "loose")
    few = verdict(HOLDS, 3.0, None, None, "few", 2.9, 3.0, 3.1)
    assert "Decided most clearly: few. This holds." in finding(found(loose, few))


def test_where_nothing_was_decided_that_is_said_and_how_the_figures_compare():
    said = finding(found(verdict(UNDECIDED, 0.9, 0.5, 1.5, "loose")))
    assert said == "Found: the claim could not be decided by so few runs."
    says = ("agrees", "differs", "differs")
    said = finding([verdict(NOT_TESTABLE, 0.9, 0.5, 1.5, "x", says=say) for say in says])
    assert said.startswith("Found: none of the 3 claims can be tested on this lab. ")
    assert said.endswith("beside the document's, 1 agrees, 2 differ.")
