"""Two tools that measured the same thing one after the other, beside each other."""

from collections.abc import Mapping

import numpy as np

from labkit.results import Results
from labkit.statistics.percentiles import interval
from labkit.study import Study


def beside(study: Study, results: Results, metrics: Mapping[float, str]) -> list[dict[str, str]]:
    """Rows: a percentile of all values of the study's tool, and what the other printed for it.

    `metrics` names the other tool's metric by percentile. It gives one number a run, so its middle
    one is shown and, behind it, the least and the greatest.
    """
    values_of, rows = study.measured(results), []
    for condition, runs in study.blocks(results).items():
        for q, metric in metrics.items():
            figures = values_of.get(f"{metric.replace(' ', '_')}: {condition}", {})
            values = np.concatenate(list(figures.values())) if figures else np.array([])
            bar = interval(runs, q)
            rows.append({
                "condition": condition, "percentile": f"{q:g} %",
                study.workload.name: f"{bar.value:.0f} ({bar.ends('{:.0f}'.format)})",
                metric.split()[0]: _spread(values), "unit": study.unit,
            })  # fmt: skip
    return rows


def _spread(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    if not values.size:
        return "not measured"
    return f"{np.median(values):.0f} ({values.min():.0f} to {values.max():.0f})"
