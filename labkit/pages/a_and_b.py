"""The outcome of A against B: lines for a terminal, JSON, and a page that opens anywhere."""

import shlex
from pathlib import Path
from typing import Any

from markupsafe import Markup

from labkit import charts
from labkit.errors import readable
from labkit.machine.units import figure, shown
from labkit.pages import terminal
from labkit.pages.filled import filled, keep
from labkit.pages.tables import Table
from labkit.reason import figures
from labkit.running.comparing import STUDY, A, Outcome
from labkit.running.open_lab import note
from labkit.running.remarks import remarks
from labkit.verdict import UNDECIDED, looked
from labkit.workloads.command import TIME


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
    by, unit = 1.0, load.unit
    if load.metric == TIME and interval.value < 1:
        by, unit = (1e3, "ms") if interval.value >= 1e-3 else (1e6, "us")
    value = f"{figure(by * interval.value)} {shown(unit)}".rstrip()
    ends = f" ({interval.ends(lambda end: figure(by * end))})" if interval.enough else ""
    return f"{value}{ends}"


def rendered(outcome: Outcome, page_file: Path) -> str:
    """The outcome for a terminal."""
    lines = []
    for name, side in outcome.comparing.sides.items():
        text = f"{name}  {shlex.join(side.words)}  ({side.shown}, on {side.role})"
        figure = f"   {outcome.comparing.load.metric}  {_figure(outcome, name)}"
        lines += [terminal.paragraph(text), figure]
    parts = [
        "\n".join(lines), *map(terminal.paragraph, (finding(outcome), *_beside(outcome))),
        f"results  {outcome.results.path}\npage     {page_file}",
    ]  # fmt: skip
    return readable("\n\n".join(filter(None, parts)))


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
    title = f"A against B on {outcome.results.asked['lab']['name']}"
    page = filled(
        "compared.html", title=title, finding=finding(outcome), verdict=outcome.verdict.verdict,
        table=Markup(table(outcome).html()), chart=Markup(_chart(outcome)), notes=_beside(outcome),
    )  # fmt: skip
    return keep(f"compare-{outcome.results.path.name}.html", page)


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
