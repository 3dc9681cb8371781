"""A question to all runs at once: our index beside Parquet with DuckDB and with polars (T10).

The peers are installed in a venv of their own, get the same rows as Parquet, and answer in a
process of theirs. Reading every run.json anew is what an index saves.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from _figures import at_most, median, seconds, write
from _peer_python import python_with

from labkit.results import Results, Run
from labkit.runs.index import open_store

SIZES = (1_000, 3_000, 10_000)
ROUNDS = 7
QUERY = """
select r.condition, count(*) as n, avg(x.p50) as p50, max(x.p99) as p99
from runs r join rows x on x.run = r.id where r.state = 'finished' and x.metric = 'round trip'
group by r.condition order by r.condition
"""
PEER = """
import json, sys, time
import duckdb, polars as pl
rows, file = json.load(open(sys.argv[1])), sys.argv[2]
pl.DataFrame(rows).write_parquet(file)
def with_polars():
    f = (pl.col("state") == "finished") & (pl.col("metric") == "round trip")
    return (pl.scan_parquet(file).filter(f).group_by("condition")
            .agg(pl.len().alias("n"), pl.col("p50").mean(), pl.col("p99").max())
            .sort("condition").collect().rows())
def with_duckdb():
    return duckdb.connect().execute(
        f"select condition, count(*), avg(p50), max(p99) from '{file}' where state = 'finished' "
        "and metric = 'round trip' group by 1 order by 1").fetchall()
def times(ask):
    took = []
    for _ in range(7):
        begun = time.perf_counter(); found = ask(); took.append(time.perf_counter() - begun)
    return sorted(took)[3], found[0][1]
print(json.dumps({"polars": times(with_polars), "duckdb": times(with_duckdb)}))
"""


def main():
    peers, figures = python_with("duckdb", "polars"), []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            figures += measured(Path(folder), size, peers)
    write("store", figures)


def measured(folder, size, peers):
    os.environ["LABKIT_OUT"] = str(folder / "out")
    made = folder / "results"
    rows = fill(made, size)
    built = seconds(lambda: open_store(made))
    ours = median([seconds(lambda: open_store(made).query(QUERY)) for _ in range(ROUNDS)])
    anew = seconds(lambda: [Results.open(path).runs() for path in (made / "lat_ping").iterdir()])
    found = open_store(made).query(QUERY)
    theirs = answer(peers, rows, folder)
    assert found[0]["n"] == theirs["polars"][1] == theirs["duckdb"][1]
    print(f"{size} runs: index built in {built:.2f} s, weighs "
          f"{open_store(made).file.stat().st_size / size:.0f} bytes a run")  # fmt: skip
    duckdb, polars, what = theirs["duckdb"][0], theirs["polars"][0], f"query over {size} runs, s"
    return [
        at_most(f"T10-{size}", what, ours, "0.3 s", 0.3, 1),
        at_most(f"anew-{size}", what, ours, "reading each run.json", anew, 0.1),
        at_most(f"duckdb-{size}", what, ours, "DuckDB", duckdb, 10),
        at_most(f"polars-{size}", what, ours, "polars", polars, 20),
    ]


def fill(made, size):
    """So many runs, a hundred in each folder of results, written without waiting for the disk."""
    rows, sync, os.fsync = [], os.fsync, lambda number: None
    try:
        for number in range(size // 100):
            asked = {"study": "lat_ping", "label": str(number), "lab": {"name": "lab"}, "seed": 1}
            results = Results.begin(made / "lat_ping" / f"r{number}", asked)
            for order in range(1, 101):
                rows += kept(results, order)
    finally:
        os.fsync = sync
    return rows


def kept(results, order):
    found = {"p50": 40.0 + order, "p90": 60.0, "p99": 90.0 + order, "p99.9": 200.0, "max": 800.0}
    row = {"unit": "us", "n": 3000, "lost": 0, **found}
    rows = tuple(
        {**row, "metric": metric} for metric in ("round trip", "cpu", "steal", "retransmits")
    )
    name = ("Native", "VM-Default", "VM-SRIOV", "VM-Latency-SRIOV")[order % 4]
    run = Run(name, order, order, "finished" if order % 25 else "failed", rows=rows)
    results.keep(run, {})
    return [{**one, "condition": name, "state": run.state} for one in rows]


def answer(python, rows, folder):
    (folder / "rows.json").write_text(json.dumps(rows))
    asked = [python, "-c", PEER, folder / "rows.json", folder / "rows.parquet"]
    return json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
