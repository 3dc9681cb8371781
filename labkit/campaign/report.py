"""The report of a campaign: one folder with an index, every notebook and its page, for offline."""

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import altair as alt
from markupsafe import Markup

from labkit import __version__, studies
from labkit.campaign.asked import CampaignPoint
from labkit.campaign.folder import FINISHED, CampaignFolder, counted, told
from labkit.campaign.worker import NOTEBOOK, PAGE
from labkit.charts import bundle, ends
from labkit.charts.curves import swept
from labkit.charts.look import rounded
from labkit.charts.tradeoff import of_metric
from labkit.errors import LabkitError
from labkit.machine import records
from labkit.machine.units import by_numbers, shown, spoken
from labkit.pages import report as pages
from labkit.pages.filled import filled
from labkit.results import Results
from labkit.running.open_lab import note
from labkit.statistics.estimate import estimated
from labkit.statistics.measurand import plain
from labkit.statistics.percentiles import Blocks, count
from labkit.statistics.quantity import Quantity

MOST_ROWS = 2000
"""The most points in one table; if there are more, they stand on pages of their own."""
NOT_BEGUN = "not begun"
Told = Mapping[str, Any]
REPORT = "report"
PER_SESSION = 10**6
"""Blocks of one session have numbers below it."""


def write(folder: CampaignFolder) -> Path:
    """Write the report of what there is by now: all of it, or the one before stays."""
    document, place = told(folder), folder.path / REPORT
    half, old = (place.with_name(f".{REPORT}.{end}") for end in ("half", "gone"))
    with records.keeping(f"the report in {place}"):
        for remains in (half, old):
            shutil.rmtree(remains, ignore_errors=True)
        (half / "points").mkdir(parents=True)
        copies = {point.name: _copy(folder, point, half) for point in folder.points}
        (half / "campaign.json").write_text(json.dumps(document, indent=1, default=str), "utf-8")
        for name, page in _pages(folder, document, copies):
            (half / name).write_text(page, "utf-8")
        if place.exists():
            place.rename(old)
        half.rename(place)
        shutil.rmtree(old, ignore_errors=True)
    return place / "index.html"


# The page and the notebook of a point as links; of one that never ended what it came to.
def _copy(folder: CampaignFolder, point: CampaignPoint, half: Path) -> list[tuple[str, str]]:
    page, own_notebook = (folder.of(point) / name for name in (PAGE, NOTEBOOK))
    if not page.exists() and own_notebook.exists():
        pages.write(own_notebook, page)
    copies = []
    for word, path in (("page", page), ("notebook", own_notebook)):
        if path.is_file():
            copy = f"points/{point.name}{path.suffix}"
            shutil.copyfile(path, half / copy)
            copies.append((word, quote(copy)))
    return copies


# The index; a table of very many points stands on pages of its own, which a browser can open.
def _pages(
    folder: CampaignFolder, document: Told, copies: Mapping[str, Sequence[tuple[str, str]]]
) -> Iterator[tuple[str, str]]:
    points: Sequence[Told] = document["points"]
    rows = [
        (point, facts, copies[point.name])
        for point, facts in zip(folder.points, points, strict=True)
    ]
    pages = []
    for n in range(0, len(rows) if len(rows) > MOST_ROWS else 0, MOST_ROWS):
        name, last = f"points-{n // MOST_ROWS + 1:03d}.html", min(n + MOST_ROWS, len(rows))
        title = f"Points {n + 1} to {last} of {folder.name}"
        yield name, filled("campaign.html", title=title, index=False, pages=(), points=rows[n:last])
        pages.append((name, n + 1, last))
    yield "index.html", filled(
        "campaign.html", title=f"Campaign {folder.name}", index=True, found=_summarize(points),
        facts=_facts(points), of=len(points), studies=[*_studies(folder, points)],
        failed=[facts for facts in points if facts["state"] not in (FINISHED, NOT_BEGUN)],
        waiting=sum(facts["state"] == NOT_BEGUN for facts in points),
        pages=pages, points=rows, text=folder.text,
        sweeps=[Markup(picture) for picture in sweeps(folder)],
    )  # fmt: skip


def _summarize(points: Sequence[Told]) -> str:
    states = Counter(str(point["state"]) for point in points)
    verdicts = counted(Counter(v["verdict"] for point in points for v in point["verdicts"]))
    text = f"{states[FINISHED]} of {len(points)} points are finished"
    return f"{text}; their claims: {verdicts}." if verdicts else f"{text}."


def _facts(points: Sequence[Told]) -> str:
    tries = [(datetime.fromisoformat(p["began"]), p["seconds"]) for p in points if p["began"]]
    ends = [at + timedelta(seconds=seconds) for at, seconds in tries]
    times = [min(at for at, _ in tries), max(ends)] if tries else []
    days = " to ".join(dict.fromkeys(f"{at:%Y-%m-%d %H:%M}" for at in times))
    work = spoken(sum(point["seconds"] for point in points))
    period = f"Measured {days} UTC, {work} of work. " if days else ""
    return f"{period}Made by labkit {__version__}; the folder opens anywhere, without a network."


# A column for each lab and values; a chip for each verdict that their repetitions came to.
def _studies(folder: CampaignFolder, points: Sequence[Told]) -> Iterator[dict[str, Any]]:
    by_study: dict[str, list[tuple[str, Told]]] = defaultdict(list)
    for point, facts in zip(folder.points, points, strict=True):
        variant = f"{point.place}{f': {point.said}' if point.said else ''}"
        by_study[point.study] += [(variant, verdict) for verdict in facts["verdicts"]]
    for name in sorted(filter(by_study.get, by_study)):
        counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for variant, verdict in by_study[name]:
            counts[verdict["claim"], variant][verdict["verdict"]] += 1
        yield {
            "title": studies.asks(studies.find(name)) if name in studies.names() else name,
            "variants": sorted({variant for variant, _ in by_study[name]}, key=by_numbers),
            "claims": {verdict["claim"]: verdict["statement"] for _, verdict in by_study[name]},
            "counts": counts,
        }


def sweeps(folder: CampaignFolder) -> Iterator[str]:
    """A picture as SVG of each study on each lab along each parameter that was swept."""
    points: dict[tuple[str, str], list[CampaignPoint]] = defaultdict(list)
    for point in folder.points:
        points[point.study, point.place].append(point)
    for (study, place), group in points.items():
        for name in _parameters(group):
            try:
                chart = _draw(folder, study, place, name, group)
            except LabkitError:  # its points say what is wrong with them
                continue
            yield bundle(chart.to_dict())["image/svg+xml"]


def _parameters(points: Sequence[CampaignPoint]) -> Iterator[str]:
    for name in dict.fromkeys(name for point in points for name in point.values if name != "seed"):
        values = {point.values.get(name) for point in points}
        if len(values) > 1 and all(type(value) in (int, float) for value in values):
            yield name


def _draw(
    folder: CampaignFolder, study: str, place: str, name: str, points: Sequence[CampaignPoint]
) -> alt.LayerChart:  # fmt: skip
    study_of, label = studies.find(study), ""
    blocks_at: dict[tuple[str, float], Blocks] = defaultdict(dict)
    for point in points:
        if attempt := folder.finished(point):
            results = Results.open(folder.results(attempt))
            label = note(results)
            for condition, blocks in of_metric(study_of, results, plain(study_of.metric)).items():
                first = PER_SESSION * point.repetition
                # What else was swept tells lines apart.
                rest = {k: v for k, v in point.values.items() if k not in ("seed", name)}
                others = "".join(f", {k} {v}" for k, v in rest.items())
                key = f"{condition}{others}", float(point.values[name])
                blocks_at[key] = {**blocks_at[key], **{first + b: v for b, v in blocks.items()}}
    metric = f"{study_of.metric} ({shown(study_of.unit)})"
    rows = [_row(condition, at, blocks) for (condition, at), blocks in blocks_at.items()]
    names = list(dict.fromkeys(row["condition"] for row in rows))
    return swept(rows, names, by=name, metric=metric, of=f"{study} on {place}", note=label)


def _row(condition: str, at: float, blocks: Blocks) -> dict[str, Any]:
    has_many = count(blocks) > len(blocks)
    estimate = estimated(Quantity("'it'", 50.0 if has_many else "mean"), {"it": blocks})
    interval = estimate.interval()
    sessions = len({block // PER_SESSION for block in blocks})
    return {
        "condition": condition,
        "at": at,
        "value": rounded(interval.value),
        **ends.bar(interval, estimate.blocks),
        "runs": f"{len(blocks)} in {sessions} sessions",
    }
