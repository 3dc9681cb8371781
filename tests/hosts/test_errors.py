"""Errors say what happened and where, the tool's last words, and what to try."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from labkit.errors import BadInput, LabkitError, Unknown, command_line, last_words


def test_an_error_prints_as_three_lines():
    failed = LabkitError("box1: it broke", said="first\nlast words\n", hint="try again")
    assert str(failed) == "box1: it broke\n  first\n  last words\n  hint: try again"


def test_an_unknown_name_lists_the_known_ones_and_the_nearest():
    unknown = Unknown("role", "cleint", ["server", "client"])
    assert str(unknown).splitlines() == [
        "unknown role 'cleint'; known: client, server",
        "  hint: did you mean 'client'?",
    ]
    assert isinstance(unknown, BadInput) and unknown.exit_code == 2


def test_many_known_names_stand_below_the_nearest_or_what_lists_them():
    """On lines of 80 letters that break between names, not at a blank in one of them."""
    names = [f"VM [rtt={n}ms]" for n in range(20)]
    first, near, *lines = str(Unknown("condition", "VM [rtt=11]", names)).splitlines()
    assert (first, near) == (
        "unknown condition 'VM [rtt=11]'",
        "  hint: did you mean 'VM [rtt=11ms]'?",
    )
    assert lines[0].startswith("  hint: known: VM [rtt=0ms], VM")
    assert all(len(line) <= 80 and line[:8] in ("  hint: ", " " * 8) for line in lines)
    assert (
        ", ".join(line[8:].strip().rstrip(",") for line in lines)
        == f"known: {', '.join(sorted(names))}"
    )
    unknown = Unknown("study", "9", map(str, range(100, 200)), "labkit studies")
    assert str(unknown).splitlines() == [
        "unknown study '9'", "  hint: `labkit studies` lists all 100",
    ]  # fmt: skip


def test_a_name_is_known_again_however_it_is_capitalized():
    assert Unknown("format", "FIO", ["fio", "Sockperf"]).hint == "did you mean 'fio'?"
    assert Unknown("format", "sockprf", ["fio", "Sockperf"]).hint == "did you mean 'Sockperf'?"
    assert Unknown("format", "ESXTOP", ["fio", "Sockperf"]).hint == ""


@pytest.mark.parametrize("said", ["\x1b[31mred\x1b[0m", "a\rb", "\x9b1m", "bell\x07"])
def test_what_a_host_says_cannot_steer_the_terminal(said):
    shown = str(LabkitError(said, said=said))
    assert all(c.isprintable() or c == "\n" for c in shown)


def test_only_the_last_words_are_repeated():
    assert last_words("\n".join(map(str, range(100)))) == "97\n98\n99"


def test_a_notebook_shows_the_message_and_not_our_code(capsys):
    shell = InteractiveShell.instance()
    shell.run_cell("from labkit.errors import LabkitError\nraise LabkitError('it broke', hint='x')")
    output = capsys.readouterr().out
    assert "it broke" in output and "hint: x" in output and "Traceback" not in output


def test_a_long_command_stands_on_one_line_without_its_middle():
    script = "for n in 1 2; do\n  true\ndone"
    assert command_line(["sh", "-c", script, "a b"]) == "sh -c 'for n in 1 2; do true done' 'a b'"
    line = command_line(["users", "x" * 5000, "last"])
    assert line.startswith("users xxx") and line.endswith("xxx last") and " ... " in line
    assert len(line) < 250
