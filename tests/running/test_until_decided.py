"""Studies that stop by themselves: when all is decided, or when the minutes are spent."""

import shutil
import time

import pytest

from labkit.claim import Order, Ratio
from labkit.condition import Condition
from labkit.errors import BadInput
from labkit.host import Host
from labkit.lab import Lab
from labkit.results import Results
from labkit.running import loop, until_decided
from labkit.running.notebook import notebook, read_parameters
from labkit.runs import looks
from labkit.study import Study
from labkit.transports.local import Local
from labkit.workloads.ping import Ping

PROGRAMS = ("ping",)

pytestmark = pytest.mark.skipif(not shutil.which("ping"), reason="needs iputils-ping")

NEAR = Ratio("near", "b takes as long as a", "", over="b", under="a", published=1, within=40)
TWICE = Order("twice", "c is quicker than a by far", "", conditions=("'c' * 90", "'a'"))


def a_study(*claims):
    return Study(
        name="lat_ping", title="t", question="q", source="s", claims=claims,
        workload=Ping(count=25, interval=0.002), metric="round trip", unit="us",
        conditions=tuple(Condition(name, name, name) for name in "abc"),
    )  # fmt: skip


@pytest.fixture
def lab():
    here = Local("here")
    hosts = {role: Host(role, "127.0.0.1", here) for role in ("client", "server")}
    return Lab("loopback", hosts, tier="loopback")


def begun(study, tmp_path):
    return Results.begin(tmp_path / "results", study.asked("loopback", 1))


def test_it_stops_at_the_first_look_at_which_all_is_decided(lab, tmp_path):
    study = a_study(NEAR, TWICE)
    results = begun(study, tmp_path)
    loop.run(study, lab, results, repeats="until decided in 5 minutes")
    assert {v.claim: v.verdict for v in study.judge(results)} == {
        "near": "holds", "twice": "contradicted",
    }  # fmt: skip
    assert looks.taken(results) == (until_decided.FIRST_BLOCKS,)
    assert results.gaps() == []


@pytest.mark.slow
def test_it_goes_on_with_the_conditions_in_doubt_and_keeps_to_its_budget(lab, tmp_path):
    # Two equal conditions, told apart by less than any ping can see: never to be decided.
    doubt = Order("doubt", "a below b", "", conditions=("a", "b"), margin=1e-9)
    study = a_study(TWICE, doubt)
    results, told, began = begun(study, tmp_path), [], time.monotonic()
    loop.run(study, lab, results, repeats="until decided in 0.3 minutes", tell=told.append)
    assert time.monotonic() - began < 60
    counts = {name: sum(run.condition == name for run in results.finished()) for name in "abc"}
    assert counts["a"] == counts["b"] > counts["c"] == until_decided.FIRST_BLOCKS or (
        "doubt is not decided" in told[-1].remark
    )
    assert len(looks.taken(results)) >= 1
    assert [run.looks for run in results.runs()] == sorted(run.looks for run in results.runs())
    assert results.gaps() == []


@pytest.mark.parametrize(
    ("repeats", "what"),
    [("until decided in 0.001 minutes", "allows no block"), ("until decided in 0 min", "budget"),
     ("until decided in 99999 minutes", "budget"), ("until dinner", "number of blocks"),
     ("until decided in -3 minutes", "number of blocks")],
)  # fmt: skip
def test_a_budget_that_allows_no_block_is_refused_and_nothing_is_lost(lab, tmp_path, repeats, what):
    study = a_study(NEAR)
    results = begun(study, tmp_path)
    with pytest.raises(BadInput, match=what):
        loop.run(study, lab, results, repeats=repeats)
    assert results.runs() == []


def test_the_parameter_of_a_notebook_takes_it_too():
    source = notebook("lat_ping")
    words = "until decided in 7 min"
    assert read_parameters(source, {"repeats": words}) == {"repeats": words}
    assert until_decided.asked(words).minutes == 7
    assert until_decided.asked("until decided").minutes == until_decided.MINUTES
    with pytest.raises(BadInput, match="whole number"):
        read_parameters(source, {"repeats": "many"})
