"""What `labkit.` offers a script, the page about it, and errors for values of a wrong type."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import labkit
from labkit.errors import BadInput, CommandFailed
from labkit.settings.mtu import Mtu

HOME = Path(__file__).resolve().parents[2]
PAGE = HOME / "notebooks/docs/own-script.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_a_tab_lists_what_a_script_needs_and_no_machinery():
    offered = [name for name in dir(labkit) if not name.startswith("__")]
    assert {"open_lab", "applied", "compare", "Study", "Condition", "Workload", "Sample", "Order",
            "Ratio", "Bound", "Shape", "run", "judge"} <= {*offered}  # fmt: skip
    assert {*offered} == {*labkit.__all__} and "importlib" not in offered
    for name in labkit.__all__:
        home = importlib.import_module(labkit._HOME_OF[name])
        assert getattr(labkit, name) is getattr(home, "find" if name == "find_study" else name)
    with pytest.raises(AttributeError, match="has no attribute 'open_lap'"):
        _ = labkit.open_lap


def test_what_is_offered_is_imported_when_it_is_used():
    code = "import sys, labkit; dir(labkit); print([n for n in sys.modules if 'labkit.' in n])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "[]\n", result.stderr


@pytest.mark.slow
def test_the_scripts_of_the_page_run_as_they_stand(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    names = {"__name__": "own_script"}
    monkeypatch.setitem(sys.modules, "own_script", type(sys)("own_script"))
    for block in BLOCKS:
        exec(block, names)
    output = capsys.readouterr().out
    assert len(BLOCKS) == 3
    assert "B is faster: " in output and "plain / other = " in output
    # How clear it is depends on what else the machine does.
    assert re.search(r"^sorting-01 (holds|undecided) few / many = ", output, re.MULTILINE)
    assert re.search(r"^sorting-02 .* many / few = ", output, re.MULTILINE)
    assert "8 values in" in output


def condition(**more):
    return labkit.Condition("VM", means="a guest", here="a guest", **more)


def study(**more):
    about = {"name": "mine", "title": "t", "question": "q", "source": "s", "metric": "time taken",
             "unit": "s", "workload": labkit.Command(), "conditions": (), "claims": ()}  # fmt: skip
    return labkit.Study(**{**about, **more})


NAP, LOAD = labkit.Side(("sleep", "0.1")), labkit.Command()
WRONG = {
    "settings of condition VM must be a list": lambda: condition(settings=Mtu(9000)),
    "settings of condition VM: 'Mtu' is no Setting": lambda: condition(settings=["Mtu"]),
    "events of condition VM: 3 is no Event": lambda: condition(events=(3,)),
    "conditions of mine: 'VM' is no Condition": lambda: study(conditions=("VM",)),
    "claims of mine must be a list": lambda: study(claims="an order"),
    "workload of mine: .* is no Workload": lambda: study(workload=labkit.Command),
    "a workload of mine is there twice: 'command'": lambda: study(also=(labkit.Command(times=2),)),
    "an order needs two conditions": lambda: labkit.Order("a", "b", "", (50,), "VM"),
    "it needs over, under, and a factor": lambda: labkit.AtLeast("a", "b", "", over="VM"),
    "times must be a whole number, not 'many'": lambda: labkit.Command(times="many"),
    "words must be a list of words": lambda: labkit.Command(words=(1,)),
    "words must be a list of words, not 'sleep 1'": lambda: labkit.Command(words="sleep 1"),
    "words of a side must be a list, not 'sleep 1'": lambda: labkit.Side("sleep 1"),
    "settings of a side: 'Mtu' is no Setting": lambda: labkit.Side(("true",), settings=["Mtu"]),
    "sides: 'true' is no Side": lambda: labkit.Comparing({"A": "true"}, LOAD),
    "the sides are A and B, not A, C": lambda: labkit.Comparing({"A": NAP, "C": NAP}, LOAD),
    "study: 'lat_ping' is no Study": lambda: labkit.judge("lat_ping", None),
    "results: None is no Results": lambda: labkit.judge(study(), None),
    "study: 'mine' is no Study": lambda: labkit.run("mine", None, None),
    "study: 3 is no Study": lambda: labkit.study_results(3, None, "local"),
}


@pytest.mark.parametrize("said", WRONG)
def test_a_value_of_a_wrong_type_is_refused_with_what_is_wanted(said):
    with pytest.raises(BadInput, match=said):
        WRONG[said]()


def test_settings_that_are_none_are_refused_before_anything_is_asked():
    lab = labkit.open_lab("local")
    for wrong in (Mtu(9000), ["Mtu"], "Mtu(9000)"):
        with pytest.raises(BadInput, match="settings"), labkit.applied(wrong, lab.hosts):
            pass
    assert labkit.Side(("true",)).role in lab.hosts


def test_a_command_in_one_word_is_answered_with_its_words():
    with pytest.raises(CommandFailed, match=r"a list of words: host\.check\(\*\['ip', 'link'\]\)"):
        labkit.open_lab("local").host("server").check("ip link")
