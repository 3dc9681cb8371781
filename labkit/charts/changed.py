"""The picture of two executions of a study: new over old, figure by figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from labkit.charts import ends
from labkit.charts.compared import COLOUR, even, shade
from labkit.charts.look import GREY, framed, inline, interval_tip, rounded, tip
from labkit.errors import BadInput
from labkit.machine.units import figure
from labkit.statistics.interval import ends as told
from labkit.statistics.interval import in_blocks
from labkit.verdict import MARGIN


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


def changes(
    figures: Sequence[Changed], *, margin: float = MARGIN, title: str = "", note: str = ""
) -> alt.LayerChart:
    """Each figure as new over old; shaded is what counts as the same, 5 % unless you say so."""
    if not figures:
        raise BadInput("nothing to draw: no figure is above 0 in both results")
    rows = ends.reaching([_row(line_of_one) for line_of_one in figures], 1.0)
    names = [line_of_one.figure for line_of_one in figures]
    x = alt.X("value:Q", title="new over old (log scale)").scale(**even(rows))
    tips = [tip("figure"), tip("value", ".3~f", "new over old"), interval_tip(), tip("verdict")]
    base = alt.Chart(inline(rows)).encode(
        y=alt.Y("figure:N", sort=names, title=None), color=alt.value(COLOUR), tooltip=tips
    )
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q")
    dots = base.mark_point(filled=True, opacity=1, size=90).encode(x=x)
    line_of_one = (
        alt.Chart(inline([{"value": 1}])).mark_rule(strokeDash=[6, 4], color=GREY).encode(x=x)
    )
    layers = [shade(margin, x), line_of_one, bars.transform_filter("isValid(datum.low)"), dots,
              *ends.beside_bars(rows, base, "x", tips)]  # fmt: skip
    sentence = "; ".join(f"{r['figure']} {figure(r['value'])}, {r['verdict']}" for r in rows)
    legend = f"{ends.legend(rows)}"
    legend += f"Shaded: the same within the margin, {100 * margin:.2g} %."
    chart, height = alt.LayerChart(layer=layers), max(60, 26 * len(names))
    return framed(chart, height, title or "New over old", legend, note, f"New over old: {sentence}",
                  [f"grey: within {100 * margin:.2g} %", *ends.brief(rows)])  # fmt: skip


def _row(change: Changed) -> dict[str, object]:
    write = "{:.3g}".format
    words = in_blocks(change.each, write) or told(change.low, change.high, write)
    row = {"figure": change.figure, "value": rounded(change.value), "verdict": change.verdict}
    return {**row, **ends.between(change.low, change.high, words, change.each)}
