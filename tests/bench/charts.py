"""A chart of a million points beside Altair with every point in it, and the way to a chart.

The way is that of a reader who opens a study's notebook on its recorded run: its cells, as they
stand, in a kernel of Jupyter's, until the first chart is there. Cold is from before the kernel
starts, warm the same cells once more.
"""

import json
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import altair as alt
import nbformat
import numpy as np
from _figures import at_most, median, run, seconds, target
from jupyter_client.manager import start_new_kernel

from labkit import charts

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "01-lat-ping.ipynb"
MANY = 1_000_000
ROUNDS = 5


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


def opened():
    rounds = [first_charts() for _ in range(ROUNDS)]
    cold, warm, size = (median(part) for part in zip(*rounds, strict=True))
    return [
        target("T10-cold", "notebook on recorded data to its first chart, s", cold, 5),
        target("T10-warm", "the same in a kernel that did it before, s", warm, 1),
        target("T10-first", "that chart, bytes", size, 30_000),
    ]


# Seconds of a fresh kernel, of the same kernel again, and the size of what the reader gets.
def first_charts():
    begun = time.perf_counter()
    with kernel() as client:
        size = run_to_chart(client)
        cold, begun = time.perf_counter() - begun, time.perf_counter()
        run_to_chart(client)
        return cold, time.perf_counter() - begun, size


@contextmanager
def kernel():
    manager, client = start_new_kernel(
        kernel_name="python3", cwd=str(NOTEBOOK.parent), stderr=subprocess.DEVNULL
    )
    try:
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run_to_chart(client):
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        more = '\nwhere = "recorded"' if "parameters" in cell.metadata.get("tags", ()) else ""
        if found := charts_of(client, cell.source + more):
            return len(json.dumps(found[0]))
    raise SystemExit(f"{NOTEBOOK} shows no chart")


def charts_of(client, code):
    said = []
    done = client.execute_interactive(code, timeout=120, output_hook=said.append, allow_stdin=False)
    if done["content"]["status"] != "ok":
        raise SystemExit(done["content"]["evalue"])
    data = [message["content"].get("data", {}) for message in said]
    return [shown[charts.V5] for shown in data if charts.V5 in shown]


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
    run("charts", alone, opened)
