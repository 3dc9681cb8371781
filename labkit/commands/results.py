"""`labkit results`: list, show, verify, diff, query, export and import what was measured."""

from __future__ import annotations

import argparse
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._importing import _import
from labkit.commands._verb import JSON, Verb, arg, busy, flag, tell
from labkit.errors import BadInput, readable
from labkit.machine.units import shown

if TYPE_CHECKING:
    import polars as pl

    from labkit.results import Results, Run
    from labkit.running.compared import Fact
    from labkit.running.trend import Trends

LISTING = """
select results.path, study, label, lab, tier, damaged, count(runs.id) as runs,
  count(*) filter (where state = 'finished') as finished,
  count(*) filter (where state not in ('finished', 'damaged')) as not_used,
  count(*) filter (where state = 'damaged') as broken, min(nullif(started, '')) as started
from results left join runs on runs.results = results.id
where (?1 = '' or study = ?1) group by results.id order by started, results.path
"""

RUN_HEAD = ("run", "state", "found", "why")
WHICH = "a folder of results, one of its runs, a bundle, or a study (its newest)"


FOLDERS = arg(
    "folders", "FOLDER", "folders to search instead of this machine's results", nargs="*",
    type=Path,
)  # fmt: skip
RESULTS = Verb(
    "results", "list, show, verify, compare and move results",
    ("list | all results, one line each", "show lat_ping | its settings and figures",
     "verify | every file against its checksum", "export lat_ping -o mine.labkit"),
)  # fmt: skip


@RESULTS.verb(
    "--study lat_ping | results of one study", "/mnt/shared | results below this folder",
    FOLDERS, arg("--study", "STUDY", "list only this study"), JSON,
)  # fmt: skip
def _list(args: argparse.Namespace) -> None:
    """List all results, one line each."""
    from labkit.runs.index import open_store

    with busy("reading what is new"):
        rows = open_store(*args.folders).query(LISTING, [args.study.replace("-", "_")])
    of = f" of {args.study}" if args.study else ""
    tell(args, rows, lambda: _listing(rows) if rows else f"There are no results{of} here.")


def _listing(rows: Sequence[dict[str, Any]]) -> str:
    from labkit.pages import tables, terminal

    lines = []
    for r in rows:
        kinds = {"failed or not used": r["not_used"], "damaged": r["broken"]}
        rest = ", ".join(f"{count:.0f} {kind}" for kind, count in kinds.items() if count)
        note = f"  DAMAGED: {r['damaged']}" if r["damaged"] else f"  ({rest})" if rest else ""
        lines.append(
            (r["study"] or "?", r["lab"] or "?", f"{r['finished']:.0f} of {r['runs']}",
             (r["started"] or "")[:10], f"{_short(r)}{note}")
        )  # fmt: skip
    text = tables.Table(("study", "lab", "finished", "started", "where"), tuple(lines)).text()
    if any(_short(r) == f"STUDY/{Path(r['path']).name}" for r in rows):
        note = "STUDY stands for the first column: labkit results show STUDY/..."
        text += f"\n{terminal.paragraph(note)}"
    return text


# What lies where results usually lie goes by its study and its name, as `results show` takes it.
def _short(row: dict[str, Any]) -> str:
    from labkit.machine.places import HOME, out

    path = Path(row["path"])
    if path.parent == HOME / "data" / "recorded":
        return "comes with labkit"
    return f"STUDY/{path.name}" if path.parent.parent == out() / "results" else str(path)


@RESULTS.verb(
    "lat_ping | the newest of this study",
    "data/recorded/lat_ping.labkit | what comes with labkit", arg("what", "RESULTS", WHICH), JSON,
)  # fmt: skip
def _show(args: argparse.Namespace) -> None:
    """Show the settings and figures of results."""
    from labkit.pages import tables

    results, run = _open(args.what)
    if run:
        rows_of_run = [_mark(row) for row in run.rows]
        text = tables.table(_pairs({**asdict(run), "rows": rows_of_run}), ("what", "value")).text()
        if "~" in str(rows_of_run):
            text += "\n~ marks a percentile with too few samples beyond it"
        tell(args, asdict(run), lambda: text)
        return
    runs, faults = results.readable()
    document = {"path": str(results.path), "asked": dict(results.asked),
                "runs": [asdict(run) for run in runs], "damaged": faults}  # fmt: skip
    facts = {k: v for k, v in results.asked.items() if k != "format"}
    rows = [(r.path.name, r.state, _figures(r), r.why) for r in runs]
    rows += [(name, "damaged", "", fault) for name, fault in faults.items()]
    parts = tables.table(_pairs(facts), ("what", "value")), tables.Table(RUN_HEAD, tuple(rows))
    tell(args, document, lambda: "\n\n".join(part.text() for part in parts))


def _mark(row: Mapping[str, Any]) -> dict[str, Any]:
    from labkit.statistics.pooled import BEYOND, beyond

    samples, marked = row.get("n"), dict(row)
    if not isinstance(samples, int) or samples < 1:
        return marked
    for name, value in row.items():
        percentile = re.fullmatch(r"p(\d\d?(?:\.\d+)?)", name)
        if percentile and beyond(float(percentile[1]), samples) < BEYOND:
            marked[name] = f"~{value}"
    return marked


def _figures(run: Run) -> str:
    first = [
        f"{row.get('metric')}: {row.get('p50')} {shown(str(row.get('unit')))}".rstrip()
        for row in run.rows[:2]
    ]
    return ", ".join(first) + (f", and {len(run.rows) - 2} more" if len(run.rows) > 2 else "")


def _pairs(tree: Any, above: str = "") -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for key, value in tree.items():
        if isinstance(value, dict):
            rows += _pairs(value, f"{above}{key}: ")
        elif value not in ("", (), []):
            rows.append({"what": f"{above}{key}", "value": _plain(value)})
    return rows


# Words one after another, without Python's brackets.
def _plain(value: Any) -> object:
    if isinstance(value, dict):
        return " ".join(f"{key}={_plain(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(str(_plain(part)) for part in value)
    return value


@RESULTS.verb(
    " | all results", "lat_ping | the newest of this study",
    arg("what", "RESULTS", f"{WHICH}; without it, all", nargs="*"), JSON,
)  # fmt: skip
def _verify(args: argparse.Namespace) -> int:
    """Check every file against its checksum; exit code 1 if one differs."""
    from labkit.runs.index import found, places

    wrong: list[str] = []
    paths = [_open(name)[0].path for name in args.what] or list(found(places()))
    for path in paths:
        with busy(f"checking {path}"):
            wrong += _wrong(path)
    count = f"{len(paths)} set{'s' * (len(paths) != 1)} of results"
    text = readable("\n".join(wrong or [f"whole, every file as it was measured: {count}"]))
    tell(args, {"looked_at": [str(path) for path in paths], "wrong": wrong}, lambda: text)
    return 1 if wrong else 0


def _wrong(path: Path) -> list[str]:
    from labkit.errors import LabkitError
    from labkit.results import Results
    from labkit.runs import bundle, integrity

    try:
        results = Results.open(path if path.is_dir() else bundle.open_bundle(path))
    except LabkitError as error:
        return [str(error)]
    runs, unreadable = results.readable()
    halves = sorted((results.path / "runs").glob(".*.half"))
    gaps = [f"{a}" if a == b else f"{a} to {b}" for a, b in results.gaps()]
    return [
        *unreadable.values(),
        *(f"{results.path / 'runs'}: what was measured as number {gap} is gone" for gap in gaps),
        *dict.fromkeys(line for run in runs for line in run.check() or run.strange()),
        *integrity.copies(runs),
        *(f"{half}: was being written when its writer ended; it is not a run" for half in halves),
    ]


@RESULTS.verb(
    "data/recorded/lat_ping.labkit lat_ping | from the recorded to the newest",
    arg("old", "OLD", WHICH),
    arg("new", "NEW", "results to compare with these, given like OLD"), JSON,
)  # fmt: skip
def _diff(args: argparse.Namespace) -> None:
    """Show how results, settings and facts differ."""
    from labkit.pages.old_and_new import old_and_new

    (old, old_run), (new, new_run) = _open(args.old), _open(args.new)
    if (old_run is None) != (new_run is None):
        raise BadInput("one is a run and the other is not", hint="name two runs, or none")
    sides = old_and_new(old, new, (old_run, new_run) if old_run and new_run else None)
    facts = sides.difference.facts
    end = _side_by_side(facts) if facts else "No known difference between them."
    tell(args, sides.told(), lambda: f"{sides.text()}\n\n{end}")


# Two columns where there is room for them, else one below the other.
def _side_by_side(facts: Sequence[Fact]) -> str:
    from labkit.pages import tables, terminal

    widest = max(len(f.what) for f in facts) + max(len(f.old) for f in facts)
    if widest < shutil.get_terminal_size().columns - 28:
        return tables.table([asdict(f) for f in facts], ("what", "old", "new")).text()
    lines = [line for f in facts for line in (f.what, f"    old: {f.old}", f"    new: {f.new}")]
    return "\n".join(terminal.paragraph(readable(line)) for line in lines)


@RESULTS.verb(
    "lat_ping -o mine.labkit | the newest of this study",
    "lat_ping -o mine.csv | its figures as a table",
    "lat_ping --small -o data/recorded/lat_ping.labkit | to come with labkit",
    arg("what", "RESULTS", WHICH),
    arg("-o --output", "FILE", type=Path,
        text="output file (default: named after the results); .csv for a table of figures"),
    flag("--small", "make a smaller file, slower to write and to open"), JSON,
)  # fmt: skip
def _export(args: argparse.Namespace) -> None:
    """Write results to one file that opens anywhere."""
    from labkit.claims import published
    from labkit.runs import bundle

    results = _open(args.what)[0]
    file = args.output or Path(f"{results.study}-{results.path.name}{bundle.SUFFIX}")
    if file.suffix == ".csv":
        _csv(args, results.frame(), file)
        return
    document = {}
    if results.judged_as in published.names():
        paper = published.published(results.judged_as)
        document = {"name": paper.document, "url": paper.url}
    with busy(f"checking and writing {results.path}"):
        export = bundle.export(results, file, args.small, document)
    text = f"{file}: {len(export.files)} files, sha256 {export.digest}"
    tell(args, {**asdict(export), "path": str(file)}, lambda: text)


def _csv(args: argparse.Namespace, frame: pl.DataFrame, file: Path) -> None:
    from labkit.charts.export import save_csv

    save_csv(frame, file)
    row = {"path": str(file), "rows": frame.height, "columns": frame.columns}
    tell(args, row, lambda: f"{file}: {frame.height} rows")


@RESULTS.verb(
    "'select condition, metric, p99 from rows join runs on runs.id = run'",
    arg("sql", "SELECT", "a SELECT in SQLite's SQL; changes nothing"), FOLDERS,
    arg("--csv", "FILE", "write the rows to a CSV file", type=Path), JSON,
)  # fmt: skip
def _query(args: argparse.Namespace) -> None:
    """Ask all runs with SQL: tables results, runs, rows."""
    from labkit.pages import tables
    from labkit.runs.index import open_store

    with busy("reading what is new"):
        store = open_store(*args.folders)
        rows = store.query(args.sql)
    if args.csv:
        _csv(args, store.frame(args.sql), args.csv)
    else:
        tell(args, rows, lambda: tables.table(rows).text() if rows else "no rows")


@RESULTS.verb(
    "lat_ping --since 2026-01-01 | all sessions since that day",
    "lat_ping /mnt/ci --since monday | since the session of this label",
    "lat_ping --chart trend.svg | dates, noise and changes as a picture",
    arg("study", "STUDY", "a name that `labkit studies` lists"),
    FOLDERS,
    arg("--since", "WHEN", "a day, a time, or the label of a session"),
    arg("--lab", "NAME", "only this lab (default: that of the newest)"),
    arg("--chart", "FILE", "draw it too: .svg, .png, .html or .csv", type=Path), JSON,
)  # fmt: skip
def _trend(args: argparse.Namespace) -> int:
    """Find changes between sessions; exit code 1 if there are any."""
    from labkit.running.trend import trend

    with busy("judging all sessions"):
        trail = trend(args.study.replace("-", "_"), args.folders, since=args.since, lab=args.lab)
    if args.chart:
        from labkit.charts import save
        from labkit.charts.sessions import over_sessions

        save(over_sessions(trail), args.chart)
    tell(args, asdict(trail), lambda: _describe(trail))
    return int(bool(trail.changes))


def _describe(trail: Trends) -> str:
    from labkit.pages import tables

    first, last = trail.sessions[0], trail.sessions[-1]
    text = (
        f"{len(trail.sessions)} sessions of {trail.study} on {trail.lab}, {first.started[:10]} to "
        f"{last.started[:10]}, {len(trail.series)} series"
    )
    rows = tuple(
        (change.series, f"drift since {change.session}" if change.drift else change.session,
         change.started[:16], f"{change.before:.4g}", f"{change.after:.4g}", f"{change.p:.2g}")
        for change in trail.changes
    )  # fmt: skip
    head = ("what", "changed with", "at", "before", "after", "p")
    risk = f"All {len(trail.series)} series share one risk of 5 % (Holm)."
    found = tables.Table(head, rows, risk).text() if rows else f"Nothing has changed. {risk}"
    left_out = (f"left out: {reason}" for reason in trail.left_out)
    return "\n".join([readable(text), found, *map(readable, left_out)])


def _open(name: str) -> tuple[Results, Run | None]:
    from labkit.results import Run
    from labkit.running.open_lab import named_results

    results, path = named_results(name), Path(os.path.expanduser(name)).resolve()
    is_run = path.parent.name == "runs" and (path / "run.json").is_file()
    return results, Run.read(path) if is_run else None


RESULTS.verbs.append(_import)
