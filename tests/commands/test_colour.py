"""Colour stands where a terminal shows it, and nowhere else."""

import os
import pty
import subprocess
import sys

import pytest

from labkit.commands._colour import painted

TEXT = """\
ok  key    holds nothing back
!!  lat-ping-01  undecided  it is ok

lat-ping-02: contradicted
"""


def test_only_words_that_decide_are_painted_and_only_on_a_terminal(monkeypatch):
    assert painted(TEXT) == TEXT, "pytest captures what is printed"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = painted(TEXT)
    assert shown.count("\033[0m") == 4
    assert "\033[32mok\033[0m  key    holds nothing" in shown and "it is ok\n" in shown
    assert "lat-ping-02: \033[31mcontradicted\033[0m\n" in shown
    for name, value in (("NO_COLOR", ""), ("TERM", "dumb")):
        with monkeypatch.context() as without:
            without.setenv(name, value)
            assert painted(TEXT) == TEXT


@pytest.mark.slow
@pytest.mark.parametrize("plain", [False, True])
def test_a_scorecard_has_colour_in_a_real_terminal(plain):
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "labkit", "scorecard", "--study", "docker_linpack"]
    unset = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    setting = {**unset, "TERM": "xterm", **({"NO_COLOR": "1"} if plain else {})}
    with subprocess.Popen(words, stdout=theirs, stderr=subprocess.PIPE, env=setting) as done:
        os.close(theirs)
        shown = b""
        while part := _read(ours):
            shown += part
    os.close(ours)
    assert done.returncode == 0 and b"not testable here" in shown
    assert (b"\033[" in shown) is not plain


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
