"""Pictures that compare: each condition beside native, more workers beside one, what a pause is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from labkit.charts import ends
from labkit.charts.look import (
    BELOW_NAMES,
    COLOURS,
    GREY,
    Blocks,
    Rows,
    Runs,
    colour,
    framed,
    inline,
    insist,
    interval_tip,
    rounded,
    runs_of,
    shape,
    tip,
)
from labkit.errors import BadInput, LabkitError, Unknown
from labkit.machine.units import capital, figure, shown
from labkit.statistics.estimate import estimated
from labkit.statistics.quantity import Quantity, Statistic
from labkit.verdict import MARGIN, check_margin

OURS = COLOURS[3]


@dataclass(frozen=True)
class Fit:
    """A law fitted to a speed-up: its name with its figures, and the points of its curve."""

    name: str
    points: Sequence[tuple[float, float]]


def ratios(
    measured: Mapping[str, Blocks],
    native: str,
    published: Mapping[str, float] | None = None,
    *,
    statistic: Statistic = "mean",
    metric: str = "throughput",
    noise: float | None = None,
    margin: float | None = None,
    runs: Runs | None = None,
    title: str = "",
    note: str = "",
) -> alt.LayerChart:
    """Each condition over the `native` one, with its 95 % interval; the document's in grey.

    `noise` 0.04 shades what is no finding on this lab: 4 % more or less (`labkit noise`); `margin`
    the band in which conditions are the same, without either 5 %, as in verdicts. `runs`
    (`results.by_block()`) names the runs that a mark was made of when it is hovered.
    """
    check_margin(margin)
    margin = margin or (None if noise else MARGIN)
    insist(measured)
    if native not in measured:
        raise Unknown("condition", native, measured)
    names = [name for name in measured if name != native]
    rows = ends.reaching(
        [measured_ratio(name, native, measured, statistic, runs) for name in names], 1.0
    )
    known = (published or {}).items()
    theirs: Rows = [{"condition": n, "value": v} for n, v in known if n in names]
    x = alt.X("value:Q", title=f"{metric}, {native} = 1").scale(**even(rows)).axis(BELOW_NAMES)
    base = alt.Chart(inline(rows)).encode(
        y=alt.Y("condition:N", sort=names, title=None), color=_plain(names),
        tooltip=_tips(f"over {native}"),
    )  # fmt: skip
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q")
    dots = base.mark_point(filled=True, opacity=1, size=90).encode(x=x, shape=_plain_shape(names))
    one = alt.Chart(inline([{"value": 1}])).mark_rule(strokeDash=[6, 4], color=GREY).encode(x=x)
    bands = [shade(band, x) for band in (noise, margin) if band]
    layers = [*bands, one, bars.transform_filter("isValid(datum.low)"), dots,
              *ends.arrows(rows, base, "x", _tips(f"over {native}")),
              *([_diamonds(theirs, x, names)] if theirs else [])]  # fmt: skip
    said = "; ".join(f"{row['condition']} {figure(row['value'])}" for row in rows)
    diamonds = "Grey diamonds: the document's own. " if theirs else ""
    legend = f"Bars: 95 % intervals. {ends.legend(rows)}{diamonds}"
    legend += f"Shaded: this lab's noise, {100 * noise:.2g} %. " if noise else ""
    legend += f"Shaded: the same within the margin, {100 * margin:.2g} %." if margin else ""
    title = title or f"{capital(metric)}, relative to {native}"
    drawn, height = alt.LayerChart(layer=layers), max(60, 36 * len(names))
    return framed(drawn, height, title, legend.strip(), note, f"{metric} over {native}: {said}")


# A half is as far from 1 as the double, where nothing is in the way: an interval may end below 0.
def even(rows: Rows) -> dict[str, Any]:
    """The scale of an axis of ratios."""
    drawn = (row[key] for row in rows for key in ("low", "value"))
    above = all(end > 0 for end in drawn if end is not None)
    return {"type": "log", "nice": False, "padding": 12} if above else {"zero": False}


def speed_up(
    measured: Mapping[float, Blocks],
    fits: Iterable[Fit] = (),
    published: Mapping[float, float] | None = None,
    *,
    by: str = "workers",
    runs: Runs | None = None,
    title: str = "",
    note: str = "",
) -> alt.LayerChart:
    """Draw how much more some workers do than the fewest, beside the ideal and the laws fitted.

    `runs` names the run of a number of workers (`"8"`) and block.
    """
    named = {f"{x:g}": blocks for x, blocks in sorted(measured.items())}
    insist(named)
    first = min(measured)
    rows = [
        {**measured_ratio(f"{x:g}", f"{first:g}", named, "mean", runs), "x": x}
        for x in sorted(measured) if x != first
    ]  # fmt: skip
    if not (rows := ends.reaching(rows, 1.0)):
        raise BadInput("a speed-up needs two points", hint="measure more workers than one")
    basis = runs_of(runs, f"{first:g}", measured[first])
    rows.insert(0, {"x": first, "value": 1.0, **ends.bar(None, 0), "from": "the basis",
                    "runs": basis})  # fmt: skip
    lines = [{"law": "ideal", "x": x, "value": x / first} for x in sorted(measured)]
    lines += [{"law": f.name, "x": x, "value": y} for f in fits for x, y in f.points]
    x = alt.X("x:Q", title=by).axis(values=sorted(measured), format="~g")
    y = alt.Y("value:Q", title=f"times as much as {first:g}")
    base = alt.Chart(inline(rows)).encode(x=x, tooltip=_speed_tips(by))
    laws = alt.Chart(inline(lines)).mark_line(strokeDash=[6, 4]).encode(
        x=x, y=y, color=alt.Color("law:N", title=None, sort=None).legend(orient="top")
    )  # fmt: skip
    bars = base.mark_rule(strokeWidth=2).encode(y="low:Q", y2="high:Q")
    ours = base.encode(color=alt.value(OURS))
    layers = [laws, bars.transform_filter("isValid(datum.low)").encode(color=alt.value(OURS)),
              base.mark_point(filled=True, opacity=1, size=90, color=OURS).encode(y=y),
              *ends.arrows(rows, ours, "y", _speed_tips(by))]  # fmt: skip
    if published:
        theirs: Rows = [{"x": x, "value": v} for x, v in published.items()]
        diamonds = alt.Chart(inline(theirs)).mark_point(
            shape="diamond", filled=True, opacity=1, size=90, color=GREY
        )
        layers.append(diamonds.encode(x=x, y=y, tooltip=tip("value", ",~f", "the document's")))
    said = "; ".join(f"{row['x']:g}: {figure(row['value'])}" for row in rows)
    legend = f"Dots: measured. Bars: 95 % intervals. {ends.legend(rows)}Dashed: laws."
    legend += " Grey diamonds: the document's." * bool(published)
    whole, drawn = f"Speed-up by {by}", alt.LayerChart(layer=layers)
    return framed(drawn, 340, title or whole, legend, note, f"{whole}: {said}")


def downtime(
    parts: Mapping[str, Mapping[str, float]],
    published: Mapping[str, float] | None = None,
    *,
    unit: str = "s",
    runs: Mapping[str, str] | None = None,
    title: str = "",
    note: str = "",
) -> alt.LayerChart:
    """Draw the parts of a time without service, one bar for each condition, part upon part.

    `runs` names the run of each condition.
    """
    rows: Rows = [
        {"condition": name, "part": part, "value": rounded(value), "place": place,
         "all": rounded(sum(told.values())), "run": (runs or {}).get(name, "")}
        for name, told in parts.items() for place, (part, value) in enumerate(told.items())
    ]  # fmt: skip
    if not rows or any(row["value"] < 0 for row in rows):
        raise BadInput("nothing to draw: a downtime has parts, and none is below 0")
    order = list(dict.fromkeys(row["part"] for row in rows))
    title_of_x = f"time without service ({shown(unit)})"
    x, y = alt.X("value:Q", title=title_of_x).axis(BELOW_NAMES), alt.Y("condition:N")
    bars = alt.Chart(inline(rows)).mark_bar(stroke=GREY, strokeWidth=0.5).encode(
        x=x.stack("zero"), y=y.sort(list(parts)).title(None), order="place:O",
        color=colour(order, "part"),
        tooltip=[tip("condition"), tip("part"), tip("value", ",~f", shown(unit)),
                 tip("all", ",~f", "in all"), *([tip("run")] if runs else [])],
    )  # fmt: skip
    theirs: Rows = [
        {"condition": n, "value": v} for n, v in (published or {}).items() if n in parts
    ]
    layers = [bars, *([_diamonds(theirs, x, list(parts))] if theirs else [])]
    said = "; ".join(f"{name} {figure(sum(told.values()))}" for name, told in parts.items())
    legend = "Grey diamonds: the document's." if theirs else ""
    whole, drawn = "Time without service", alt.LayerChart(layer=layers)
    said = f"{whole} in {shown(unit)}: {said}"
    return framed(drawn, max(80, 40 * len(parts)), title or whole, legend, note, said)


def measured_ratio(
    name: str, under: str, measured: Mapping[str, Blocks], q: Statistic, named: Runs | None
) -> dict[str, Any]:
    """The row of one condition over another: value, interval, and what it was made of."""
    sides = {"a": measured[name], "b": measured[under]}
    count, runs = sum(map(len, sides["a"].values())), len(sides["a"])
    about = f"{count:,} values of {runs} run{'s' * (runs != 1)}"
    try:
        e = estimated(Quantity("'a' / 'b'", q), sides)
    except LabkitError as refused:
        raise BadInput(f"{name} cannot be compared with {under}", said=refused.what) from None
    i = e.interval()
    bar = ends.bar(i if e.blocks >= 3 else None, e.blocks)
    both = "; over ".join(runs_of(named, side, measured[side]) for side in (name, under))
    return {"condition": name, "value": rounded(i.value), **bar, "from": about, "runs": both}


def shade(noise: float, x: alt.X) -> alt.Chart:
    """A band around 1 that is no finding."""
    ends: Rows = [{"value": rounded(1 / (1 + noise)), "to": rounded(1 + noise)}]
    drawn: alt.Chart = alt.Chart(inline(ends)).mark_rect(color=GREY, opacity=0.2)
    return drawn.encode(x=x, x2="to:Q")


def _diamonds(rows: Rows, x: alt.X, names: Sequence[str]) -> alt.Chart:
    drawn: alt.Chart = alt.Chart(inline(rows)).mark_point(
        shape="diamond", size=90, fill=GREY, stroke="white", opacity=1
    )
    tips = [tip("condition"), tip("value", ",~f", "the document's")]
    return drawn.encode(x=x, y=alt.Y("condition:N", sort=list(names), title=None), tooltip=tips)


def _tips(over: str) -> list[alt.Tooltip]:
    return [tip("condition"), tip("value", ".4~f", over or "times"), interval_tip(),
            tip("from", title="measured"), tip("runs")]  # fmt: skip


def _speed_tips(by: str) -> list[alt.Tooltip]:
    return [tip("x", "~g", by), *_tips("")[1:]]


def _plain(names: Sequence[str]) -> alt.Color:
    return colour(names).legend(None)


def _plain_shape(names: Sequence[str]) -> alt.Shape:
    return shape(names).legend(None)
