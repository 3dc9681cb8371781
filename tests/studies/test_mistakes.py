"""The mistakes of an author: each is answered with file, line and claim before anything runs."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from papermill.exceptions import PapermillExecutionError

from labkit import applied, compare, open_lab, studies
from labkit.claims import printed, published
from labkit.cli import main
from labkit.errors import BadInput
from labkit.front.cards import Known, cards_html
from labkit.pages.scorecard import scorecard
from labkit.running.notebook import _explain
from labkit.settings.mtu import Mtu
from labkit.workloads.ping import Ping
from labkit.workloads.sockperf import Sockperf

STUDY = """
from labkit.claims import published
from labkit.condition import Condition
from labkit.settings.mtu import Mtu
from labkit.study import Study
from labkit.workloads.ping import Ping

study = Study(
    name="mine",
    title="Mine",
    question="Is it?",
    source="A document",
    workload=Ping(),
    conditions=(
        Condition("Native", "a", "b"),
        Condition("VM", "a", "b", settings=(Mtu(1400, role="client"),)),
        Condition("Docker-Host", "a", "b"),
    ),
    claims=published.of("mine"),
    metric="round trip",
    unit="us",
    topology="pair",
)
"""
CLAIMS = """
document = "A document"
metric = "round_trip"
statistics = ["median"]

[[claim]]
id = "mine-01"
form = "ratio"
statement = "A guest takes longer"
source = "Table 1"
over = "VM"
under = "Native"
published = 2.0
prints = ["round_trip"]

[[claim]]
id = "mine-02"
form = "bound"
statement = "A container does not"
source = "Table 1"
what = ["'Docker-Host' / 'Native'"]
low = 0.9
high = 1.1
"""
FIGURES = """condition,x_name,x,metric,statistic,value,unit,relation,source
Native,,,round_trip,median,18,us,=,A document; Table 1
"""
TOML, PY, CSV = "mine.toml", "mine.py", "mine.csv"
FIRST, SECOND = "claim mine-01", "claim mine-02"
MISTAKES = {
    "a form misspelt": (TOML, '"ratio"', '"ratoi"', f"mine.toml:8: {FIRST}: unknown form",
                        "'ratio'"),
    "a key misspelt": (TOML, "under =", "undr =", f"mine.toml:12: {FIRST}: unknown key", "'under'"),
    "a key missing": (TOML, 'under = "Native"\n', "", f"mine.toml:7: {FIRST}: a ratio needs two"),
    "low above high": (TOML, "low = 0.9", "low = 9", f"mine.toml:17: {SECOND}: a bound needs"),
    "a figure not printed": (TOML, '["round_trip"]', '["round_trp"]',
                             f"mine.toml:14: {FIRST}: unknown"),
    "no quantity": (TOML, " / 'Native'\"", ' / "', f"mine.toml:17: {SECOND}: \"'Docker-Host' / \""),
    "no document": (TOML, 'document = "A document"\n', "", "mine.toml:1: document is missing"),
    "a word for a number": (TOML, "= 2.0", '= "two"',
                            f"mine.toml:13: {FIRST}: published is a number"),
    "no statistic": (TOML, '"median"', '"p9x"', "mine.toml:4: 'p9x' is no statistic"),
    "no statistic of a claim": (TOML, 'over = "VM"', 'over = "VM"\nstatistics = ["p9x"]',
                                f"mine.toml:12: {FIRST}: 'p9x' is no statistic"),
    "a column missing": (CSV, ",unit", "",
                         "mine.csv:1: these columns are missing or unknown: unit"),
    "a condition misspelt": (TOML, "'Docker-Host'", "'Docker-Hst'", f"{SECOND}: unknown condition",
                             "mine.toml:17: ", "'Docker-Host'"),
    "a claim twice": (TOML, "mine-02", "mine-01", f"mine.toml:17: {FIRST} is there twice"),
    "a condition twice": (PY, '"Docker-Host"', '"VM"',
                          "mine.py:8: a condition of mine is there twice"),
    "another name": (PY, 'name="mine"', 'name="ours"', "mine.py:8: the study is called 'ours'"),
    "a metric misspelt": (PY, '"round trip"', '"round trp"', "mine.py:8: unknown metric",
                          "'round trip'"),
    "no Python": (PY, "study = Study(", "study = Study(((", "mine.py:", "SyntaxError"),
    "an unknown field": (PY, "unit=", "untt=", "mine.py:8: TypeError", "'untt'"),
    "a value misspelt": (PY, "Mtu(1400,", 'Mtu("zz",', "mine.py:16: ", "'zz'"),
    "a topology misspelt": (PY, '"pair"', '"pairs"', "mine.py:8: unknown topology", "'pair'"),
}  # fmt: skip
"""The file, what stands there, the mistake, and words of the answer."""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A study of one's own, which the registries find beside those of labkit."""
    for name, text in ((TOML, CLAIMS), (PY, STUDY), (CSV, FIGURES)):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    monkeypatch.setattr(studies, "__path__", [*studies.__path__, str(tmp_path)])
    for file in printed.FOLDER.iterdir():
        (tmp_path / file.name).symlink_to(file)
    for module in (published, printed):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    published.published.cache_clear()
    yield tmp_path
    published.published.cache_clear()
    sys.modules.pop(f"{studies.__name__}.mine", None)
    vars(studies).pop("mine", None)


def test_without_a_mistake_it_is_a_study_like_others(files):
    assert [claim.id for claim in studies.find("mine").claims] == ["mine-01", "mine-02"]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_file_line_and_claim_before_anything_runs(files, typed, mistake):
    name, right, wrong, *words = MISTAKES[mistake]
    text = (files / name).read_text()
    assert right in text
    (files / name).write_text(text.replace(right, wrong, 1))
    output = typed("run", "mine", code=2)
    assert [word for word in words if word not in output] == [], output
    assert not (files / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "right", "wrong", "said"),
    [(PY, "unit=", "untt=", "mine.py:8: TypeError"), (TOML, '"ratio"', '"ratoi"', "mine.toml:8: ")],
)
def test_a_broken_study_is_named_and_takes_no_other_down(files, capsys, name, right, wrong, said):
    (files / "other.toml").write_text(CLAIMS.replace("mine-", "other-"))
    (files / "other.csv").write_text(FIGURES)
    (files / name).write_text((files / name).read_text().replace(right, wrong))
    assert main(["studies"]) == 1
    output = capsys.readouterr()
    assert "lat_ping" in output.out and said in output.err
    assert main(["studies", "--json"]) == 1
    assert '"lat_netperf"' in capsys.readouterr().out
    card = scorecard(files)
    assert "other-01" in [line.claim for line in card.lines]
    assert len(card.unread) == 1 and said in card.unread[0]
    assert said in " ".join(card.text().split())
    page = cards_html(Known().cards(), {})
    assert "lat-ping.ipynb" in page and said in page


@pytest.mark.slow
def test_a_study_without_a_notebook_takes_no_other_down(files, typed):
    told = {study["name"]: study["notebook"] for study in typed("studies", "--json")}
    assert all(Path(file).is_file() for file in told.values())
    assert any("drafts" in file for file in told.values())
    page = cards_html(Known().cards(), {})
    assert "lat-ping.ipynb" in page and "mine has no notebook" in page


def apply(settings):
    with applied(settings, {}):
        raise AssertionError("nothing was refused")


@dataclass(frozen=True)
class Own(Ping):
    """A load of one's own, in a file whose annotations are no texts."""

    times: int = 3


WRONG = {
    "a place that is no text": (lambda: open_lab(Path("no.toml")), "no lab file no.toml"),
    "a setting for a list": (lambda: apply(Mtu(1400, role="client")),
                             "a list of settings is needed"),
    "a word for a setting": (lambda: apply(["Mtu"]), "a list of settings is needed, not ['Mtu']"),
    "a text for a number": (lambda: Sockperf(size="big"), "sockperf: size must be a whole number"),
    "a text for a number of one's own": (lambda: Own(times="x"),
                                         "own: times must be a whole number"),
    "an unknown knob": (lambda: Ping(cuont=3), "did you mean 'count'"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_kind_of_thing_is_answered_by_labkit_and_not_by_python(mistake):
    call, said = WRONG[mistake]
    with pytest.raises(BadInput) as error:
        call()
    assert said in str(error.value)


def test_sizes_whose_quotient_is_too_large_are_no_error_of_python():
    huge, tiny = ({n: [size * (1 + n / 9)] * 3 for n in range(1, 6)} for size in (1e307, 1e-307))
    with pytest.raises(BadInput, match=r"1\.11111e\+307 is no measurement: a in block 1"):
        compare(huge, tiny)


def test_an_error_in_a_cell_names_the_cell_and_the_kind_of_error(tmp_path):
    failed = PapermillExecutionError(3, 2, "quick['count']", "KeyError", "'count'", [])
    assert "cell 2 of the notebook: KeyError: 'count'" in str(_explain(failed, tmp_path, False))
