"""The report of a campaign: one folder with an index, every notebook and its page, for offline."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from labkit import __version__, studies
from labkit.campaign.attempts import FINISHED
from labkit.campaign.folder import CampaignFolder, told
from labkit.campaign.foreseen import spoken
from labkit.campaign.points import CampaignPoint
from labkit.campaign.worker import NOTEBOOK, PAGE
from labkit.machine import records
from labkit.pages import report as pages
from labkit.pages.paper import PAPER
from labkit.pages.tables import chip, safe

# No script is allowed, and nothing is asked of a network; links lead into this folder.
INDEX = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title><style>{style}</style></head>
<body><main><h1>{title}</h1>
<p class="finding"><b>{found}</b></p>
<p>{facts}</p>
{failed}
{verdicts}
<h2>Points</h2>
{points}
<details><summary>The campaign file</summary><pre>{text}</pre></details>
</main></body></html>
"""
ROWS = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title><style>{style}</style></head>
<body><main><h1>{title}</h1><p><a href="index.html">all of the campaign</a></p>
{points}
</main></body></html>
"""
MOST_ROWS = 2000
"""The most points in one table; if there are more, they stand on pages of their own."""
STYLE = """
body { max-width: 1150px; margin: 1.5em auto; padding: 0 1em; font: 15px/1.45 sans-serif }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin: 1.4em 0 .4em }
.wide { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: 5px 9px;
         border-bottom: 1px solid var(--line) }
td.number { text-align: right } small { opacity: .8 } pre { overflow-x: auto }
.wrong { border-left: 4px solid #B03A00; padding: .3em .8em; white-space: pre-wrap }
.finding { font-size: 1.15em } summary { cursor: pointer; margin: 1em 0 }
"""
Told = Mapping[str, Any]
REPORT = "report"


def write(folder: CampaignFolder) -> Path:
    """Write the report of what there is by now: all of it, or the one before stays."""
    whole, place = told(folder), folder.path / REPORT
    half, gone = (place.with_name(f".{REPORT}.{end}") for end in ("half", "gone"))
    with records.keeping(f"the report in {place}"):
        for left in (half, gone):
            shutil.rmtree(left, ignore_errors=True)
        (half / "points").mkdir(parents=True)
        kept = {point.name: _copied(folder, point, half) for point in folder.points}
        (half / "campaign.json").write_text(json.dumps(whole, indent=1, default=str), "utf-8")
        for name, page in _pages(folder, whole, kept):
            (half / name).write_text(page, "utf-8")
        if place.exists():
            place.rename(gone)
        half.rename(place)
        shutil.rmtree(gone, ignore_errors=True)
    return place / "index.html"


# The page and the notebook of a point, by their suffix; of one that never ended what it came to.
def _copied(folder: CampaignFolder, point: CampaignPoint, half: Path) -> dict[str, str]:
    found, own_page = {}, folder.of(point) / PAGE
    if not own_page.exists() and (folder.of(point) / NOTEBOOK).exists():
        pages.write(folder.of(point) / NOTEBOOK, own_page)
    for name in (PAGE, NOTEBOOK):
        kept = folder.of(point) / name
        if kept.is_file():
            suffix = Path(name).suffix
            own = f"points/{point.name}{suffix}"
            shutil.copyfile(kept, half / own)
            found[suffix] = own
    return found


# The index; a table of very many points stands on pages of its own, which a browser can open.
def _pages(
    folder: CampaignFolder, whole: Told, kept: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, str]]:
    points: Sequence[Told] = whole["points"]
    if len(points) <= MOST_ROWS:
        yield "index.html", _index(folder, points, _points(folder.points, points, kept))
        return
    links = []
    for n in range(0, len(points), MOST_ROWS):
        name, last = f"points-{n // MOST_ROWS + 1:03d}.html", min(n + MOST_ROWS, len(points))
        title = f"Points {n + 1} to {last} of {folder.name}"
        rows = _points(folder.points[n:last], points[n:last], kept)
        yield name, ROWS.format(title=safe(title), style=PAPER + STYLE, points=rows)
        links.append(f'<li><a href="{name}">{n + 1} to {last}</a></li>')
    yield "index.html", _index(folder, points, f"<ul>{''.join(links)}</ul>")


def _index(folder: CampaignFolder, points: Sequence[Told], table: str) -> str:
    return INDEX.format(
        title=safe(f"Campaign {folder.name}"), style=PAPER + STYLE, found=safe(_found(points)),
        facts=safe(_facts(points)), failed=_failed(points), verdicts=_verdicts(folder, points),
        points=table, text=safe(folder.text),
    )  # fmt: skip


def _found(points: Sequence[Told]) -> str:
    states = Counter(str(one["state"]) for one in points)
    verdicts = Counter(v["verdict"] for one in points for v in one["verdicts"])
    said = f"{states[FINISHED]} of {len(points)} points are finished"
    if not verdicts:
        return f"{said}."
    judged = ", ".join(f"{many} {verdict}" for verdict, many in verdicts.items())
    return f"{said}; their claims: {judged}."


def _facts(points: Sequence[Told]) -> str:
    began = sorted(one["began"] for one in points if one["began"])
    days = " to ".join(dict.fromkeys(at[:16].replace("T", " ") for at in began[:1] + began[-1:]))
    spent = spoken(sum(one["seconds"] for one in points))
    when = f"Measured {days} UTC, {spent} of work. " if days else ""
    return f"{when}Made by labkit {__version__}; the folder opens anywhere, without a network."


def _failed(points: Sequence[Told]) -> str:
    wrong = [one for one in points if one["state"] not in (FINISHED, "not begun")]
    waiting = sum(one["state"] == "not begun" for one in points)
    parts = [
        f'<p class="wrong"><b>{safe(one["name"])}: {safe(one["state"])} after '
        f"{one['attempts']} attempts</b>\n{safe(one['why'])}</p>"
        for one in wrong
    ]  # fmt: skip
    parts += (
        [f'<p class="wrong">{waiting} of {len(points)} points have not begun yet.</p>']
        if waiting
        else []
    )
    return "".join(parts)


def _verdicts(folder: CampaignFolder, points: Sequence[Told]) -> str:
    by_study: dict[str, dict[str, list[Told]]] = defaultdict(lambda: defaultdict(list))
    for point, one in zip(folder.points, points, strict=True):
        if one["verdicts"]:
            variant = f"{point.place}{f': {point.said}' if point.said else ''}"
            by_study[point.study][variant].append(one)
    tables = "".join(_study(name, by_study[name]) for name in sorted(by_study))
    return f"<h2>Verdicts</h2>{tables}" if tables else ""


# A column for each lab and values; a chip for each verdict that their repetitions came to.
def _study(name: str, variants: Mapping[str, Sequence[Told]]) -> str:
    claims: dict[str, str] = {}
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for variant, those in variants.items():
        for verdict in (v for one in those for v in one["verdicts"]):
            claims[verdict["claim"]] = verdict["statement"]
            found[verdict["claim"], variant][verdict["verdict"]] += 1
    rows = "".join(
        f"<tr><td>{safe(statement)}<br><small><code>{safe(claim)}</code></small></td>"
        + "".join(f"<td>{_chips(found[claim, variant])}</td>" for variant in variants)
        + "</tr>"
        for claim, statement in claims.items()
    )
    return f"<h3>{safe(_title(name))}</h3>{_table(('claim', *variants), rows)}"


def _title(name: str) -> str:
    return studies.asks(studies.find(name)) if name in studies.names() else name


def _chips(verdicts: Mapping[str, int]) -> str:
    each = (chip(word) + (f" ({many})" if many > 1 else "") for word, many in verdicts.items())
    return "<br>".join(each)


def _points(
    points: Iterable[CampaignPoint], those: Sequence[Told],
    pages: Mapping[str, Mapping[str, str]],
) -> str:  # fmt: skip
    head = ("point", "study", "lab", "repetition", "values", "state", "took", "notebook")
    rows = "".join(
        f'<tr><td class="number">{point.number}</td><td>{safe(point.study)}</td>'
        f"<td>{safe(point.place)}</td><td>{point.repetition}</td><td>{safe(point.said)}</td>"
        f"<td>{safe(one['state'])}</td><td>{one['seconds']:.0f} s</td>"
        f"<td>{_links(pages[point.name])}</td></tr>"
        for point, one in zip(points, those, strict=True)
    )
    return _table(head, rows)


def _links(pages: Mapping[str, str]) -> str:
    words = {Path(PAGE).suffix: "page", Path(NOTEBOOK).suffix: "notebook"}
    return ", ".join(f'<a href="{quote(at)}">{words[suffix]}</a>' for suffix, at in pages.items())


def _table(head: Sequence[str], rows: str) -> str:
    names = "".join(f"<th>{safe(name)}</th>" for name in head)
    return (
        f'<div class="wide"><table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>'
        "</div>"
    )
