"""The picture of a study over its sessions: dates, what is noise, and what has changed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from datetime import UTC, datetime

import altair as alt
import numpy as np

from labkit.charts.look import GREY, Rows, colour, framed, inline, rounded, shape, tips
from labkit.charts.over_time import Happened, marked
from labkit.machine.units import figure
from labkit.running.trend import Trends, TrendSession

DAYS = {"week": "%b %d", "date": "%b %d"}
"""The form of days on the axis; hours, months and years have their usual one."""
MOST_SERIES = 6
"""Series in one picture: those that changed, then the others."""
FROM_MEDIAN = 1.4826 * 1.96 / math.sqrt(2)
"""Median size of the step between two sessions -> half of what holds 95 % of sessions."""


def over_sessions(trends: Trends) -> alt.LayerChart:
    """Each series over its median; shaded is what sessions differ by where nothing changed."""
    changes = dict.fromkeys(change.series for change in trends.changes)
    names = [*dict.fromkeys([*changes, *reversed(trends.series)])][:MOST_SERIES]
    lines = {name: _over_median(trends.sessions, name) for name in names}
    rows: Rows = [
        {"condition": name, "at": _milliseconds(session.started), "value": rounded(value),
         "session": session.label or session.path, "labkit": session.version}
        for name, values in lines.items()
        for session, value in zip(trends.sessions, values, strict=True)
    ]  # fmt: skip
    steps = [np.median(np.abs(np.diff(values))) for values in lines.values()]
    noise = FROM_MEDIAN * float(np.median(steps))
    x = alt.X("at:T", title="session (UTC)").scale(type="utc", nice=False, padding=12)
    x = x.axis(format=DAYS)
    y = alt.Y("value:Q", title="over the median of all sessions").scale(zero=False)
    band = alt.Chart(inline([{"value": 1 - noise, "to": 1 + noise}]))
    base = alt.Chart(inline(rows)).encode(
        x=x, y=y, color=colour(names),
        tooltip=tips(
            ("condition", "", "series"), "session", ("value", ".4~f", "over the median"), "labkit"
        ),
    )  # fmt: skip
    # One mark for each session with which something changed, and for each new version of labkit.
    pairs = itertools.pairwise(trends.sessions)
    names_at = {change.started: change.session for change in trends.changes}
    names_at |= {b.started: f"labkit {b.version}" for a, b in pairs if a.version != b.version}
    marks = [Happened(name, _milliseconds(at)) for at, name in names_at.items()]
    layers = [
        band.mark_rect(color=GREY, opacity=0.2).encode(y=y, y2="to:Q"),
        *marked(marks, x, [row["at"] for row in rows], tips("event")),
        base.mark_line(), base.mark_point(filled=True, size=60, opacity=1)
        .encode(shape=shape(names)),
    ]  # fmt: skip
    sentence = "; ".join(f"{c.series} {figure(c.before)} to {figure(c.after)} with {c.session}"
                         for c in trends.changes)  # fmt: skip
    of = f"{len(trends.sessions)} sessions of {trends.study} on {trends.lab}"
    legend = f"Shaded: how far sessions lie apart, {100 * noise:.2g} %. Dashed: what changed."
    return framed(
        alt.LayerChart(layer=layers), 300, of, legend, "", f"{of}: {sentence or 'nothing changed'}"
    )


def _over_median(sessions: Sequence[TrendSession], name: str) -> list[float]:
    values = [session.figures[name] for session in sessions]
    middle = float(np.median(values))
    return [value / middle if middle else 1 + value for value in values]


def _milliseconds(text: str) -> float:
    at = datetime.fromisoformat(text)
    return 1000 * (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
