"""The picture of counters over time, out of a file of esxtop or perfmon."""

import altair as alt
import numpy as np

from labkit.charts.over_time import over_time
from labkit.errors import BadInput
from labkit.telemetry.counters import Columns
from labkit.telemetry.matching import short

MOST = 12
"""More lines than these cannot be seen apart."""


def counters_over_time(columns: Columns, *, title: str = "", note: str = "") -> alt.LayerChart:
    """Each counter as a line, over the seconds since the first moment of the file."""
    if len(columns.names) > MOST:
        what = f"{len(columns.names)} counters are too many for one picture, which takes {MOST}"
        raise BadInput(what, hint="name fewer, such as one guest or one counter")
    counted, names = short(columns.names)
    at = (columns.times - columns.times[0]) / np.timedelta64(1, "s")
    series = {
        name: (at[there := np.isfinite(values)], values[there])
        for name, values in zip(names, columns.values.T, strict=True)
    }
    unit = "%" if counted.startswith("%") else "as printed"
    metric = counted.removeprefix("%").strip() or "value"
    return over_time(series, metric=metric, unit=unit, title=title, note=note)
