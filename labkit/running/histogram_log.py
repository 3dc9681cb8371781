"""Results as a log of HdrHistogram: one histogram for each run, tagged with condition and block."""

import re
from datetime import datetime

from labkit.errors import BadInput, ResultsError
from labkit.results import Results
from labkit.running import measured
from labkit.statistics.hdr_histogram import encoded

NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def histogram_log(results: Results) -> str:
    """All values of the study's metric, in nanoseconds; refused if it is no time."""
    metric, lines, begun = measured.main_metric(results), [], 0.0
    for run in results.finished():
        found = {one.metric: one for one in measured.samples(results, run)}.get(metric)
        if found is None:
            continue
        if found.unit not in NANOSECONDS:
            raise BadInput(f"{metric} is in {found.unit or 'no unit'}, which is not a time")
        values = found.values * NANOSECONDS[found.unit]
        at = datetime.fromisoformat(run.started).timestamp() if run.started else 0.0
        begun = begun or at
        tag = re.sub(r"[\s,]+", "-", f"{run.condition}-b{run.block}")
        times = f"{at - begun:.3f},{run.measured_seconds:.3f},{values.max() / 1e6:.3f}"
        lines.append(f"Tag={tag},{times},{encoded(values)}")
    if not lines:
        raise ResultsError(f"{results.path} has no finished run")
    head = f"#[{metric} of {results.study}, in nanoseconds; StartTime: {begun:.3f}]"
    columns = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
    return "\n".join([head, "#[Histogram log format version 1.3]", columns, *lines, ""])
