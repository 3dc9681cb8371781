"""A question to all runs at once, beside reading every run.json, which an index saves (T10)."""

import os
import tempfile
from pathlib import Path

from _figures import at_most, median, seconds, write

from labkit.results import Results, Run
from labkit.runs.index import open_store

SIZES = (1_000, 3_000, 10_000)
ROUNDS = 7
QUERY = """
select r.condition, count(*) as n, avg(x.p50) as p50, max(x.p99) as p99
from runs r join rows x on x.run = r.id where r.state = 'finished' and x.metric = 'round trip'
group by r.condition order by r.condition
"""


def measured(size):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LABKIT_OUT"] = f"{folder}/out"
        made = Path(folder) / "results"
        fill(made, size)
        print(f"{size} runs: index made in {seconds(lambda: open_store(made)):.2f} s")
        ours = median([seconds(lambda: open_store(made).query(QUERY)) for _ in range(ROUNDS)])
        paths = [*(made / "lat_ping").iterdir()]
        anew = seconds(lambda: [Results.open(path).runs() for path in paths])
    what = f"query over {size} runs, s"
    return [
        at_most(f"T10-{size}", what, ours, "0.3 s", 0.3, 1),
        at_most(f"anew-{size}", what, ours, "reading each run.json", anew, 0.1),
    ]


def fill(made, size):
    """So many runs, a hundred in each folder of results, written without waiting for the disk."""
    sync, os.fsync = os.fsync, lambda number: None
    try:
        for number in range(size // 100):
            asked = {"study": "lat_ping", "label": str(number), "lab": {"name": "lab"}, "seed": 1}
            results = Results.begin(made / "lat_ping" / f"r{number}", asked)
            for order in range(1, 101):
                keep(results, order)
    finally:
        os.fsync = sync


def keep(results, order):
    found = {"p50": 40.0 + order, "p90": 60.0, "p99": 90.0 + order, "p99.9": 200.0, "max": 800.0}
    row = {"unit": "us", "n": 3000, "lost": 0, **found}
    rows = tuple(
        {**row, "metric": metric} for metric in ("round trip", "cpu", "steal", "retransmits")
    )
    name = ("Native", "VM-Default", "VM-SRIOV", "VM-Latency-SRIOV")[order % 4]
    run = Run(name, order, order, "finished" if order % 25 else "failed", rows=rows)
    results.keep(run, {})


if __name__ == "__main__":
    write("store", [figure for size in SIZES for figure in measured(size)])
