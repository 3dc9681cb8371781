"""The outcome of A against B: lines for a terminal, JSON, and a page that opens anywhere."""

import shlex
from pathlib import Path
from typing import Any

from labkit import charts
from labkit.errors import readable
from labkit.machine import records
from labkit.machine.places import out
from labkit.machine.units import figure, shown
from labkit.pages import terminal
from labkit.pages.paper import PAPER
from labkit.pages.tables import Table, chip, safe
from labkit.reason import figures
from labkit.running.comparing import STUDY, A, Outcome, Side
from labkit.running.open_lab import note
from labkit.running.remarks import remarks
from labkit.statistics.interval import Interval
from labkit.verdict import UNDECIDED, looked
from labkit.workloads.command import TIME

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title><style>{style}</style></head>
<body><h1>{title}</h1>
<p class="finding">{finding} {chip}</p>
{table}
<div class="labkit-chart">{chart}</div>
{rest}
</body></html>
"""
STYLE = """
body { max-width: 1000px; margin: 1.5em auto; padding: 0 1em; font: 15px/1.45 sans-serif }
h1 { font-size: 1.4em; overflow-wrap: anywhere } .finding { font-size: 1.15em }
table.labkit { border-collapse: collapse; margin: 1em 0 }
table.labkit th, table.labkit td { border-bottom: 1px solid var(--line); overflow-wrap: anywhere }
"""


def finding(outcome: Outcome) -> str:
    """The finding, in a sentence."""
    word = "faster" if outcome.comparing.load.metric == TIME else "lower"
    effect = next((r.effect for r in outcome.verdict.reasons if r.effect), None)
    if outcome.lower and effect:
        return f"{outcome.lower} is {word}: {figures(effect)}."
    if outcome.same:
        return f"A and B are the same: {outcome.verdict.why}."
    return f"Undecided: {outcome.verdict.why}."


def table(outcome: Outcome) -> Table:
    """A row for each side: what ran, where, under which settings, and its figure."""
    load = outcome.comparing.load
    statistic = "mean" if outcome.comparing.statistic == "mean" else "median"
    head = ("", "command", "on", "settings", f"{load.metric}, {statistic} (95 %)")
    rows = tuple(
        (name, shlex.join(side.words), side.role, side.shown, _figure(outcome, name))
        for name, side in outcome.comparing.sides.items()
    )
    return Table(head, rows)


def _figure(outcome: Outcome, name: str) -> str:
    interval, load = outcome.figures.get(name), outcome.comparing.load
    if interval is None:
        return "not measured"
    if load.metric == TIME and interval.value < 1:
        by, unit = (1e3, "ms") if interval.value >= 1e-3 else (1e6, "us")
        return _with_ends(interval, by, unit)
    return _with_ends(interval, 1.0, load.unit)


def _with_ends(interval: Interval, by: float, unit: str) -> str:
    value = f"{figure(by * interval.value)} {shown(unit)}".rstrip()
    if not interval.enough:
        return value
    return f"{value} ({interval.ends(lambda end: figure(by * end))})"


def rendered(outcome: Outcome, page_file: Path) -> str:
    """The outcome for a terminal."""
    lines = [f"{terminal.paragraph(f'{name}  {_side(side)}')}\n"
             f"   {outcome.comparing.load.metric}  {_figure(outcome, name)}"
             for name, side in outcome.comparing.sides.items()]  # fmt: skip
    parts = [
        "\n".join(lines), terminal.paragraph(finding(outcome)),
        *map(terminal.paragraph, _beside(outcome)),
        f"results  {outcome.results.path}\npage     {page_file}",
    ]  # fmt: skip
    return readable("\n\n".join(part for part in parts if part))


def _side(side: Side) -> str:
    return f"{shlex.join(side.words)}  ({side.shown}, on {side.role})"


# How it was measured, and what a reader should know of that.
def _beside(outcome: Outcome) -> list[str]:
    verdict, load = outcome.verdict, outcome.comparing.load
    runs = outcome.results.finished()
    text = f", the command {load.times} times in each" if load.times > 1 else ""
    sentence = f"{len(runs)} runs in {verdict.blocks} shuffled blocks{text}."
    looks = [(verdict.looks, verdict.spent)] if verdict.looks else []
    lacks = [f"Not set for {name}: {'; '.join(side.lacks)}."
             for name, side in outcome.comparing.sides.items() if side.lacks]  # fmt: skip
    study = outcome.comparing.study()
    return [f"{sentence} {looked(looks)}".strip(), *lacks, *remarks(study, outcome.results)]


def told(outcome: Outcome, page_file: Path) -> dict[str, Any]:
    """All of it for JSON."""
    load, verdict = outcome.comparing.load, outcome.verdict
    figures = {name: {"value": i.value, "low": i.least, "high": i.most}
               for name, i in outcome.figures.items()}  # fmt: skip
    return {
        **outcome.comparing.kept()[STUDY], "metric": load.metric, "unit": load.unit,
        "times": load.times, "figures": figures, "lower": outcome.lower,
        "decided": verdict.verdict != UNDECIDED, "finding": finding(outcome), **verdict.told(),
        "results": str(outcome.results.path), "page": str(page_file),
    }  # fmt: skip


def write(outcome: Outcome) -> Path:
    """Write the page among the reports; it needs no network and holds no script."""
    file = out() / "reports" / f"compare-{outcome.results.path.name}.html"
    paragraphs = "".join(f"<p>{safe(text)}</p>" for text in _beside(outcome))
    page = PAGE.format(
        title=safe(f"A against B on {outcome.results.asked['lab']['name']}"),
        style=PAPER + STYLE, finding=safe(finding(outcome)), chip=chip(outcome.verdict.verdict),
        table=table(outcome).html(), chart=_chart(outcome), rest=paragraphs,
    )  # fmt: skip
    with records.keeping(f"{file}"):
        file.parent.mkdir(parents=True, exist_ok=True)
        records.write(file, page.encode())
    return file


# A ratio needs figures above 0.
def _chart(ab: Outcome) -> str:
    blocks = ab.comparing.study().blocks(ab.results)
    if min(float(run.min()) for runs in blocks.values() for run in runs.values()) <= 0:
        return ""
    chart = charts.ratios(
        blocks, A, statistic=ab.comparing.statistic, metric=ab.comparing.load.metric,
        margin=ab.comparing.margin, runs=ab.results.by_block(), note=note(ab.results),
    )  # fmt: skip
    return str(charts.bundle(chart.to_dict())["image/svg+xml"])
