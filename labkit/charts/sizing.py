"""The sizing curve: what share of the answers came in time, by how many users asked."""

from collections.abc import Mapping, Sequence

import altair as alt

from labkit.charts.look import GREY, colour, framed, inline, shape, tip
from labkit.errors import BadInput
from labkit.machine.units import figure

Trials = Sequence[tuple[int, float]]
"""Users, and the share of their answers that came in time."""


def sizing(
    curves: Mapping[str, Trials], gate: float, title: str, note: str = ""
) -> alt.LayerChart:  # fmt: skip
    """Every trial of each condition, a line through their means, and the gate dashed."""
    if not any(curves.values()):
        raise BadInput("nothing to draw: no trials", hint="run the study first")
    rows = [
        {"condition": name, "users": users, "share": round(share, 4)}
        for name, trials in curves.items()
        for users, share in sorted(trials)
    ]
    names = [*curves]
    x = alt.X("users:Q", title="users at the same time").scale(type="log", nice=False, padding=20)
    y = alt.Y("share:Q", title=title).scale(domain=[0, 1]).axis(format="%")
    base = alt.Chart(inline(rows)).encode(x=x, color=colour(names))
    tips = [tip("condition"), tip("users", ",d"), tip("share", ".1%", title)]
    layers = [
        alt.Chart(inline([{"gate": gate}])).mark_rule(strokeDash=[6, 4], color=GREY)
        .encode(y=alt.Y("gate:Q")),
        base.mark_line().encode(y=alt.Y("mean(share):Q", title=title)),
        base.mark_point(filled=True, size=60, opacity=1)
        .encode(y=y, shape=shape(names), tooltip=tips),
    ]  # fmt: skip
    best = {
        name: max((users for users, share in trials if share >= gate), default=0)
        for name, trials in curves.items()
    }
    text = "; ".join(f"{name} {figure(users)}" for name, users in best.items())
    legend = f"Dashed: the gate, {gate:.0%} in time. Each point is a trial."
    chart = alt.LayerChart(layer=layers)
    return framed(
        chart, 280, "Users within limits", legend, note, f"Most users at the gate: {text}"
    )
