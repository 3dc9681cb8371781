"""A shell completes labkit's words."""

import subprocess

import pytest

from labkit import studies

PROGRAMS = ("bash",)

ASK = 'COMP_WORDS=(labkit {words}); COMP_CWORD={at}; _labkit; printf "%s\\n" "${{COMPREPLY[@]}}"'


@pytest.mark.parametrize(
    ("words", "offered"),
    [(["sco"], ["scorecard"]), (["run", "lat_p"], ["lat_ping"]), (["box", "u"], ["up"]),
     (["run", "--qu"], ["--quick"]), (["completion", "z"], ["zsh"])],
)  # fmt: skip
def test_bash_offers_verbs_studies_kinds_and_flags(words, offered, typed):
    ask = ASK.format(words=" ".join(words), at=len(words))
    shell = ["bash", "--norc", "-c", f"{typed('completion', 'bash')}\n{ask}"]
    result = subprocess.run(shell, capture_output=True, text=True, check=True)
    assert result.stdout.split() == offered


def test_all_studies_are_offered_and_files_where_no_word_fits(typed, tmp_path):
    (tmp_path / "basement.toml").touch()
    script = typed("completion", "bash")
    asks = [ASK.format(words="plan ''", at=2), ASK.format(words="doctor --lab base", at=3)]
    every, files = (
        subprocess.run(["bash", "--norc", "-c", f"{script}\n{ask}"], cwd=tmp_path,
                       capture_output=True, text=True, check=True).stdout.split()
        for ask in asks
    )  # fmt: skip
    assert {*studies.names()} <= {*every} and files == ["basement.toml"]


def test_zsh_begins_with_what_lets_it_read_bashs_form(typed):
    assert typed("completion", "zsh").startswith("autoload -Uz bashcompinit")
