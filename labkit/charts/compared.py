"""Ratios: each condition beside native, new results beside old, one kind of run beside another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from labkit.charts import ends, look
from labkit.errors import BadInput, LabkitError, Unknown
from labkit.kernels import Note
from labkit.machine.units import capital, figure
from labkit.statistics.estimate import estimated
from labkit.statistics.interval import within
from labkit.statistics.quantity import Quantity, Statistic
from labkit.verdict import MARGIN, check_margin

NOISE, ALIKE = ("this lab's noise", "noise,"), ("the same within the margin", "alike within")
"""Reasons to shade a band around 1, in words and in few words."""
UNEVEN = 1.5
"""Between ends further apart than this a logarithmic axis looks uneven, and says what it is."""
FAINT = 0.45
"""The opacity of what is emulated beside what is not."""


def ratios(
    blocks: Mapping[str, look.Blocks], native: str | Mapping[str, str],
    published: Mapping[str, float] | None = None, *, statistic: Statistic = "mean",
    metric: str = "throughput", noise: float | None = None, margin: float | None = None,
    runs: look.Runs | None = None, title: str = "", note: str = "",
    titles: Mapping[str, str] | None = None, under: str = "",
) -> alt.LayerChart:  # fmt: skip
    """Each condition over the `native` one, with its 95 % interval; the document's in grey.

    `noise` 0.04 shades what is no finding on this lab: 4 % more or less (`labkit noise`); `margin`
    the band in which conditions are the same, without either 5 %, as in verdicts. `runs`
    (`results.by_block()`) names the runs of a mark that is hovered; `titles` replace names.
    Where conditions have different bases, `native` names each one's, and `under` is their title.
    """
    check_margin(margin)
    look.insist(blocks)
    bases = _bases(native, blocks)
    base_name = under or str(native)
    quotients = [measured_ratio(n, by, blocks, statistic, runs) for n, by in bases.items()]
    rows, numbers = ends.reaching(quotients, 1.0), (published or {}).items()
    paper: look.Rows = [{"condition": n, "value": v} for n, v in numbers if n in bases]
    faint = note.emulated if isinstance(note, Note) else ()
    labels = _labels(rows, titles or {}, faint)
    if faint:  # their labels say it
        note = Note(note, "", faint)
        rows = [{**row, "opacity": FAINT if row["condition"] in faint else 1} for row in rows]
    for row in (*rows, *paper):
        row["condition"] = labels[row["condition"]]
    names = [labels[name] for name in bases]
    bands = ((NOISE, noise), (ALIKE, margin or (None if noise else MARGIN)))
    shaded = {words: band for words, band in bands if band}
    tips = look.tips("condition", ("value", ".4~f", f"over {base_name}"), look.INTERVAL,
                     ("from", "", "measured"), "runs")  # fmt: skip
    axis = _label(rows, paper, [*shaded.values()])
    x = _even_axis(rows, f"{metric}, {base_name} = 1", axis)
    return over_one(
        rows, alt.Y("condition:N", sort=names, title=None), x, tips, shaded=shaded, paper=paper,
        color=look.colour(names).legend(None), shape=look.shape(names).legend(None), note=note,
        height=max(60, 36 * len(names)), text=f"{metric} over {base_name}",
        title=title or f"{capital(metric)}, relative to {base_name}",
    )  # fmt: skip


def over_one(
    rows: look.Rows, y: alt.Y, x: alt.X, tips: Sequence[alt.Tooltip], *, color: Any, height: int,
    title: str, text: str, note: str, shaded: Mapping[tuple[str, str], float], paper: look.Rows,
    **channels: Any,
) -> alt.LayerChart:  # fmt: skip
    """Ratios with their intervals beside a dashed line at 1, and the document's as diamonds.

    So far from 1 as what is `shaded`, a ratio is no finding.
    """
    field = y.shorthand.partition(":")[0]
    base = alt.Chart(look.inline(rows)).encode(y=y, color=color)
    if any("opacity" in row for row in rows):
        base = base.encode(opacity=alt.Opacity("opacity:Q", scale=None))
    line = alt.Chart(look.inline([{"value": 1}])).mark_rule(strokeDash=[6, 4], color=look.GREY)
    diamonds = alt.Chart(look.inline(paper)).mark_point(
        shape="diamond", size=90, fill=look.GREY, stroke="white", opacity=1
    )
    names = look.tips(field, ("value", ",~f", "the document's"))
    chart = alt.LayerChart(layer=[
        *(_shade(band, x) for band in shaded.values()), line.encode(x=x),
        *([diamonds.encode(x=x, y=y, tooltip=names)] if paper else []),
        *ends.bars_and_marks(rows, base, x, tips, **channels),
    ])  # fmt: skip
    greys = [(f"Shaded: {words}, {100 * band:.2g} %.", f"grey: {few} {100 * band:.2g} %")
             for (words, few), band in shaded.items()]  # fmt: skip
    texts = (", ".join(filter(None, (f"{row[field]} {figure(row['value'])}", row.get("verdict"))))
             for row in rows)  # fmt: skip
    key = [*ends.key([], paper), *greys, *ends.key(rows)]
    return look.framed(chart, height, title, key, note, f"{text}: {'; '.join(texts)}")


def _bases(native: str | Mapping[str, str], blocks_of: Mapping[str, look.Blocks]) -> dict[str, str]:
    bases = dict.fromkeys(blocks_of, native) if isinstance(native, str) else {**native}
    for name in (*bases, *bases.values()):
        if name not in blocks_of:
            raise Unknown("condition", name, blocks_of)
    return {name: base for name, base in bases.items() if name != base}


# An axis of ratios on which every mark has its number.
def _label(rows: look.Rows, document: look.Rows, bands: Sequence[float]) -> alt.Axis:
    edges = (end for band in bands for end in (1 / (1 + band), 1 + band))
    values = [1.0, *edges, *(end for row in (*rows, *document) for end in ends.drawn_of(row))]
    if min(values) <= 0:
        return look.BELOW_NAMES
    # Vega leaves out numbers of a logarithmic axis by a rule of its own, and keeps their marks.
    return alt.Axis(titleAnchor="end", values=look.even_steps(min(values), max(values)),
                    labelExpr="format(datum.value, ',~f')")  # fmt: skip


# The names of conditions on the axis: what is emulated beside others, and what was none at all.
def _labels(rows: look.Rows, titles: Mapping[str, str], faint: Sequence[str]) -> dict[str, str]:
    labels = {}
    for row in rows:
        name = row["condition"]
        label = titles.get(name, f"{name} (emulated)" if name in faint else name)
        labels[name] = label if row["value"] else f"{label} (0)"
    return labels


# A half is as far from 1 as the double, where nothing is in the way: an interval may end below 0.
def _even_axis(rows: look.Rows, title: str, axis: Any = alt.Undefined) -> alt.X:
    values = [end for row in rows for end in ends.drawn_of(row)]
    if min(values) <= 0:
        return alt.X("value:Q", title=title, axis=axis).scale(zero=False)
    log = " (log scale)" * (max(values) > UNEVEN * min(values))
    x = alt.X("value:Q", title=f"{title}{log}", axis=axis)
    return x.scale(type="log", nice=False, padding=12)


def measured_ratio(
    name: str, under: str, blocks_of: Mapping[str, look.Blocks], q: Statistic,
    runs_named: look.Runs | None,
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
    both = [look.runs_of(runs_named, side, blocks_of[side]) for side in (name, under)]
    return {"condition": name, "value": look.rounded(i.value), **ends.bar(i, e.blocks),
            "from": about, "runs": "; over ".join(both)}  # fmt: skip


def _shade(noise: float, x: alt.X) -> alt.Chart:
    rows: look.Rows = [{"value": look.rounded(1 / (1 + noise)), "to": look.rounded(1 + noise)}]
    band: alt.Chart = alt.Chart(look.inline(rows)).mark_rect(color=look.GREY, opacity=0.2)
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
    quotients = []
    for change in figures:
        words = within(change.each, change.low, change.high, "{:.3g}".format)
        bar = ends.between(change.low, change.high, words, change.each)
        quotients.append({"figure": change.figure, "value": look.rounded(change.value),
                          "verdict": change.verdict, **bar})  # fmt: skip
    rows = ends.reaching(quotients, 1.0)
    tips = look.tips("figure", ("value", ".3~f", "new over old"), look.INTERVAL, "verdict")
    x = _even_axis(rows, "new over old")
    y = alt.Y("figure:N", sort=[change.figure for change in figures], title=None)
    return over_one(
        rows, y, x, tips, color=alt.value(look.COLOURS[3]), height=max(60, 26 * len(figures)),
        title="New over old", text="New over old", note=note, shaded={ALIKE: MARGIN}, paper=[],
    )  # fmt: skip
