"""The picture of how busy each CPU was over one run."""

import altair as alt

from labkit.charts.look import Rows, framed, inline, of_run, tip
from labkit.errors import BadInput

MOST_ROWS = 1200
"""Of more, stretches are put together."""


def cores(rows: Rows, *, run: str = "", note: str = "") -> alt.Chart:
    """A row for each CPU, from the run's begin to its end: the darker, the busier.

    `rows` are those of `labkit.probes.cpu_time.over_time`; `run` says which run it was.
    """
    if not rows:
        raise BadInput("nothing to draw: this run holds no CPU time")
    cpus = sorted({row["cpu"] for row in rows}, key=lambda name: int(name.removeprefix("cpu")))
    base, of = of_run(alt.Chart(inline(_fewer(rows))), run)
    picture = base.mark_rect().encode(
        x=alt.X("begun:Q", title="seconds since the run began").scale(nice=False),
        x2="ended:Q",
        y=alt.Y("cpu:N", sort=cpus, title=None),
        color=alt.Color("busy:Q", title="busy").scale(scheme="blues", domain=[0, 1])
        .legend(orient="top", format="%", gradientLength=200),
        tooltip=[tip("cpu"), tip("begun", ".1f", "from (s)"), tip("ended", ".1f", "to (s)"),
                 tip("busy", ".0%"), tip("stolen", ".1%"), *of],
    )  # fmt: skip
    mean = {cpu: _mean(rows, cpu) for cpu in cpus}
    text = ", ".join(f"{cpu} {share:.0%}" for cpu, share in mean.items())
    chart: alt.Chart = framed(
        picture, max(60, 24 * len(cpus)), "How busy each CPU was", "", note,
        f"Busy on average: {text}",
    )  # fmt: skip
    return chart


def _mean(rows: Rows, cpu: str) -> float:
    spans = [(row["ended"] - row["begun"], row["busy"]) for row in rows if row["cpu"] == cpu]
    total = sum(seconds for seconds, _ in spans)
    return sum(seconds * busy for seconds, busy in spans) / total if total else 0.0


# Neighbours of one CPU become one, weighted by their length.
def _fewer(rows: Rows) -> Rows:
    at_once = -(-len(rows) // MOST_ROWS)
    if at_once < 2:
        return rows
    rows_kept: Rows = []
    for cpu in dict.fromkeys(row["cpu"] for row in rows):
        of_cpu = [row for row in rows if row["cpu"] == cpu]
        groups = (of_cpu[n : n + at_once] for n in range(0, len(of_cpu), at_once))
        rows_kept += [
            {"cpu": cpu, "begun": group[0]["begun"], "ended": group[-1]["ended"],
             "busy": round(_mean(group, cpu), 4), "stolen": max(row["stolen"] for row in group)}
            for group in groups
        ]  # fmt: skip
    return rows_kept
