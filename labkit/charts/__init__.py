"""One Altair function per kind of picture; each draws in JupyterLab, in a report, and offline.

Start with `latency.py`; `look.py` holds colours and axes.
"""

from labkit.charts.compared import Changed, changes, ratios
from labkit.charts.curves import sizing, speed_ups
from labkit.charts.export import frame, save
from labkit.charts.latency import ladder, named, round_trips, spread, thinned
from labkit.charts.look import (
    COLOURS,
    EMBEDDED,
    PERCENTILES,
    POINTS,
    SCALES,
    SHAPES,
    SLOWEST,
    V5,
    V5_SCHEMA,
    bundle,
    enable,
    svg,
)
from labkit.charts.over_time import Happened, cores, over_time

__all__ = [
    "COLOURS", "EMBEDDED", "PERCENTILES", "POINTS", "SCALES", "SHAPES", "SLOWEST", "V5",
    "V5_SCHEMA", "Changed", "Happened", "bundle", "changes", "cores", "enable",
    "frame", "ladder", "named", "over_time", "ratios", "round_trips", "save",
    "sizing", "speed_ups", "spread", "svg", "thinned",
]  # fmt: skip

# Without this, a chart as the last line of a cell would ask a server on the internet for scripts.
enable()
