"""The picture of a speed-up in several places, beside the ideal line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import altair as alt

from labkit.charts import ends
from labkit.charts.compared import measured_ratio
from labkit.charts.look import (
    GREY,
    Blocks,
    Rows,
    Runs,
    colour,
    framed,
    inline,
    insist,
    interval_tip,
    shape,
    tip,
)
from labkit.errors import BadInput
from labkit.machine.units import figure

APART = 0.03
"""Of the axis, so that the marks of several places at one number do not hide each other."""


def speed_ups(
    blocks_of: Mapping[str, Blocks],
    single: Mapping[str, Blocks],
    count: int,
    published: Sequence[float] = (),
    *,
    runs: Runs | None = None,
    note: str = "",
) -> alt.LayerChart:
    """Draw the speed-up of `count` workers over `single` in each place, and the ideal.

    `published` are figures of the document for `count`, whichever place they are of.
    """
    insist(blocks_of)
    names = [name for name in blocks_of if name in single]
    if not names or count < 2:
        raise BadInput("a speed-up needs two points", hint="measure more workers than one")
    rows = ends.reaching(list(_rows(names, blocks_of, single, count, runs)), 1.0)
    x = (
        alt.X("x:Q", title="servers")
        .axis(values=[1, count], format="~g")
        .scale(nice=False, padding=24)
    )
    y = alt.Y("value:Q", title="times as much as 1")
    ideal: Rows = [{"x": 1, "value": 1}, {"x": count, "value": count}]
    ideal_line = alt.Chart(inline(ideal)).mark_line(strokeDash=[6, 4], color=GREY).encode(x=x, y=y)
    tips = [tip("condition"), tip("value", ".4~f", "times"), interval_tip(),
            tip("from", title="measured"), tip("runs")]  # fmt: skip
    base = alt.Chart(inline(rows)).encode(x=x, color=colour(names))
    from_one = [{**row, "x": 1, "value": 1} for row in rows]
    lines = alt.Chart(inline([*from_one, *rows])).mark_line(opacity=0.6)
    layers = [
        ideal_line, lines.encode(x=x, y=y, color=colour(names), detail="condition:N"),
        *ends.bars_and_marks(rows, base, y, tips, shape=shape(names)),
    ]  # fmt: skip
    if published:
        paper: Rows = [{"x": count, "value": value} for value in published]
        diamonds = alt.Chart(inline(paper)).mark_point(
            shape="diamond", filled=True, opacity=1, size=90, color=GREY
        )
        layers.append(diamonds.encode(x=x, y=y, tooltip=tip("value", ",~f", "the document's")))
    sentence = "; ".join(f"{row['condition']} {figure(row['value'])}" for row in rows)
    of_document = "Diamonds: the document's. " * bool(published)
    legend = f"{of_document}Dashed: the ideal. {ends.legend(rows)}"
    chart, title = alt.LayerChart(layer=layers), "Speed-up by servers"
    return framed(chart, 340, title, legend.strip(), note, f"{title}, {count} over 1: {sentence}",
                  [*["◆ the document"] * bool(published), "dashed: the ideal", *ends.brief(rows)]
                  )  # fmt: skip


def _rows(
    names: Sequence[str], blocks: Mapping[str, Blocks], single: Mapping[str, Blocks], count: int,
    runs: Runs | None,
) -> Iterator[dict[str, object]]:  # fmt: skip
    for place, name in enumerate(names):
        sides = {name: blocks[name], "one": single[name]}
        aside = APART * count * (place - (len(names) - 1) / 2)
        yield {**measured_ratio(name, "one", sides, "mean", runs), "x": count + aside}
