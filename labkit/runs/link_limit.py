"""Remarks on streams that a link limits: such a rate says nothing of its cost."""

import re
from collections.abc import Mapping

from labkit.results import Results, Run

RATE = re.compile(r"(\d+(?:\.\d+)?) ([kMG])bit/s", re.ASCII)
MBIT = {"k": 1e-3, "M": 1.0, "G": 1e3}
FULL = 0.9
"""Of the link's rate: of 1538 bytes on a wire 1448 are data, which is 0.94."""
STREAM = "throughput"


def remarks(results: Results) -> list[str]:
    """Name the streams that were as fast as the link, and what to look at in their place."""
    links = results.asked.get("lab", {}).get("links", {})
    rates = {name: rate for name, link in links.items() if (rate := _mbit(link))}
    if not rates:
        return []
    name = min(rates, key=rates.__getitem__)
    conditions: dict[str, list[str]] = {}
    for run in results.finished():
        for way in _full(run, rates[name]):
            conditions.setdefault(way, []).append(run.condition)
    return [_describe(way, names, name, rates[name]) for way, names in sorted(conditions.items())]


def _mbit(link: Mapping[str, str]) -> float:
    match = RATE.fullmatch(str(link.get("rate", "")))
    return float(match[1]) * MBIT[match[2]] if match else 0.0


def _full(run: Run, limit: float) -> list[str]:
    streams = [row for row in run.rows if row["unit"] == "Mbit/s" and row["p50"] >= FULL * limit]
    return [row["metric"] for row in streams if row["metric"].startswith(STREAM)]


def _describe(way: str, conditions: list[str], link: str, limit: float) -> str:
    names = ", ".join(dict.fromkeys(conditions))
    return (
        f"{way} reaches the limit of the link of {link}, {limit:g} Mbit/s, in {names}: that hides "
        "its cost, so compare the CPU time per gigabyte"
    )
