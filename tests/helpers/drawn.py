"""A picture of every kind, of made-up measurements, and what it holds."""

import functools

import numpy as np
import pytest
import synthetic

from labkit import charts
from labkit.charts.bars import shared_line

MEASURED = synthetic.measured()
PUBLISHED = [
    {"condition": "Native", "statistic": "median", "value": "18", "source": "Figure 3"},
    {"condition": "VM-Default", "statistic": "p99.99", "value": "557", "source": "Figure 3"},
    {"condition": "VM-Latency-SRIOV minus Native", "statistic": "median", "value": "2"},
    {"condition": "Native", "statistic": "mean", "value": "19"},
]
NOTE = "Emulated: one machine"
RNG = np.random.default_rng(1)
RATES = {"Native": 100, "VM": 97, "VM-Docker": 86}
RATES = {
    name: {k: np.array([rate * (1 + 0.01 * RNG.standard_normal())]) for k in range(5)}
    for name, rate in RATES.items()
}
SCALED = {x: {k: np.array([100.0 * x**0.9 + k]) for k in range(4)} for x in (1, 2, 4, 8)}
MOMENTS = np.linspace(0, 60, 1_000_000)
DIP = np.where((MOMENTS > 30) & (MOMENTS < 30.001), 0.0, 1000.0)
EVENTS = [charts.Happened("migration", 10, 31), charts.Happened("switch-over", 30)]
RUNS = {(name, k): f"00{k}-{name}-b{k}" for name in (*MEASURED, *RATES, "8") for k in range(6)}
BUSY = [
    {"cpu": f"cpu{cpu}", "begun": n / 5, "ended": (n + 1) / 5, "busy": cpu / 16, "stolen": 0.0}
    for n in range(100) for cpu in range(16)
]  # fmt: skip
PICTURES = {
    "ladder": lambda: charts.ladder(MEASURED, PUBLISHED, runs=RUNS, note=NOTE),
    "ladder, linear": lambda: charts.ladder(MEASURED, scale="linear", note=NOTE),
    "ladder, one block": lambda: charts.ladder(synthetic.measured(1, 50), PUBLISHED, note=NOTE),
    "spread": lambda: charts.spread(MEASURED, runs=RUNS, note=NOTE),
    "round trips": lambda: charts.round_trips(
        MEASURED["Native"][1], run="001-Native-b1", note=NOTE
    ),
    "ratios": lambda: charts.ratios(RATES, "Native", {"VM": 0.98}, runs=RUNS, note=NOTE),
    "ratios and noise": lambda: charts.ratios(RATES, "Native", noise=0.04, note=NOTE),
    "speed-ups": lambda: charts.speed_ups(
        {"Native": SCALED[8], "VM": SCALED[4]}, {"Native": SCALED[1], "VM": SCALED[1]}, 8, (4, 5.6),
        runs=RUNS, note=NOTE,
    ),
    "over time": lambda: charts.over_time(
        {"orders": (MOMENTS, DIP)}, EVENTS, run="001-VM-b1", note=NOTE
    ),
    "cores": lambda: charts.cores(BUSY, run="001-Native-b1", note=NOTE),
    "shares of a line": lambda: shared_line({"now": (250, 150, 90)}, 500, NOTE, {"now": 200}),
    "new over old": lambda: charts.changes(
        [charts.Changed("VM, median", 1.2, 1.1, 1.3, "higher")], note=NOTE
    ),
    "round trips, many": lambda: charts.round_trips(np.arange(1, 2e5), note=NOTE),
}  # fmt: skip
PICTURES = {name: functools.cache(draw) for name, draw in PICTURES.items()}
every_picture = pytest.mark.parametrize("name", PICTURES)


def shown(chart):
    bundle = chart._repr_mimebundle_()
    return bundle[0] if isinstance(bundle, tuple) else bundle


def rows(chart, **wanted):
    """All rows of a chart's data that have these values."""
    found = [row for data in chart.to_dict()["datasets"].values() for row in data]
    return [row for row in found if wanted.items() <= row.items()]
