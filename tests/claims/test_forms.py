"""What papers say besides an order: equals or exceeds, in every test, a tolerance, a rank."""

import numpy as np
import pytest

from labkit.claim import judge
from labkit.claims import published
from labkit.claims.forms import AtLeast, EveryTest, Near, Rank
from labkit.claims.judged_as import _of_single
from labkit.errors import BadInput

ABOUT = ("c-01", "as it says", "section 1")


def blocks(middle, of=6, spread=0.01):
    chance = np.random.default_rng(int(middle * 100))
    return {n: chance.normal(middle, spread * middle, 200) for n in range(1, of + 1)}


def verdict(claim, **middles):
    return judge([claim], {name: blocks(value) for name, value in middles.items()})[0].verdict


@pytest.mark.parametrize(("over", "said"), [(130, "holds"), (100, "holds"), (80, "contradicted")])
def test_equals_or_exceeds_holds_for_equal_ones_and_fails_for_lower(over, said):
    claim = AtLeast(*ABOUT, over="Docker", under="KVM")
    assert verdict(claim, Docker=over, KVM=100) == said


@pytest.mark.parametrize(("figure", "said"), [(104, "holds"), (130, "contradicted")])
def test_a_figure_is_within_a_tolerance_of_the_printed_one_or_not(figure, said):
    claim = Near(*ABOUT, what=("'VM'",), published=100.0, within=0.2)
    found = judge([claim], {"VM": blocks(figure)})[0]
    assert found.verdict == said and found.published == 100


RANKS = {(10, 20, 30): "holds", (20, 20, 30): "holds", (20, 10, 30): "contradicted",
         (20, 20, 20.01): "undecided or the same"}  # fmt: skip


@pytest.mark.parametrize("middles", RANKS, ids=str)
def test_a_rank_order_bears_equal_neighbours_and_no_equal_ends(middles):
    claim = Rank(*ABOUT, conditions=("a", "b", "c"))
    found = verdict(claim, **dict(zip("abc", middles, strict=True)))
    assert found == RANKS[middles] or (found in ("undecided", "same within the margin")
                                       and "undecided" in RANKS[middles])  # fmt: skip


TOML = """
document = "A Paper"
url = "https://example.org/paper"
metric = "latency"
statistics = ["median"]

[[claim]]
id = "a-01"
form = "equals or exceeds"
statement = "Docker equals or exceeds KVM in every test"
source = "section 5"
over = "Docker"
under = "KVM"
metrics = ["read iops", "write iops"]
"""


def test_in_every_test_is_contradicted_by_one_of_them():
    found = published.read(TOML, "a")
    (claim,) = found.claims
    assert isinstance(claim, EveryTest) and found.url == "https://example.org/paper"
    assert found.wanted()["KVM"] == ["read iops", "write iops"]
    names = claim.names()
    assert len(names) == 4
    measured = {name: blocks(100) for name in names}
    assert judge([claim], measured)[0].verdict == "holds"
    worse = next(name for name in names if "Docker" in name and "write" in name)
    assert judge([claim], measured | {worse: blocks(70)})[0].verdict == "contradicted"
    single = {name: {n: values[:1] for n, values in b.items()} for name, b in measured.items()}
    assert {part.percentile for part in _of_single(claim, single).parts} == {"mean"}


def test_the_metric_of_the_file_is_the_same_whether_or_not_a_claim_names_it():
    text = TOML.replace('"read iops"', '"latency"')
    (claim,) = published.read(text, "a").claims
    assert {part.metric for part in claim.parts} == {"", "write iops"}
    assert "Docker" in claim.names() and "write iops: Docker" in claim.names()


WRONG = {
    'metrics = ["read iops"]': "every test is of two metrics at least",
    'metric = "x"\nmetrics = ["read iops", "b"]': "metrics are of a claim that is tested",
    "within = 1.0": "a factor within above 1",
    'overs = "x"': "unknown key 'overs'",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_form_that_says_too_little_is_named_with_its_line_and_claim(line):
    text = TOML.replace('metrics = ["read iops", "write iops"]', line)
    with pytest.raises(BadInput, match=rf"a\.toml:\d+: claim a-01: .*{WRONG[line]}"):
        published.read(text, "a")


def test_tolerances_and_ranks_that_are_none_are_refused():
    for made in (lambda: Near(*ABOUT, what=("'a'",), published=0.0),
                 lambda: Rank(*ABOUT, conditions=("a", "b"))):  # fmt: skip
        with pytest.raises(BadInput, match="claim c-01: a "):
            made()
