"""Remarks on streams that a link limits: such a rate says nothing of its cost."""

import re

from labkit.results import Results

RATE = re.compile(r"(\d+(?:\.\d+)?) ([kMG])bit/s", re.ASCII)
MBIT = {"k": 1e-3, "M": 1.0, "G": 1e3}
FULL = 0.9
"""Of the link's rate: of 1538 bytes on a wire 1448 are data, which is 0.94."""
STREAM = "throughput"


def remarks(results: Results) -> list[str]:
    """Name the streams that were as fast as the link, and what to look at in their place."""
    links = results.asked.get("lab", {}).get("links", {})
    shown = {name: RATE.fullmatch(str(link.get("rate", ""))) for name, link in links.items()}
    rates = {name: float(rate[1]) * MBIT[rate[2]] for name, rate in shown.items() if rate}
    link, limit = min(rates.items(), key=lambda row: row[1], default=("", 0.0))
    conditions: dict[str, dict[str, None]] = {}
    for run in results.finished() if limit else ():
        for row in run.rows:
            is_stream = row["unit"] == "Mbit/s" and row["metric"].startswith(STREAM)
            if is_stream and row["p50"] >= FULL * limit:
                conditions.setdefault(row["metric"], {})[run.condition] = None
    return [
        f"{way} reaches the limit of the link of {link}, {limit:g} Mbit/s, in {', '.join(names)}: "
        "that hides its cost, so compare the CPU time per gigabyte"
        for way, names in sorted(conditions.items())
    ]
