"""Pictures of a figure along a number: a parameter, the workers, the users, a time-out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import altair as alt

from labkit.charts import ends, look
from labkit.charts.compared import measured_ratio
from labkit.errors import BadInput
from labkit.machine.units import capital, figure

WIDE = 8
"""The largest value over the least, from which on an axis is logarithmic."""
APART = 0.03
"""Of the axis, so that the marks of several places at one number do not hide each other."""
Trials = Sequence[tuple[int, float]]
"""Users, and the share of their answers that came in time."""


def swept(
    rows: look.Rows, names: Sequence[str], *, by: str, metric: str, of: str = "", note: str = ""
) -> alt.LayerChart:
    """Each condition of `names` along a parameter; rows are `condition`, `at` and a figure.

    `by` is the title of the parameter's axis, `metric` that of the figure, `of` what comes before
    both in the title.
    """
    if not rows:
        raise BadInput("nothing to draw: nothing was measured yet")
    rows, places = ends.reaching(rows), sorted({row["at"] for row in rows})
    log = places[0] > 0 and places[-1] >= WIDE * places[0]
    scale = {"type": "log"} if log else {"zero": False}
    x = alt.X("at:Q", title=by).scale(nice=False, padding=12, **scale)
    x, y = x.axis(values=places, format=",~f"), alt.Y("value:Q", title=metric)
    tips = look.tips("condition", ("at", ",~f", by), ("value", ".4~f", metric), look.INTERVAL,
                     "runs")  # fmt: skip
    base = alt.Chart(look.inline(rows)).encode(x=x, color=look.colour(names))
    layers = [
        base.mark_line().encode(y=y, strokeDash=look.dash(names)),
        *ends.bars_and_marks(rows, base, y, tips, 80, shape=look.shape(names)),
    ]
    sentence = "; ".join(f"{r['condition']} at {r['at']}: {figure(r['value'])}" for r in rows)
    title = f"{f'{of}: ' if of else ''}{capital(metric)} by {by}"
    chart = alt.LayerChart(layer=layers)
    return look.framed(chart, 280, title, ends.key(rows), note, f"{title}: {sentence}")


def speed_ups(
    blocks_of: Mapping[str, look.Blocks],
    single: Mapping[str, look.Blocks],
    count: int,
    published: Sequence[float] = (),
    *,
    runs: look.Runs | None = None,
    note: str = "",
) -> alt.LayerChart:
    """Draw the speed-up of `count` workers over `single` in each place, and the ideal.

    `published` are figures of the document for `count`, whichever place they are of.
    """
    look.insist(blocks_of)
    names = [name for name in blocks_of if name in single]
    if not names or count < 2:
        raise BadInput("a speed-up needs two points", hint="measure more workers than one")
    quotients: look.Rows = [
        {**measured_ratio(name, "one", {name: blocks_of[name], "one": single[name]}, "mean", runs),
         "x": count + APART * count * (place - (len(names) - 1) / 2)}
        for place, name in enumerate(names)
    ]  # fmt: skip
    rows = ends.reaching(quotients, 1.0)
    x = alt.X("x:Q", title="servers").axis(values=[1, count], format="~g")
    x, y = x.scale(nice=False, padding=24), alt.Y("value:Q", title="times as much as 1")
    ideal: look.Rows = [{"x": 1, "value": 1}, {"x": count, "value": count}]
    ideal_line = alt.Chart(look.inline(ideal)).mark_line(strokeDash=[6, 4], color=look.GREY)
    tips = look.tips("condition", ("value", ".4~f", "times"), look.INTERVAL,
                     ("from", "", "measured"), "runs")  # fmt: skip
    base = alt.Chart(look.inline(rows)).encode(x=x, color=look.colour(names))
    lines = alt.Chart(look.inline([*({**row, "x": 1, "value": 1} for row in rows), *rows]))
    lines = lines.mark_line(opacity=0.6)
    lines = lines.encode(x=x, y=y, color=look.colour(names), detail="condition:N")
    layers = [
        ideal_line.encode(x=x, y=y),
        lines,
        *ends.bars_and_marks(rows, base, y, tips, shape=look.shape(names)),
    ]
    if published:
        diamonds = alt.Chart(look.inline([{"x": count, "value": value} for value in published]))
        diamonds = diamonds.mark_point(
            shape="diamond", filled=True, opacity=1, size=90, color=look.GREY
        )  # fmt: skip
        layers.append(
            diamonds.encode(x=x, y=y, tooltip=look.tips(("value", ",~f", "the document's")))
        )
    sentence = "; ".join(f"{row['condition']} {figure(row['value'])}" for row in rows)
    key = [*ends.key([], published), ("Dashed: the ideal.", "dashed: the ideal"), *ends.key(rows)]
    chart, title = alt.LayerChart(layer=layers), "Speed-up by servers"
    return look.framed(chart, 340, title, key, note, f"{title}, {count} over 1: {sentence}")


def sizing(
    curves: Mapping[str, Trials], gate: float, title: str, note: str = ""
) -> alt.LayerChart:  # fmt: skip
    """The share of answers that came in time by users: every trial, the means, the gate dashed."""
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
    base = alt.Chart(look.inline(rows)).encode(x=x, color=look.colour(names))
    tips = look.tips("condition", ("users", ",d"), ("share", ".1%", title))
    layers = [
        alt.Chart(look.inline([{"gate": gate}])).mark_rule(strokeDash=[6, 4], color=look.GREY)
        .encode(y=alt.Y("gate:Q")),
        base.mark_line().encode(y=alt.Y("mean(share):Q", title=title)),
        base.mark_point(filled=True, size=60, opacity=1)
        .encode(y=y, shape=look.shape(names), tooltip=tips),
    ]  # fmt: skip
    most = {name: max((users for users, share in trials if share >= gate), default=0)
            for name, trials in curves.items()}  # fmt: skip
    text = "; ".join(f"{name} {figure(users)}" for name, users in most.items())
    key = f"Dashed: the gate, {gate:.0%} in time. Each point is a trial."
    chart = alt.LayerChart(layer=layers)
    text = f"Most users at the gate: {text}"
    return look.framed(chart, 280, "Users within limits", key, note, text)


def detection(
    rows: Mapping[float, tuple[float, float]], hiccup: float, note: str = ""
) -> alt.LayerChart:  # fmt: skip
    """By time-out: the seconds to detect a failure, and what share of hiccups was taken for one."""
    parts: look.Rows = [
        {"token": token, "seconds": look.rounded(seconds), "what": "time to detect a failure",
         "said": f"detected in {look.rounded(seconds):.1f} s"}
        for token, (seconds, _) in rows.items() if not math.isnan(seconds)
    ]  # fmt: skip
    parts += [
        {"token": token, "seconds": hiccup, "share": share, "word": f"{share:.0%}",
         "what": "hiccup taken for a failure", "said": f"{share:.0%} taken for a failure"}
        for token, (_, share) in rows.items() if not math.isnan(share)
    ]  # fmt: skip
    if not parts:
        raise BadInput("nothing to draw: no time-out was measured", hint="set every = True")
    sentence = "; ".join(f"{part['token']:g} s: {part.pop('said')}" for part in parts)
    base = alt.Chart(look.inline(parts)).encode(
        x=alt.X("token:Q", title="time-out in seconds").scale(domainMin=0, nice=True),
        y=alt.Y("seconds:Q", title="seconds").scale(domainMin=0),
        color=look.colour(list(dict.fromkeys(part["what"] for part in parts)), "what"),
        tooltip=look.tips("what", ("token", ",.1f", "time-out"), ("seconds", ",.2f", "s"),
                          ("word", "", "taken for a failure")),
    )  # fmt: skip
    layers = [
        base.transform_filter("!isValid(datum.word)").mark_line(),
        base.mark_point(filled=True, size=70, opacity=1),
        base.transform_filter("isValid(datum.word)").mark_text(dy=-12).encode(text="word:N"),
    ]
    key = "Detection slower than a hiccup does not take it for a failure."
    chart = alt.LayerChart(layer=layers)
    return look.framed(chart, 260, "Time-out of a cluster", key, note, sentence)
