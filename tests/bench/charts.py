"""A chart of a million points: binned before it is drawn, beside Altair with every point in it."""

import json

import altair as alt
import numpy as np
from _figures import at_most, median, seconds, write

from labkit import charts

SIZES = (1_000, 10_000, 100_000)
MANY = 1_000_000
ROUNDS = 5


def main():
    write("charts", [*(figure for size in SIZES for figure in measured(size)), *alone()])


def measured(size):
    at, values = series(size)
    ours = median([seconds(lambda: binned(at, values)) for _ in range(ROUNDS)])
    theirs = median([seconds(lambda: plain(at, values)) for _ in range(ROUNDS)])
    sizes = [len(json.dumps(draw(at, values))) for draw in (binned, plain)]
    peer, factor = "Altair, all points", min(2, 5000 / size)
    return [
        at_most(
            f"bytes-{size}", f"chart of {size} points, bytes", sizes[0], peer, sizes[1], factor
        ),
        at_most(f"time-{size}", f"chart of {size} points, s", ours, peer, theirs, factor),
    ]


# With all of a million points in it Altair takes minutes, so it is given a hundredth of them.
def alone():
    at, values = series(MANY)
    ours = median([seconds(lambda: binned(at, values)) for _ in range(ROUNDS)])
    few = at[::100], values[::100]
    theirs = median([seconds(lambda: plain(*few)) for _ in range(ROUNDS)])
    size = len(json.dumps(binned(at, values)))
    return [
        at_most("T10-bytes", "chart of 1 M points, bytes", size, "100 KB", 100_000, 1),
        at_most("T10-time", "chart of 1 M points, s", ours, "Altair, 10,000 of them", theirs, 0.5),
    ]


def series(size):
    return np.linspace(0, 60, size), 1000 + 50 * np.random.default_rng(1).standard_normal(size)


def binned(at, values):
    return charts.over_time({"orders": (at, values)}).to_dict()


def plain(at, values):
    rows = [{"at": t, "value": v} for t, v in zip(at.tolist(), values.tolist(), strict=True)]
    alt.data_transformers.disable_max_rows()
    return (
        alt.Chart(alt.InlineData(values=rows)).mark_line().encode(x="at:Q", y="value:Q").to_dict()
    )


if __name__ == "__main__":
    main()
