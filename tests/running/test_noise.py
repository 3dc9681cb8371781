"""The noise of a lab: on the loopback of this machine with the real ping, and in known numbers."""

import json
import os
import re
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.special import stdtr

from labkit import box, noise_floor, studies
from labkit.claim import Order
from labkit.cli import main
from labkit.commands import plan
from labkit.controls import folder
from labkit.errors import BadInput, ResultsError, Unknown
from labkit.host import Host
from labkit.judging import judge, lab_noise
from labkit.lab import Lab
from labkit.machine.places import out
from labkit.noise_floor import per_block, smallest
from labkit.reason import Reason, What
from labkit.results import Results, Run
from labkit.running import noise
from labkit.running.open_lab import with_load
from labkit.statistics.estimate import ratio
from labkit.statistics.spending import levels
from labkit.transports.local import Local
from tests.running.test_study import NOWHERE, A, B
from tests.running.test_study import a_study as study_of

PROGRAMS = ("ping",)

a_study = partial(study_of, claims=())


@pytest.fixture
def lab(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    local = Local("here")
    hosts = {r: Host(r, "127.0.0.1", local) for r in ("client", "server")}
    return Lab("my lab/1", hosts, tier="loopback")


def pairs(seed, between=0.03, blocks=6, samples=2000, bias=1.0):
    rng = np.random.default_rng(seed)
    luck = np.exp(between * rng.standard_normal((2, blocks)))
    sides = luck[..., None] * rng.lognormal(4, 0.2, (2, blocks, samples))
    return dict(enumerate(sides[0])), dict(enumerate(bias * sides[1]))


def test_the_floor_is_how_far_the_interval_of_equal_by_equal_reaches_from_1():
    typical = noise_floor.levels(*pairs(1))[0]
    reach = max(typical.ratio.high, 1 / typical.ratio.low) - 1
    assert typical.floor == reach and 0.01 < typical.floor < 0.15
    assert not typical.different and typical.ratio.enough and typical.lacking == 0
    loud = noise_floor.levels(*pairs(1, between=0.3))[0]
    assert loud.floor > 5 * typical.floor


def test_an_end_a_hundredfold_away_is_none_in_json_and_so_is_the_floor_of_it():
    wild = noise_floor.levels(*pairs(1, between=4, blocks=2))
    assert wild[0].ratio.high > 100 * wild[0].ratio.value
    found = noise.told(noise_floor.Noise("s", "l", "c", "m", "us", 2, wild, "r"))["levels"][0]
    assert found["ratio"]["low"] is None and found["ratio"]["high"] is None
    assert found["floor"] is None and found["ratio"]["value"] == wild[0].ratio.value
    calm = noise_floor.levels(*pairs(1))
    found = noise.told(noise_floor.Noise("s", "l", "c", "m", "us", 6, calm, "r"))["levels"][0]
    assert found["floor"] == calm[0].floor and found["ratio"]["high"] == calm[0].ratio.high


def test_a_difference_below_the_floor_is_remarked_and_one_above_is_not():
    levels = noise_floor.levels(*pairs(1))
    found = noise_floor.Noise("s", "l", "c", "m", "us", 6, levels, "r")
    least = levels[0].floor
    assert found.hides(50, 1 + least / 2) == found.hides(50, 1 / (1 + least / 2)) == least
    assert found.hides(50, 1 + 2 * least) == found.hides(50, 1 / (1 + 2 * least)) == 0
    assert found.hides(75, 1.0) == 0, "never measured"
    assert found.hides(99.99, 1.0) == 0, "too few samples to call it a floor"


def test_a_lab_on_which_equal_comes_out_different_says_so():
    levels = noise_floor.levels(*pairs(2, between=0.01, bias=1.2))
    assert levels[0].different
    found = noise_floor.Noise("s", "l", "c", "m", "us", 6, levels, "r")
    assert "equal came out different" in noise.rows(found)[0][-1]
    assert "about 44 more blocks" in noise.rows(found)[-1][-1]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ping"), reason="needs iputils-ping")
def test_a_study_is_run_against_itself_and_kept_for_the_lab(lab):
    study = a_study(NOWHERE, A)
    found = noise.measure(study, lab, place="here.toml", label="first", repeats=3)
    assert (found.condition, found.blocks, found.lab) == ("a", 3, "my lab/1")
    runs = Results.open(noise_floor.Path(found.results)).runs()
    assert [run.condition for run in runs].count("one") == 3
    assert noise_floor.kept(study, "my lab/1") == found
    assert noise_floor.kept(study, "my lab-1") is None
    # The same label goes on where it ended.
    more = noise.measure(study, lab, place="here.toml", label="first", repeats=4)
    assert more.blocks == 4 and more.results == found.results


def noisy(study, results, blocks, other):
    """Runs in which ping's own text tells these times."""
    text = "64 bytes from 127.0.0.1: icmp_seq={} ttl=64 time={:.3f} ms"
    for name, sides in (("a", blocks), ("b", other)):
        for block, values in sides.items():
            lines = [text.format(n, v / 1000) for n, v in enumerate(values, 1)]
            end = f"{len(values)} packets transmitted, {len(values)} received, 0% packet loss"
            said = "\n".join([*lines, "", "--- 127.0.0.1 ping statistics ---", end])
            results.keep(Run(results.asked["names"][name], 1 + block, 1 + block, "finished"),
                         {"ping.txt": said})  # fmt: skip


@pytest.mark.slow
def test_a_verdict_says_when_its_difference_is_below_the_labs_noise(lab):
    study = replace(a_study(A, B), claims=(Order("c", "a is less", "s", conditions=("a", "b")),))
    asked = {"study": "lat_ping", "lab": {"name": lab.name}, "metric": study.metric,
             "condition": "a", "unit": "us"}  # fmt: skip
    itself = {**asked, "names": {"a": noise_floor.ONE, "b": noise_floor.OTHER}}
    plain = {**asked, "names": {"a": "a", "b": "b"}, "refused": {}}
    results = Results.begin(out() / "results" / "r", plain)
    noisy(study, results, *pairs(3, bias=1.02))
    assert "noise" not in judge(study, results)[0].why and lab_noise(study, results) is None
    noisy(study, Results.begin(folder(lab.name, "lat_ping") / "n", itself), *pairs(4))
    below = Reason(What.NOISE, number=lab_noise(study, results).hides(50, 1.02))
    assert judge(study, results)[0].reasons[-1] == below
    assert re.search(r"below this lab's noise of [\d.]+ %$", judge(study, results)[0].why)
    loud = Results.begin(out() / "results" / "loud", plain)
    noisy(study, loud, *pairs(3, bias=3))
    assert "noise" not in judge(study, loud)[0].why


def test_what_cannot_be_measured_is_refused_before_anything_runs(lab):
    with pytest.raises(Unknown, match="unknown condition of lat_ping 'b'"):
        noise.measure(a_study(A), lab, place="x", label="l", condition="b")
    with pytest.raises(BadInput, match="cannot do any condition") as error:
        noise.measure(a_study(NOWHERE), lab, place="x", label="l")
    assert "moon" in error.value.said
    with pytest.raises(BadInput, match="a label holds"):
        noise.measure(a_study(A), lab, place="x", label="../l")
    with pytest.raises(BadInput, match="repeats"):
        noise.measure(a_study(A), lab, place="x", label="l", repeats=0)


@pytest.mark.slow
def test_a_quick_look_at_the_noise_gives_way_to_a_whole_one(lab):
    study = a_study(A)
    quick = noise.measure(study, lab, place="x", label="q", repeats=3)
    assert noise_floor.kept(study, lab.name) == quick
    whole = noise.measure(study, lab, place="x", label="w", repeats=4)
    again = noise.measure(study, lab, place="x", label="q2", repeats=3)
    assert noise_floor.kept(study, lab.name) == whole != again


@pytest.mark.slow
def test_only_pairs_of_runs_that_can_be_used_make_a_quick_look_a_whole_one(lab):
    study, place = a_study(A), folder(lab.name, "lat_ping")
    names = {"a": noise_floor.ONE, "b": noise_floor.OTHER}
    asked = {"study": "lat_ping", "lab": {"name": lab.name}, "metric": study.metric,
             "condition": "a", "unit": "us", "names": names}  # fmt: skip
    empty = Results.begin(place / "empty", asked)
    assert noise_floor.kept(study, lab.name) is None, "stopped before its first pair"
    whole, quick = (Results.begin(place / name, asked) for name in ("whole", "quick"))
    noisy(study, whole, *pairs(1, blocks=4))
    noisy(study, quick, *pairs(2, blocks=3))
    for n, state in enumerate(("interrupted", "failed", "invalid"), 4):
        quick.keep(Run(noise_floor.ONE, n, n, state), {})
    quick.keep(Run(noise_floor.ONE, 7, 7, "finished"), {"ping.txt": "half of a pair"})
    for age, results in enumerate((empty, quick, whole), 1):
        os.utime(results.path / "study.json", (0, 2e9 - age))
    assert noise_floor.kept(study, lab.name).results == str(whole.path)


def test_results_without_a_pair_are_refused(lab, tmp_path):
    empty = Results.begin(tmp_path / "r", {"study": "lat_ping", "lab": {"name": "x"}})
    with pytest.raises(ResultsError, match="no finished pair"):
        noise_floor.read(a_study(A), empty)


@pytest.mark.parametrize("words, said", [
    (["noise", "lat_pong"], "unknown study 'lat_pong'"),
    (["noise", "--where", "recorded"], "stored results"),
    (["noise", "--condition", "Nonsense"], "unknown condition of lat_ping 'Nonsense'"),
    (["noise", "--lab", "/no/such/lab.toml"], "no lab file"),
])  # fmt: skip
def test_the_command_refuses_what_cannot_be_meant(capsys, words, said):
    assert main(words) == 2
    assert said in re.sub(r"\s+", " ", capsys.readouterr().err) or "unknown place" in said


@pytest.mark.box
def test_the_noise_of_the_box_is_measured_and_printed_as_json(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    path = box.up("noise")
    try:
        assert main(["noise", "--where", str(path), "--quick", "--json"]) == 0
    finally:
        box.down("noise")
    answer = json.loads(capsys.readouterr().out)
    assert answer["blocks"] == 3 and answer["condition"] == "Native"
    assert answer["levels"][0]["percentile"] == 50
    assert answer["levels"][0]["floor"] > 0
    study = with_load(studies.find("lat_ping"), count=1000)
    assert noise_floor.kept(study, answer["lab"]).blocks == 3


def test_a_plan_says_before_anything_runs_what_blocks_would_find(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    study = studies.find("lat_ping")
    for place, words in (("box", ""), ("my lab.toml", " --lab 'my lab.toml'")):
        said = plan.foreseen(study, "mine", 5, place)
        assert said.endswith(f"is not known: labkit noise lat_ping{words}")
    assert plan.foreseen(study, "mine", 1, "box").startswith("One block finds no difference")
    levels = noise_floor.levels(*pairs(1))
    known = noise_floor.Noise("lat_ping", "mine", "c", "m", "us", 6, levels, "")
    monkeypatch.setattr(noise_floor, "kept", lambda study, lab: known)
    few, many = (known.finds(50, blocks) for blocks in (5, 20))
    assert 0 < many < few < known.finds(50, 5, among=9)
    said = plan.foreseen(study, "mine", 10, "box")
    assert re.match(r"10 blocks find differences of \d+(\.\d+)? % at p50.*among the", said, re.S)
    table = noise.rows(known)
    assert table[0][2].count(" / ") == 2 and table[-1][2] == "not known"
    assert noise.told(known)["levels"][0]["finds"]["5"] == few


@pytest.mark.parametrize("blocks", [3, 5, 10, 30])
def test_a_difference_of_that_size_is_found_in_80_of_100_studies(blocks):
    effect = np.log1p(smallest(0.06, blocks))
    values = effect + 0.06 * np.random.default_rng(blocks).standard_normal((20_000, blocks))
    t = values.mean(1) / (values.std(1, ddof=1) / np.sqrt(blocks))
    found = 2 * stdtr(blocks - 1, -abs(t)) <= levels([blocks])[0]
    assert found.mean() == pytest.approx(0.8, abs=0.012)


def test_more_blocks_find_smaller_ones_and_more_comparisons_only_larger_ones():
    sizes = [smallest(0.06, blocks) for blocks in (3, 5, 10, 100)]
    assert sizes == sorted(sizes, reverse=True)
    assert smallest(0.06, 5, among=9) > smallest(0.06, 5)
    with pytest.raises(BadInput):
        smallest(0.06, 1)


def test_the_scatter_of_blocks_comes_back_from_the_interval_of_their_ratio():
    rng = np.random.default_rng(4)
    found = []
    for _ in range(40):
        sides = [{k: np.exp(rng.normal(0, 0.05)) * rng.lognormal(4, 0.2, 400) for k in range(8)}
                 for _ in range(2)]  # fmt: skip
        found.append(per_block(ratio(*sides, 50), 8))
    assert np.median(found) == pytest.approx(0.05 * np.sqrt(2), rel=0.15)
