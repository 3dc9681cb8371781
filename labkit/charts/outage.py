"""Outages step by step: those of all conditions, and the time line of one."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from labkit.charts.look import COLOURS, Rows, colour, framed, inline, rounded, tip
from labkit.errors import BadInput
from labkit.event import TimeLine

Steps = Mapping[str, Sequence[float]]
"""By row the seconds of each step."""


def outages(rows: Steps, names: Sequence[str], note: str = "") -> alt.LayerChart:
    """A bar for each row, its parts as long as the steps took."""
    if not rows:
        raise BadInput("nothing to draw: nothing was measured yet")
    parts: Rows = []
    for row, times in rows.items():
        start = 0.0
        for name, seconds in zip(names, times, strict=True):
            parts.append(_part(row, name, start, seconds))
            start += seconds
    sentence = "; ".join(
        f"{row}: " + ", ".join(f"{n} {s:.1f}" for n, s in zip(names, times, strict=True) if s)
        for row, times in rows.items()
    )
    return _draw(parts, list(rows), names, "What the time is made of", note, sentence)


def time_line(line: TimeLine, note: str = "") -> alt.LayerChart:
    """One outage: each of its phases on a line of its own, from when it began."""
    parts = [
        _part(phase.name, phase.name, phase.begun - line.begun, phase.seconds)
        for phase in line.phases
    ]
    names = [phase.name for phase in line.phases]
    sentence = ", ".join(f"{phase.name} {phase.seconds:.2f} s" for phase in line.phases)
    return _draw(parts, names, names, f"Time line of a {line.event}", note, sentence)


def detection(
    rows: Mapping[float, tuple[float, float]], hiccup: float, note: str = ""
) -> alt.LayerChart:  # fmt: skip
    """By time-out: the seconds to detect a failure, and what share of hiccups was taken for one."""
    parts: Rows = [
        {"token": token, "seconds": rounded(seconds), "what": "time to detect a failure"}
        for token, (seconds, _) in rows.items() if not math.isnan(seconds)
    ]  # fmt: skip
    parts += [
        {"token": token, "seconds": hiccup, "share": share, "word": f"{share:.0%}",
         "what": "hiccup taken for a failure"}
        for token, (_, share) in rows.items() if not math.isnan(share)
    ]  # fmt: skip
    if not parts:
        raise BadInput("nothing to draw: no time-out was measured", hint="set every = True")
    base = alt.Chart(inline(parts)).encode(
        x=alt.X("token:Q", title="time-out in seconds").scale(domainMin=0, nice=True),
        y=alt.Y("seconds:Q", title="seconds").scale(domainMin=0),
        color=colour(list(dict.fromkeys(part["what"] for part in parts)), "what"),
        tooltip=[tip("what"), tip("token", ",.1f", "time-out"), tip("seconds", ",.2f", "s"),
                 tip("word", "", "taken for a failure")],
    )  # fmt: skip
    mistakes = base.transform_filter("isValid(datum.word)")
    layers = [
        base.transform_filter("!isValid(datum.word)").mark_line(),
        base.mark_point(filled=True, size=70, opacity=1),
        mistakes.mark_text(dy=-12).encode(text="word:N"),
    ]
    sentence = "; ".join(
        f"{part['token']:g} s: "
        + (f"{part['word']} taken for a failure" if "word" in part
           else f"detected in {part['seconds']:.1f} s")
        for part in parts
    )  # fmt: skip
    caption = "Detection slower than a hiccup does not take it for a failure."
    return framed(
        alt.LayerChart(layer=layers), 260, "Time-out of a cluster", caption, note, sentence
    )


def _part(row: str, step: str, start: float, seconds: float) -> dict[str, Any]:
    return {"row": row, "step": step, "seconds": rounded(seconds), "begun": rounded(start),
            "ended": rounded(start + seconds)}  # fmt: skip


def _draw(
    parts: Rows, rows: Sequence[str], names: Sequence[str],
    title: str, note: str, sentence: str,
) -> alt.LayerChart:  # fmt: skip
    bars = alt.Chart(inline(parts)).mark_bar().encode(
        x=alt.X("begun:Q", title="seconds"), x2="ended:Q",
        y=alt.Y("row:N", title=None, sort=rows),
        color=alt.Color("step:N", title=None, legend=alt.Legend(orient="top"))
        .scale(domain=list(names), range=list(COLOURS[: len(names)])),
        tooltip=[tip("row"), tip("step"), tip("seconds", ",.2f", "s")],
    )  # fmt: skip
    caption = "Begins when the server is gone."
    return framed(alt.LayerChart(layer=[bars]), 60 + 34 * len(rows), title, caption, note,
                  f"Seconds by step. {sentence}.")  # fmt: skip
