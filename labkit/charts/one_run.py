"""The picture of one run by itself, request by request."""

import math

import altair as alt
import numpy as np
import numpy.typing as npt

from labkit.charts.look import (
    COLOURS,
    GREY,
    POINTS,
    SLOWEST,
    Values,
    framed,
    inline,
    of_run,
    rounded,
    time_axis,
    tip,
)
from labkit.errors import BadInput
from labkit.machine.units import figure, shown
from labkit.statistics import percentiles
from labkit.statistics.steady import WORTH_TELLING, steady


def round_trips(
    values: Values,
    *,
    metric: str = "round trip",
    unit: str = "us",
    run: str = "",
    note: str = "",
) -> alt.LayerChart:
    """One run from its first value to its last; of many, some are drawn, the slowest always.

    Where a warm-up ends is marked; nothing is cut. `run` says which run it was.
    """
    if not len(values):
        raise BadInput("nothing to draw: the run has no values")
    if not np.isfinite(values).all():
        raise BadInput("some values of the run are not numbers")
    indices = thinned(values)
    typical, worst = percentiles.percentile(values, 50), float(values.max())
    rows = [{"n": int(n) + 1, "value": rounded(values[n])} for n in indices]
    base, of = of_run(alt.Chart(inline(rows)), run)
    dots = (
        base
        .mark_point(size=14, filled=True, opacity=1, color=COLOURS[0], aria=False)
        .encode(
            x=alt.X("n:Q", title="request, in the order sent").scale(nice=False)
            .axis(tickCount=6),
            y=alt.Y("value:Q", **time_axis(metric, unit, "log", rows)),
            tooltip=[
                tip("n", ",", "request"), tip("value", ",.1f", f"{metric} ({shown(unit)})"),
                *of,
            ],
        )
    )  # fmt: skip
    line = alt.Chart(inline([{"value": rounded(typical)}])).mark_rule(
        color=COLOURS[1], strokeDash=[6, 4], strokeWidth=2
    )
    warm = steady(values)
    cut = warm.cut if warm.share_cut >= WORTH_TELLING else 0
    text = (
        f"{len(values):,} values of one run; median {figure(typical)} {shown(unit)} "
        f"(dashed), slowest {figure(worst)} {shown(unit)}"
    )
    layers = [dots, line.encode(y="value:Q")]
    if cut:
        text += f"; {'warm-up' if warm.steady else 'not steady'} until request {cut:,} (dotted)"
        end = alt.Chart(inline([{"n": cut}]))
        layers.append(end.mark_rule(color=GREY, strokeDash=[2, 3], strokeWidth=2).encode(x="n:Q"))
    title = f"One run, request by request{f': {run}' if run else ''}"
    chart = alt.LayerChart(layer=layers)
    return framed(chart, 260, title, text, note, f"{metric} over time: {text}")


def thinned(values: Values) -> npt.NDArray[np.intp]:
    """The indices of the values to draw: one at each regular step, and all of the slowest."""
    step = max(1, math.ceil(len(values) / POINTS))
    if step == 1:
        return np.arange(len(values))
    slowest = np.argsort(values)[-SLOWEST:]
    return np.unique(np.concatenate([np.arange(0, len(values), step), slowest]))
