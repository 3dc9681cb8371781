"""The command line: what it prints, and the exit codes that scripts rely on."""

import argparse
import re
import shlex
import subprocess
import sys

import pytest

from labkit.box.folder import not_up
from labkit.box.this_machine import packages
from labkit.cli import main
from labkit.cli import parser as all_parsers
from labkit.running.notebook import Rerun


def test_no_command_prints_what_there_is_and_exits_with_2(typed):
    assert "labkit doctor" in typed(code=2)


def test_a_box_that_is_not_up_is_brought_up_by_the_command_that_is_named(typed):
    for name, command in (("nobodys", "labkit box up --name nobodys"), ("lab", "labkit box up")):
        assert str(not_up(name)).endswith(command)
    assert "hint: labkit box up --name nobodys\n" in typed(
        "box", "ssh", "--name", "nobodys", "client", code=1
    )


@pytest.mark.parametrize(
    ("verb", "other"),
    [("scorecard", "--html"), ("scorecard", "--markdown"), ("studies", "--write")],
)
def test_two_forms_of_one_answer_are_refused(capsys, verb, other):
    with pytest.raises(SystemExit, match="2"):
        main([verb, "--json", other])
    assert f"argument {other}: not allowed with argument --json" in capsys.readouterr().err


@pytest.mark.slow
def test_missing_packages_are_told_to_machines_too(typed):
    assert typed("doctor", "--packages", "--json") == packages()


@pytest.mark.slow
def test_studies_as_json_name_their_conditions_claims_and_parameters(typed):
    (study,) = [s for s in typed("studies", "--json") if s["name"] == "lat_ping"]
    one = ["Native", "VM-Default", "VM-SRIOV", "VM-Latency-SRIOV"]
    assert study["conditions"] == [*one, *(f"{name} [vms=4]" for name in one[1:])]
    assert len(study["claims"]) == 7
    assert {"where", "repeats", "count", "seed"} <= set(study["parameters"])


def test_an_option_of_jupyter_lab_is_answered_with_where_such_options_go(capsys):
    with pytest.raises(SystemExit):
        main(["lab", "--port", "1"])
    assert "--port; options of `jupyter lab` go after --" in capsys.readouterr().err


@pytest.mark.parametrize("study", ["lat_netperf", "lat_vmxnet3"])
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("repeats=0", "repeats must be 1 to"), ("repeats=-3", "repeats must be 1 to"),
        ("repeats=nan", "repeats must be a whole number"), ("repeats=99999999999", "must be 1 to"),
        (f"repeats={'9' * 5000}", "repeats must be a whole number, not '999"),
        ("duration=0", "duration must be"), ("duration=86401", "duration must be"),
        ("duration=1.5", "duration must be a whole number"), ("seed=", "seed must be a whole"),
        ("quick=perhaps", "quick must be true or false"), ("label=../x", "a label holds"),
        ("where=nowhere", "unknown place"), ("count=3", "unknown parameter"),
    ],
)  # fmt: skip
def test_a_parameter_that_a_study_cannot_have_is_refused_before_anything_begins(
    study, given, why, tmp_path, monkeypatch, typed
):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    monkeypatch.setattr(Rerun, "execute", lambda *_: pytest.fail("its notebook was started"))
    output = typed("run", study, "-p", given, code=2)
    assert why in output and len(output) < 500
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_command_is_there_at_once():
    """No command imports what it does not need: the help needs neither paramiko nor altair."""
    code = "import sys; from labkit.cli import main; main([]); print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    heavy = {"altair", "papermill", "IPython", "scipy", "numpy", "paramiko"}
    assert "labkit.commands.box" in loaded.split()
    assert heavy.isdisjoint(loaded.split())


def _verbs(parser, words=()):
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from _verbs(inner, (*words, name))


VERBS = {" ".join(words) or "labkit": parser for words, parser in _verbs(all_parsers())}


@pytest.mark.slow
@pytest.mark.parametrize("parser", VERBS.values(), ids=VERBS)
def test_each_verb_says_what_it_is_for_with_an_example_that_can_be_meant(parser, capsys):
    shown = parser.format_help()
    assert f"usage: {parser.prog}" in shown
    lines = re.findall(r"^  (labkit .+?)(?:  |$)", shown, re.MULTILINE)
    assert any(line.startswith(parser.prog) for line in lines), shown
    for line in lines:
        all_parsers().parse_args(shlex.split(line.partition(" >")[0])[1:])
    assert parser.description[0].isupper()
    for action in parser._actions:
        assert action.help or action.choices, f"{action.dest} of {parser.prog}"
        assert action.nargs == 0 or action.metavar, f"{action.dest} of {parser.prog}"
