"""Parts of one line that each kind of traffic got, side by side."""

from collections.abc import Mapping, Sequence

import altair as alt

from labkit.charts.look import COLOURS, GREY, framed, inline, rounded, tip
from labkit.errors import BadInput

KINDS = ("storage", "bulk", "migration")
Rates = Mapping[str, Sequence[float]]
"""By row the Mbit/s of each of KINDS."""


def shared_line(
    rates: Rates, line: float, note: str = "", reserved: Mapping[str, float] | None = None
) -> alt.LayerChart:
    """A bar for each row, its parts as long as the rates; the dashed line is the uplink's own.

    `reserved` says in which rows storage has Mbit/s of its own, which a solid line marks.
    """
    if not rates:
        raise BadInput("nothing to draw: nothing was measured yet")
    rows = [
        {"row": row, "kind": kind, "rate": rounded(float(rate)), "place": place}
        for row, rates_of_row in rates.items()
        for place, (kind, rate) in enumerate(zip(KINDS, rates_of_row, strict=True))
    ]
    y = alt.Y("row:N", title=None, sort=list(rates))
    parts = alt.Chart(inline(rows)).mark_bar().encode(
        x=alt.X("rate:Q", title="Mbit/s", stack="zero"),
        y=y,
        order="place:Q",
        color=alt.Color("kind:N", title=None, legend=alt.Legend(orient="top"))
        .scale(domain=list(KINDS), range=list(COLOURS[: len(KINDS)])),
        tooltip=[tip("row"), tip("kind"), tip("rate", ",.0f", "Mbit/s")],
    )  # fmt: skip
    uplink = alt.Chart(inline([{"line": line}])).mark_rule(strokeDash=[6, 4], color=GREY)
    uplink = uplink.encode(x="line:Q")
    reservations = [{"row": row, "reserved": rate} for row, rate in (reserved or {}).items()]
    floors = [
        alt.Chart(inline(reservations)).mark_tick(color=GREY, thickness=5, size=44)
        .encode(x="reserved:Q", y=y, tooltip=[tip("reserved", ",.0f", "Mbit/s reserved")])
    ] * bool(reservations)  # fmt: skip
    marks = [
        f"dashed: the uplink, {line:g} Mbit/s",
        *["solid: storage's reservation"] * bool(reservations),
    ]
    text = "; ".join(
        f"{row}: " + ", ".join(f"{k} {v:.0f}" for k, v in zip(KINDS, rates_of_row, strict=True))
        for row, rates_of_row in rates.items()
    )
    return framed(
        alt.LayerChart(layer=[parts, uplink, *floors]), 60 + 34 * len(rates),
        "Who got what of the line",
        ". ".join(marks), note, f"Mbit/s by kind of traffic. {text}.", marks,
    )  # fmt: skip
