"""The documents' claims by study, read from data/published/<study>.toml.

A condition is named as in the document; `[vms=4]` behind it is a point that the document varies. At
the head of a file, `point` is the point of names without one. `metric` is that of claims without
one. `units` is that of claims that are no ratios. What is printed comes from the CSV file beside.
What is wrong is refused with its file, its line and the claim.
"""

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any

from labkit.claim import Bound, Claim, NotHere, Order, Ratio, Shape
from labkit.claims.forms import AtLeast, EveryTest, Near, Rank
from labkit.claims.printed import FOLDER, PrintedFigure, chosen, figures, folder_of, folders, words
from labkit.errors import BadInput, Unknown
from labkit.machine.written import Written
from labkit.statistics.measurand import measurands
from labkit.statistics.quantity import SUMMARIES, Quantity, Statistic, check_statistic

MUST_KEYS = ("id", "form", "statement", "source")
COMMON = {
    *MUST_KEYS, "metric", "hardware", "dispute", "statistics", "prints", "margin", "metrics",
}  # fmt: skip
FORMS: Mapping[str, tuple[type[Claim], set[str]]] = {
    "order": (Order, {"conditions", "chains"}),
    "ratio": (Ratio, {"over", "under", "published", "within"}),
    "bound": (Bound, {"what", "low", "high", "published"}),
    "shape": (Shape, {"kind", "points", "at", "within", "each"}),
    "equals or exceeds": (AtLeast, {"over", "under", "within"}),
    "within a tolerance": (Near, {"what", "published", "within"}),
    "rank order": (Rank, {"conditions", "within"}),
    "not here": (NotHere, {"why", "conditions"}),
}
HEAD = ("document", "metric", "statistics", "claim")
EXAMPLES = {"statistics": '["median"]', "claim": "{ ... }, or [[claim]]", "form": '"order"'}
HEAD_KEYS = {*HEAD, "url", "point", "units", "answer"}
ANSWER = ("says", "what", "form", "claim", "document")
ID = re.compile(r"[\w.-]+")
AT_A_POINT = re.compile(r"[^\[\]]+( \[[^\[\]]+\])?")
"""A condition, and perhaps its point: `VM [vms=4]`."""
SHAPES = ("percent", "times", "number")
"""The forms of a figure in an answer."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _each_is(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(test, value))


def _is_quotient(value: Any) -> bool:
    return _is_number(value) or (_each_is(_is_number)(value) and len(value) == 2 and value[1] != 0)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


TEXT, NUMBER = ("a text", _is_text), ("a number", _is_number)
TEXTS = ("a list of texts", _each_is(_is_text))
VALUES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("margin", "low", "high", "at", "published", "within"), NUMBER),
    **dict.fromkeys(("statistics", "prints", "conditions", "what", "each", "metrics"), TEXTS),
    **{key: (f"tables, each begun by [[{key}]]", _each_is(lambda one: isinstance(one, dict)))
       for key in ("answer", "claim")},
    "chains": ("a list of lists of texts", _each_is(_each_is(_is_text))),
    "points": (
        "a table of texts by numbers",
        lambda table: _is_table(table) and None not in map(_float, table),
    ),
    "units": ("a table of texts", _is_table),
    "url": ("a text", lambda text: isinstance(text, str)),
}  # fmt: skip
"""Kinds of values by key; any other key has a text."""


@dataclass(frozen=True)
class Headline:
    """The words of an answer, its figure, and the document's beside it.

    `says` has {} where the figure stands; `claim` is the claim that the figure is of.
    """

    says: str
    what: Quantity
    form: str
    claim: str
    document: str
    unit: str = ""

    @property
    def documented(self) -> str:
        """The words for the document's figure."""
        return f"the document {f'says {self.document}' if self.document else 'gives no figure'}"

    @property
    def compares(self) -> bool:
        """Whether 1 would be no difference: it is one thing over another, and no loss."""
        return self.what.alone is None and "1 -" not in self.what.text and self.form != "number"


@dataclass(frozen=True)
class Published:
    """A document's claims in one study: its title, the metric of the study, the claims."""

    study: str
    document: str
    metric: str
    claims: tuple[Claim, ...]
    units: Mapping[str, str] = field(default_factory=dict)
    answers: tuple[Headline, ...] = ()
    """The ways to say its answer, the best first."""
    url: str = ""
    """The place where the document can be read."""

    def wanted(self) -> dict[str, list[str]]:
        """Condition -> the metrics that the claims ask of it."""
        metrics_of: dict[str, list[str]] = {}
        for name in measurands(key for claim in self.claims for key in claim.names()):
            metrics_of.setdefault(name.at, []).append(name.metric or self.metric)
        return metrics_of


def names() -> list[str]:
    """The studies that documents make claims in, whether or not labkit can run them yet."""
    return sorted({file.stem for folder in folders() for file in folder.glob("*.toml")})


def of(study: str) -> tuple[Claim, ...]:
    """The claims of a study."""
    return published(study).claims


@functools.cache
def published(study: str) -> Published:
    """The claims made in a study, and where."""
    file = folder_of(study) / f"{study}.toml"
    if not file.is_file():
        raise Unknown("study with claims", study, names())
    return read(file.read_text("utf-8"), study, file.parent)


def read(
    text: str, study: str, folder: Path = FOLDER, wrong: list[BadInput] | None = None
) -> Published:  # fmt: skip
    """Read the text of a file of claims; the figures of its document are beside it in `folder`.

    The errors of claims go to `wrong`, if it is given, and the other claims are read.
    """
    toml = Written(folder / f"{study}.toml", text)
    tables = toml.tables()
    toml.insist_known(tables, HEAD_KEYS)
    _insist_there(toml, tables, HEAD)
    _insist_fit(toml, tables)
    with toml.locating("statistics"):
        list(map(_statistic, tables["statistics"]))
    printed_figures = figures(study, folder)
    figures_of = _figures_of(printed_figures, tables)
    claims: list[Claim] = []
    for n, table in enumerate(tables["claim"]):
        fields = {"statistics": tables["statistics"], **table, "main": tables["metric"]}
        try:
            claim = _claim(toml, n, fields, printed_figures, figures_of)
            if claim.id in (claim_before.id for claim_before in claims):
                raise toml.wrong(f"claim {claim.id} is there twice", "claim", n, "id",
                                 hint="give each claim an id of its own")  # fmt: skip
            claims.append(claim)
        except BadInput as error:
            if wrong is None:
                raise
            wrong.append(error)
    ids = [claim.id for claim in claims]
    answers = [_headline(toml, n, table, tables["statistics"][0], ids)
               for n, table in enumerate(tables.get("answer", ()))]  # fmt: skip
    return Published(study, tables["document"], tables["metric"], tuple(claims),
                     tables.get("units", {}), tuple(answers), tables.get("url", ""))  # fmt: skip


def _headline(
    toml: Written, n: int, fields: Mapping[str, Any], statistic: str, claims: Sequence[str]
) -> Headline:  # fmt: skip
    _insist_there(toml, fields, ANSWER, "answer", n)
    toml.insist_known(fields, {*ANSWER, "metric", "unit"}, "answer", n)
    texts = {key: str(value) for key, value in fields.items()}
    with toml.locating("answer", n, "form"):
        if texts["form"] not in SHAPES:
            raise Unknown("form of answer", texts["form"], SHAPES)
    with toml.locating("answer", n, "claim"):
        if texts["claim"] not in claims:
            raise Unknown("claim of the answer", texts["claim"], claims)
    if texts["says"].count("{}") != 1:
        raise toml.wrong("says has {} once, where the figure stands", "answer", n, "says")
    with toml.locating("answer", n, "what"):
        quantity = Quantity(texts.pop("what"), _statistic(statistic), texts.pop("metric", ""))
    return Headline(what=quantity, **texts)


def _claim(
    file: Written, n: int, fields: dict[str, Any], printed_figures: Sequence[PrintedFigure],
    figures_of: Mapping[str, Mapping[float, float]],
) -> Claim:  # fmt: skip
    place, name, main = ("claim", n), fields.get("id"), fields.pop("main")
    toml = file.told_of(f"claim {name}" if _is_text(name) else "")
    _insist_there(toml, fields, MUST_KEYS, *place)
    with toml.locating(*place, "form"):
        if str(fields["form"]) not in FORMS:
            raise Unknown("form of claim", str(fields["form"]), FORMS)
    kind, keys = FORMS[fields["form"]]
    toml.insist_known(fields, COMMON | keys, *place)
    _insist_fit(toml, fields, *place)
    with toml.locating(*place, "prints"):
        prints = words(chosen(printed_figures, fields.get("prints", ())))
    about: dict[str, Any] = {key: fields.get(key, "") for key in ("metric", "hardware", "dispute")}
    about["metric"] = _plain(about["metric"], main)
    about |= {"margin": fields.get("margin"), "prints": prints, "place": toml.at(*place, "id")}
    with toml.locating(*place, "statistics"):
        values = _values(kind, {key: fields[key] for key in keys if key in fields},
                       tuple(map(_statistic, fields["statistics"])), figures_of)  # fmt: skip
    with file.locating(*place, "id"):  # it says itself which claim it is
        claim = _in_each(
            kind(str(name), fields["statement"], fields["source"], **values, **about),
            [_plain(metric, main) for metric in fields.get("metrics", ())],
        )  # fmt: skip
    with toml.locating(*place, "id"):
        if not ID.fullmatch(claim.id):
            raise BadInput(f"{claim.id!r} is no id", hint="letters, digits, dots and dashes")
        if "over" in fields and fields["over"] == fields.get("under"):
            raise BadInput(f"over and under are both {fields['over']!r}")
        if fragments := [name for name in claim.names() if not AT_A_POINT.fullmatch(name)]:
            raise BadInput(f"{fragments[0]!r} is no condition", hint="such as VM, or VM [vms=4]")
        for comparison in claim.comparisons():  # refuses a quantity that is none, and a margin
            comparison.near(claim.margin, {})
    return claim


# The metric that all claims are about by themselves has no name in theirs.
def _plain(metric: str, main: str) -> str:
    return "" if metric == main else metric


# Itself, or as a claim of each of these metrics.
def _in_each(claim: Claim, metrics: Sequence[str]) -> Claim:
    if not metrics:
        return claim
    if claim.metric or not claim.comparisons():
        raise BadInput(f"claim {claim.id}: metrics are of a claim that is tested, without metric")
    about = {f.name: getattr(claim, f.name) for f in dataclass_fields(Claim)}
    return EveryTest(**about, parts=tuple(replace(claim, metric=name) for name in metrics))


# The fields of a form of claim.
def _values(
    kind: type[Claim], fields: Mapping[str, Any], statistics: tuple[Statistic, ...],
    figures_of: Mapping[str, Mapping[float, float]],
) -> dict[str, Any]:  # fmt: skip
    values = {key: _freeze(value) for key, value in fields.items()}
    if kind is Order:
        values |= {"percentiles": statistics, "published": figures_of}
    elif kind is not NotHere:
        values |= {"percentile": statistics[0]}
    if kind is Shape:
        values["points"] = {float(x): name for x, name in fields.get("points", {}).items()}
    if kind is Ratio:
        for key in values.keys() & {"published", "within"}:
            value = values[key]
            values[key] = value[0] / value[1] if isinstance(value, tuple) else float(value)
    return values


def _insist_there(
    toml: Written, table: Mapping[str, Any], keys: Sequence[str], *above: str | int
) -> None:
    if lacking := [key for key in keys if key not in table]:
        hint = f"such as: {lacking[0]} = {EXAMPLES.get(lacking[0], '...')}"
        raise toml.wrong(f"{lacking[0]} is missing", *above, hint=hint)


def _insist_fit(toml: Written, table: Mapping[str, Any], *above: str | int) -> None:
    for key, value in table.items():
        meaning, fits = VALUES.get(key, TEXT)
        if table.get("form") == "ratio" and key in ("published", "within"):
            meaning, fits = "a number, or two numbers to divide", _is_quotient
        if not fits(value):
            raise toml.wrong(f"{key} is {meaning}, not {value!r}", *above, key)


def _statistic(word: str) -> Statistic:
    if word in SUMMARIES and word != "median":
        return word
    percentile = 50.0 if word == "median" else _float(word.removeprefix("p"))
    if percentile is None:
        hint = f"such as median or p99; known too: {', '.join(SUMMARIES)}"
        raise BadInput(f"{word!r} is no statistic", hint=hint)
    check_statistic(percentile)
    return percentile


def _float(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list) else value


# Condition -> percentile -> figure, for the metric and the point that the claims are about.
def _figures_of(
    printed_figures: Sequence[PrintedFigure], tables: Mapping[str, Any]
) -> dict[str, dict[float, float]]:
    figures_of: dict[str, dict[float, float]] = {}
    for f in printed_figures:
        if f.metric == tables["metric"] and f.percentile:
            at = f"{f.x_name}={f.x}"
            name = f.condition + ("" if at == tables.get("point") else f" [{at}]")
            figures = figures_of.setdefault(name, {})
            figures.setdefault(float(_statistic(f.percentile)), float(f.value))
    return figures_of
