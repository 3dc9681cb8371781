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
    even_steps,
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
from labkit.machine.units import capital, figure
from labkit.statistics import percentiles
from labkit.statistics.estimate import estimated
from labkit.statistics.interval import within
from labkit.statistics.quantity import Quantity, Statistic
from labkit.verdict import MARGIN, check_margin

COLOUR = COLOURS[3]


def ratios(
    blocks: Mapping[str, Blocks],
    native: str | Mapping[str, str],
    published: Mapping[str, float] | None = None,
    *,
    statistic: Statistic = "mean",
    metric: str = "throughput",
    noise: float | None = None,
    margin: float | None = None,
    runs: Runs | None = None,
    title: str = "",
    note: str = "",
    titles: Mapping[str, str] | None = None,
    under: str = "",
) -> alt.LayerChart:
    """Each condition over the `native` one, with its 95 % interval; the document's in grey.

    `noise` 0.04 shades what is no finding on this lab: 4 % more or less (`labkit noise`); `margin`
    the band in which conditions are the same, without either 5 %, as in verdicts. `runs`
    (`results.by_block()`) names the runs of a mark that is hovered; `titles` replace names.
    Where conditions have different bases, `native` names each one's, and `under` is their title.
    """
    check_margin(margin)
    margin = margin or (None if noise else MARGIN)
    insist(blocks)
    bases = _bases(native, blocks)
    base_name, names = under or str(native), [*bases]
    quotients = [measured_ratio(n, by, blocks, statistic, runs) for n, by in bases.items()]
    rows, numbers = ends.reaching(quotients, 1.0), (published or {}).items()
    paper: Rows = [{"condition": n, "value": v} for n, v in numbers if n in names]
    known = titles or {}
    for row in (*rows, *paper):
        row["condition"] = known.get(row["condition"], row["condition"])
    names = [known.get(name, name) for name in names]
    bands = [band for band in (noise, margin) if band]
    tips = [tip("condition"), tip("value", ".4~f", f"over {base_name}"), interval_tip(),
            tip("from", title="measured"), tip("runs")]  # fmt: skip
    x = alt.X("value:Q", title=f"{metric}, {base_name} = 1", axis=_label(rows, paper, bands))
    chart = over_one(
        rows, alt.Y("condition:N", sort=names, title=None), x.scale(**even(rows)), tips,
        bands=bands, paper=paper, color=colour(names).legend(None), shape=shape(names).legend(None),
    )  # fmt: skip
    text = "; ".join(f"{row['condition']} {figure(row['value'])}" for row in rows)
    legend, marks = _legend(rows, paper, noise, margin)
    title = title or f"{capital(metric)}, relative to {base_name}"
    sentence = f"{metric} over {base_name}: {text}"
    return framed(chart, max(60, 36 * len(names)), title, legend, note, sentence, marks)


def over_one(
    rows: Rows, y: alt.Y, x: alt.X, tips: Sequence[alt.Tooltip], *, color: Any,
    paper: Rows | None = None, bands: Iterable[float] = (), **channels: Any,
) -> alt.LayerChart:  # fmt: skip
    """Ratios with their intervals beside a dashed line at 1, and the document's as diamonds.

    Each of the `bands` is shaded: so far from 1 it is no finding.
    """
    base = alt.Chart(inline(rows)).encode(y=y, color=color)
    line = alt.Chart(inline([{"value": 1}])).mark_rule(strokeDash=[6, 4], color=GREY).encode(x=x)
    diamonds = alt.Chart(inline(paper or [])).mark_point(
        shape="diamond", size=90, fill=GREY, stroke="white", opacity=1
    )
    names = [tip(y.shorthand.partition(":")[0]), tip("value", ",~f", "the document's")]
    return alt.LayerChart(layer=[
        *(_shade(band, x) for band in bands), line,
        *ends.bars_and_marks(rows, base, x, tips, **channels),
        *([diamonds.encode(x=x, y=y, tooltip=names)] if paper else []),
    ])  # fmt: skip


def _legend(
    rows: Rows, document: Rows, noise: float | None, margin: float | None
) -> tuple[str, list[str]]:
    diamonds = "Diamonds: the document's. " if document else ""
    legend = f"{diamonds}{ends.legend(rows)}"
    legend += f"Shaded: this lab's noise, {100 * noise:.2g} %. " if noise else ""
    legend += f"Shaded: the same within the margin, {100 * margin:.2g} %." if margin else ""
    marks = ["◆ the document"] * bool(document)
    marks += [f"grey: noise, {100 * noise:.2g} %"] if noise else []
    marks += [f"grey: within {100 * margin:.2g} %"] if margin else []
    return legend.strip(), [*marks, *ends.brief(rows)]


def _bases(native: str | Mapping[str, str], blocks_of: Mapping[str, Blocks]) -> dict[str, str]:
    bases = dict.fromkeys(blocks_of, native) if isinstance(native, str) else {**native}
    for name in (*bases, *bases.values()):
        if name not in blocks_of:
            raise Unknown("condition", name, blocks_of)
    return {name: base for name, base in bases.items() if name != base}


# An axis of ratios on which every mark has its number.
def _label(rows: Rows, document: Rows, bands: Sequence[float]) -> alt.Axis:
    edges = (end for band in bands for end in (1 / (1 + band), 1 + band))
    values = [1.0, *edges, *(end for row in (*rows, *document) for end in ends.drawn_of(row))]
    if min(values) <= 0:
        return BELOW_NAMES
    # Vega leaves out numbers of a logarithmic axis by a rule of its own, and keeps their marks.
    return alt.Axis(titleAnchor="end", values=even_steps(min(values), max(values)),
                    labelExpr="format(datum.value, ',~f')")  # fmt: skip


# A half is as far from 1 as the double, where nothing is in the way: an interval may end below 0.
def even(rows: Rows) -> dict[str, Any]:
    """The scale of an axis of ratios."""
    above = all(end > 0 for row in rows for end in ends.drawn_of(row))
    return {"type": "log", "nice": False, "padding": 12} if above else {"zero": False}


def measured_ratio(
    name: str, under: str, blocks_of: Mapping[str, percentiles.Blocks], q: Statistic,
    runs_named: Runs | None,
) -> dict[str, Any]:  # fmt: skip
    """The row of one condition over another: value, interval, and what it was made of."""
    sides = {"a": blocks_of[name], "b": blocks_of[under]}
    count, runs = sum(map(len, sides["a"].values())), len(sides["a"])
    about = f"{count:,} values of {runs} run{'s' * (runs != 1)}"
    try:
        e = estimated(Quantity("'a' / 'b'", q), sides)
    except LabkitError as error:
        raise BadInput(f"{name} cannot be compared with {under}", said=error.what) from None
    i = e.interval()
    bar = ends.bar(i, e.blocks)
    texts = "; over ".join(runs_of(runs_named, side, blocks_of[side]) for side in (name, under))
    return {"condition": name, "value": rounded(i.value), **bar, "from": about, "runs": texts}


def _shade(noise: float, x: alt.X) -> alt.Chart:
    ends: Rows = [{"value": rounded(1 / (1 + noise)), "to": rounded(1 + noise)}]
    band: alt.Chart = alt.Chart(inline(ends)).mark_rect(color=GREY, opacity=0.2)
    return band.encode(x=x, x2="to:Q")


@dataclass(frozen=True)
class Changed:
    """One figure of the new results over that of the old, with its interval and what it means."""

    figure: str
    value: float
    low: float | None
    high: float | None
    verdict: str
    each: tuple[float, ...] = ()
    """The figure in each block, where these are too few for an interval."""


def changes(figures: Sequence[Changed], *, note: str = "") -> alt.LayerChart:
    """Each figure as new over old; shaded is what counts as the same, 5 %."""
    if not figures:
        raise BadInput("nothing to draw: no figure is above 0 in both results")
    quotients = [
        {"figure": change.figure, "value": rounded(change.value), "verdict": change.verdict,
         **ends.between(change.low, change.high, _ends(change), change.each)}
        for change in figures
    ]  # fmt: skip
    rows = ends.reaching(quotients, 1.0)
    tips = [tip("figure"), tip("value", ".3~f", "new over old"), interval_tip(), tip("verdict")]
    x = alt.X("value:Q", title="new over old (log scale)").scale(**even(rows))
    y = alt.Y("figure:N", sort=[change.figure for change in figures], title=None)
    chart = over_one(rows, y, x, tips, bands=[MARGIN], color=alt.value(COLOUR))
    sentence = "; ".join(f"{r['figure']} {figure(r['value'])}, {r['verdict']}" for r in rows)
    legend = f"{ends.legend(rows)}Shaded: the same within the margin, {100 * MARGIN:.2g} %."
    return framed(
        chart, max(60, 26 * len(figures)), "New over old", legend, note,
        f"New over old: {sentence}", [f"grey: within {100 * MARGIN:.2g} %", *ends.brief(rows)],
    )  # fmt: skip


def _ends(change: Changed) -> str:
    return within(change.each, change.low, change.high, "{:.3g}".format)
