"""The picture of a figure against a parameter: a line for each condition, with its intervals."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from labkit.charts import ends
from labkit.charts.look import Rows, colour, dash, framed, inline, interval_tip, shape, tip
from labkit.errors import BadInput
from labkit.machine.units import capital, figure

WIDE = 8
"""The largest value over the least, from which on an axis is logarithmic."""


def swept(
    rows: Rows, names: Sequence[str], *, by: str, metric: str, of: str = "", note: str = ""
) -> alt.LayerChart:
    """Each condition of `names` along the parameter; rows are `condition`, `at` and a figure.

    `by` is the title of the parameter's axis, `metric` that of the figure, `of` what comes before
    both in the title.
    """
    if not rows:
        raise BadInput("nothing to draw: nothing was measured yet")
    rows, places = ends.reaching(rows), sorted({row["at"] for row in rows})
    log = places[0] > 0 and places[-1] >= WIDE * places[0]
    scale = {"type": "log"} if log else {"zero": False}
    x = alt.X("at:Q", title=by).scale(nice=False, padding=12, **scale)
    x = x.axis(values=places, format=",~f")
    y = alt.Y("value:Q", title=metric)
    tips = [tip("condition"), tip("at", ",~f", by), tip("value", ".4~f", metric),
            interval_tip(), tip("runs")]  # fmt: skip
    base = alt.Chart(inline(rows)).encode(x=x, color=colour(names))
    layers = [
        base.mark_line().encode(y=y, strokeDash=dash(names)),
        *ends.bars_and_marks(rows, base, y, tips, 80, shape=shape(names)),
    ]
    sentence = "; ".join(f"{r['condition']} at {r['at']}: {figure(r['value'])}" for r in rows)
    title = f"{f'{of}: ' if of else ''}{capital(metric)} by {by}"
    chart, legend = alt.LayerChart(layer=layers), ends.legend(rows)
    return framed(chart, 280, title, legend, note, f"{title}: {sentence}", ends.brief(rows))
