"""Counters out of an esxtop CSV against polars, and percentiles against numpy's sort, at 3 sizes.

labkit reads by polars too: what it looks at besides must not cost much. Each figure of time and
memory is that of a fresh process, without its imports: from the path of the file to the numbers.
The peers take turns in each round, and before each of them memory is touched and let go: a virtual
machine that gives free memory back to its host gets the same memory ten or fifty times as slowly as
a warm one, and who happens to run first would pay for all. Bare polars is told the types of all
columns. It holds the text of the file while it reads it, so memory is about the size of the file at
least.
"""

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from _figures import OUT, at_most, beside, median, write

HOME = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HOME))

ROUNDS = 5
COLUMNS, ROWS, FEW = 20_000, (600, 2000, 3000), 20
TOUCHED = 1600 << 20
"""More memory than polars takes of the largest file."""
SAMPLES = (1_000_000, 10_000_000, 100_000_000)
PERCENTILES = (50, 90, 99, 99.9, 99.99)
MB = 1e6


# --- what a fresh process does: prints seconds and bytes beyond what its imports took ------------


def memory(what):
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(what))
    return 1024 * int(line.split()[1])


def told(action):
    # The peak up to now was that of the imports; proc(5) tells how to forget it.
    Path("/proc/self/clear_refs").write_text("5")
    before, begun = memory("VmRSS"), time.perf_counter()
    kept = action()
    took, most = time.perf_counter() - begun, memory("VmHWM") - before
    del kept
    print(json.dumps([took, most]))


def touch(size):
    import numpy as np

    np.empty(int(size), np.uint8).fill(1)
    print("null")


def chosen(names):
    return names[COLUMNS // FEW // 2 :: COLUMNS // FEW]


def ours(path, what):
    import polars  # noqa: F401  # as the others, so that its import is not counted

    from labkit.telemetry.counters import counters, read

    names = list(chosen(counters(path))) if what == "few" else None
    told(lambda: read(path, names))


def polars(path, what):
    import polars

    def scan():
        # As told that all are numbers: guessing takes it longer. The names are in the first line.
        with path.open(newline="") as file:
            names = next(csv.reader(file))
        schema = dict.fromkeys(names, polars.Float64) | {names[0]: polars.String}
        whole = polars.scan_csv(path, schema=schema)
        return (whole.select(chosen(names[1:])) if what == "few" else whole).collect()

    told(scan)


def samples(count):
    import numpy as np

    return np.random.default_rng(1).lognormal(4, 0.5, count)


def percentiles(count, what):
    from labkit.statistics.percentiles import estimate
    from labkit.statistics.pooled import Pooled

    values = samples(int(count))

    def both():
        pooled = Pooled.of({0: values})
        for q in PERCENTILES:
            estimate(pooled, q).interval()

    estimate(Pooled.of({0: values[:100_000]}), 50).interval()
    told(both if what == "ours" else values.sort)


CHILDREN = {"ours": ours, "polars": polars, "percentiles": percentiles,
            "touch": lambda size, what: touch(size)}  # fmt: skip


def child(python, *words):
    result = subprocess.run([python, __file__, *words], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(words)}:\n{result.stderr}")
    return json.loads(result.stdout)


# --- what compares them ------------------------------------------------------------------------


def esxtop(path, rows):
    """Everything in quotes, two decimals or none, as esxtop prints it."""
    import numpy as np

    random = np.random.default_rng(1)
    texts = [b'"%d.%02d"' % divmod(n, 100) for n in range(10_000)]
    texts += [b'"%d"' % (37 * n) for n in range(2000)]
    texts += [b'"%d.%02d"' % (50_000 + 1013 * n, n % 100) for n in range(2000)]
    texts = np.array(texts, dtype=object)
    names = [rf"\\esx1\Group Cpu({n}:vm{n})\% Used" for n in range(COLUMNS - 1)]
    with path.open("wb") as file:
        file.write(",".join(f'"{name}"' for name in ["(PDH-CSV 4.0) (UTC)(0)", *names]).encode())
        for n in range(rows):
            file.write(b'\n"11/21/2026 %02d:%02d:%02d",' % (n // 3600, n // 60 % 60, n % 60))
            file.write(b",".join(texts[random.integers(0, texts.size, COLUMNS - 1)].tolist()))
        file.write(b"\n")
        file.flush()
        os.fsync(file.fileno())  # or the disk is written to while the first of them read


def medians(*calls):
    """Each call in turn, so that what else the machine does meets all of them."""

    def warm(*words):
        # There is memory that the host has given already.
        child(sys.executable, "touch", str(TOUCHED), "")
        return child(*words)

    rounds = [[warm(*words) for words in calls] for _ in range(ROUNDS)]
    columns = zip(*rounds, strict=True)
    return [[median(part) for part in zip(*column, strict=True)] for column in columns]


def columns(path, rows):
    mine = sys.executable
    esxtop(path, rows)
    size = f"{path.stat().st_size / MB:.0f} MB"
    figures, took = [], {}
    for what, time_factor, memory_factor in (("few", 1.3, 1.3), ("all", 1.5, 2)):
        calls = ((mine, way, str(path), what) for way in ("ours", "polars"))
        (us, our_peak), (peer, peer_peak) = medians(*calls)
        named = f"{FEW if what == 'few' else 'all'} of {COLUMNS} columns, {size}"
        took[what] = us
        figures += [
            at_most(f"{what}-{rows}", f"{named}, s", us, "bare polars", peer, time_factor),
            at_most(f"{what}-memory-{rows}", f"{named}, MB", our_peak / MB, "bare polars",
                    peer_peak / MB, memory_factor),
        ]  # fmt: skip
    return figures, took


def grown(id, what, small, large, factor):
    """Linear cost: so many times the work takes no more than 1.5 times as much more time."""
    return at_most(id, what, large, f"{factor} x the time of 1/{factor} of it", factor * small, 1.5)


def all_columns():
    figures, took = [], []
    path = OUT / "esxtop.csv"
    try:
        for rows in ROWS:
            found, times = columns(path, rows)
            figures += found
            took.append(times)
    finally:
        path.unlink(missing_ok=True)
    growth = ROWS[-1] // ROWS[0]
    for what in ("few", "all"):
        figures.append(grown(f"{what}-grows", f"{what} columns of {growth} x the rows, s",
                             took[0][what], took[-1][what], growth))  # fmt: skip
    return figures


def all_percentiles():
    figures, took = [], []
    for count in SAMPLES:
        (us, beyond), (sort, _) = medians(
            *((sys.executable, "percentiles", str(count), what) for what in ("ours", "sort"))
        )
        named = f"{len(PERCENTILES)} percentiles with intervals of {count // 1_000_000} M samples"
        took.append(us)
        shown = f"percentiles-{count}", f"{named}, s", us, "one numpy sort in place", sort
        figures.append(at_most(*shown, 0.3) if count == SAMPLES[-1] else beside(*shown))
        figures.append(at_most(f"percentiles-memory-{count}", f"{named}, MB beyond the data",
                               beyond / MB, "the limit", 64, 1))  # fmt: skip
    what = "percentiles of 10 x the samples, s"
    return [*figures, grown("percentiles-grow", what, took[1], took[2], 10)]


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    write("analysis", all_columns() + all_percentiles())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        name, subject, what = sys.argv[1:]
        CHILDREN[name](subject if name in ("percentiles", "touch") else Path(subject), what)
    else:
        main()
