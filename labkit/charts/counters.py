"""The picture of counters over time, out of a file of esxtop or perfmon."""

import altair as alt
import numpy as np

from labkit.charts.over_time import over_time
from labkit.errors import BadInput
from labkit.telemetry.counters import Columns
from labkit.telemetry.matching import short

LIMIT = 12
"""More lines than these cannot be seen apart."""


def counters_over_time(columns: Columns, *, title: str = "", note: str = "") -> alt.LayerChart:
    """Each counter as a line, over the seconds since the first moment of the file."""
    if len(columns.names) > LIMIT:
        problem = f"{len(columns.names)} counters are too many for one picture, which takes {LIMIT}"
        raise BadInput(problem, hint="name fewer, such as one guest or one counter")
    counter, names = short(columns.names)
    at = (columns.times - columns.times[0]) / np.timedelta64(1, "s")
    series = {
        name: (at[is_there := np.isfinite(values)], values[is_there])
        for name, values in zip(names, columns.values.T, strict=True)
    }
    unit = "%" if counter.startswith("%") else "as printed"
    metric = counter.removeprefix("%").strip() or "value"
    return over_time(series, metric=metric, unit=unit, title=title, note=note)
