"""Errors say what happened and where, the tool's last words, and what to try."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from labkit.errors import BadInput, LabkitError, Unknown, last_words


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


def test_a_name_is_known_again_however_it_is_capitalized():
    assert Unknown("format", "FIO", ["fio", "Flent"]).hint == "did you mean 'fio'?"
    assert Unknown("format", "flnt", ["fio", "Flent"]).hint == "did you mean 'Flent'?"
    assert Unknown("format", "PERFKIT", ["fio", "Flent"]).hint == ""


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
