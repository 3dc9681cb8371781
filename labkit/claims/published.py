"""The documents' claims by study, read from data/published/<study>.toml.

A condition is named as in the document; `[vms=4]` behind it is a point that the document varies. At
the head of a file, `point` is the point of names without one. `metric` is that of claims without
one. `units` is that of claims that are no ratios. What is printed comes from the CSV file beside.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.claim import Bound, Claim, NotHere, Order, Ratio, Shape
from labkit.claims.printed import FOLDER, PrintedFigure, chosen, figures, words
from labkit.errors import BadInput, Unknown
from labkit.statistics.expression import SUMMARIES
from labkit.statistics.quantity import Statistic

COMMON = {
    "id", "form", "statement", "source", "metric", "hardware", "dispute", "statistics", "prints",
    "margin",
}  # fmt: skip
FORMS: Mapping[str, tuple[type[Claim], set[str]]] = {
    "order": (Order, {"conditions", "chains"}),
    "ratio": (Ratio, {"over", "under", "published", "within"}),
    "bound": (Bound, {"what", "low", "high", "published"}),
    "shape": (Shape, {"kind", "points", "at", "within", "each"}),
    "not here": (NotHere, {"why", "conditions"}),
}


@dataclass(frozen=True)
class Published:
    """A document's claims in one study: its title, the metric of the study, the claims."""

    study: str
    document: str
    metric: str
    claims: tuple[Claim, ...]
    units: Mapping[str, str] = field(default_factory=dict)

    def wanted(self) -> dict[str, list[str]]:
        """Condition -> the metrics that the claims ask of it."""
        found: dict[str, list[str]] = {}
        for name in dict.fromkeys(name for claim in self.claims for name in claim.names()):
            metric, _, condition = name.rpartition(": ")
            found.setdefault(condition, []).append(metric or self.metric)
        return found


def names() -> list[str]:
    """The studies that documents make claims in, whether or not labkit can run them yet."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def of(study: str) -> tuple[Claim, ...]:
    """The claims of a study."""
    return published(study).claims


@functools.cache
def published(study: str) -> Published:
    """The claims made in a study, and where."""
    file = FOLDER / f"{study}.toml"
    if not file.is_file():
        raise Unknown("study with claims", study, names())
    return read(file.read_text("utf-8"), study)


def read(text: str, study: str) -> Published:
    """Read one file of claims; a key or a form that is not known is refused by name."""
    try:
        whole = tomllib.loads(text)
        known = figures(study)
        printed = _printed(known, whole)
        head = {"metric": "", "statistics": whole["statistics"]}
        given = [{**head, **fields, "prints": _prints(known, fields)} for fields in whole["claim"]]
        claims = tuple(_claim(fields, printed) for fields in given)
        units = dict(whole.get("units", {}))
        return Published(study, whole["document"], whole["metric"], claims, units)
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as odd:
        what = f"the claims of {study} cannot be read"
        raise BadInput(what, said=f"{type(odd).__name__}: {odd}") from None


def _claim(fields: dict[str, Any], printed: Mapping[str, Mapping[float, float]]) -> Claim:
    if fields["form"] not in FORMS:
        raise Unknown("form of claim", fields["form"], FORMS)
    kind, own = FORMS[fields["form"]]
    if odd := set(fields) - COMMON - own:
        raise Unknown(f"key of claim {fields['id']}", min(odd), COMMON | own)
    statistics = tuple(map(_statistic, fields["statistics"]))
    given = {key: _frozen(fields[key]) for key in own if key in fields}
    if kind is Order:
        given |= {"percentiles": statistics, "published": printed}
    elif kind is not NotHere:
        given |= {"percentile": statistics[0]}
    if kind is Shape:
        given["points"] = {float(x): name for x, name in fields["points"].items()}
    for key in ("published", "within") if kind is Ratio else ():
        if key in fields:
            given[key] = _quotient(fields[key])
    about: dict[str, Any] = {
        key: fields.get(key, "") for key in ("metric", "hardware", "dispute", "prints")
    }
    about |= {"margin": fields.get("margin")}
    claim = kind(fields["id"], fields["statement"], fields["source"], **given, **about)
    for one in claim.comparisons():  # refuses a quantity that is none, and a margin
        one.near(claim.margin, {})
    return claim


def _statistic(word: str) -> Statistic:
    if word in SUMMARIES and word != "median":
        return word
    return 50.0 if word == "median" else float(word.removeprefix("p"))


def _quotient(given: float | list[float]) -> float:
    return given[0] / given[1] if isinstance(given, list) else float(given)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _prints(known: Sequence[PrintedFigure], fields: Mapping[str, Any]) -> str:
    return words(chosen(known, fields.get("prints", ())))


# Condition -> percentile -> figure, for the metric and the point that the claims are about.
def _printed(
    known: Sequence[PrintedFigure], whole: Mapping[str, Any]
) -> dict[str, dict[float, float]]:
    printed: dict[str, dict[float, float]] = {}
    for f in known:
        if f.metric == whole["metric"] and f.percentile:
            at = f"{f.x_name}={f.x}"
            name = f.condition + ("" if at == whole.get("point") else f" [{at}]")
            printed.setdefault(name, {}).setdefault(float(_statistic(f.percentile)), float(f.value))
    return printed
