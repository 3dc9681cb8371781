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

from labkit.commands._importing import add_import
from labkit.commands._trend import add_trend
from labkit.commands._verb import busy, json_flag, print_json, verb
from labkit.errors import BadInput, readable
from labkit.machine.units import shown

if TYPE_CHECKING:
    import polars as pl

    from labkit.results import Results, Run
    from labkit.running.compared import Fact

LISTING = """
select results.path, study, label, lab, tier, damaged, count(runs.id) as runs,
  count(*) filter (where state = 'finished') as finished,
  count(*) filter (where state not in ('finished', 'damaged')) as not_used,
  count(*) filter (where state = 'damaged') as broken, min(nullif(started, '')) as started
from results left join runs on runs.results = results.id
where (?1 = '' or study = ?1) group by results.id order by started, results.path
"""

RESULTS = "a folder of results, one of its runs, a bundle, or a study (its newest)"
FOLDERS_HELP = "folders to search instead of this machine's results"


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "results", _list, "list, show, verify, compare and move results",
        "list | all results, one line each", "show lat_ping | its settings and figures",
        "verify | every file against its checksum", "export lat_ping -o mine.labkit",
    )  # fmt: skip
    inner = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_looking(inner)
    _add_moving(inner)
    add_trend(inner)
    for choice in inner.choices.values():
        json_flag(choice)


def _add_looking(inner: Any) -> None:
    parser = verb(
        inner, "list", _list, "list all results, one line each",
        "--study lat_ping | results of one study", "/mnt/shared | results below this folder",
    )  # fmt: skip
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help=FOLDERS_HELP)
    parser.add_argument("--study", default="", metavar="STUDY", help="list only this study")
    parser = verb(
        inner, "show", _show, "show the settings and figures of results",
        "lat_ping | the newest of this study",
        "data/recorded/lat_ping.labkit | what comes with labkit",
    )  # fmt: skip
    parser.add_argument("what", metavar="RESULTS", help=RESULTS)
    text = "check every file against its checksum; exit code 1 if one differs"
    parser = verb(
        inner, "verify", _verify, text,
        " | all results", "lat_ping | the newest of this study",
    )  # fmt: skip
    parser.add_argument("what", metavar="RESULTS", nargs="*", help=f"{RESULTS}; without it, all")
    parser = verb(
        inner, "diff", _diff, "show how results, settings and facts differ",
        "data/recorded/lat_ping.labkit lat_ping | from the recorded to the newest",
    )  # fmt: skip
    parser.add_argument("old", metavar="OLD", help=RESULTS)
    parser.add_argument("new", metavar="NEW", help="results to compare with these, given like OLD")
    parser = verb(
        inner, "query", _query, "ask all runs with SQL: tables results, runs, rows",
        "'select condition, metric, p99 from rows join runs on runs.id = run'",
    )  # fmt: skip
    parser.add_argument("sql", metavar="SELECT", help="a SELECT in SQLite's SQL; changes nothing")
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help=FOLDERS_HELP)
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the rows to a CSV file")


def _add_moving(inner: Any) -> None:
    parser = verb(
        inner, "export", _export, "write results to one file that opens anywhere",
        "lat_ping -o mine.labkit | the newest of this study",
        "lat_ping -o mine.csv | its figures as a table",
        "lat_ping --small -o data/recorded/lat_ping.labkit | to come with labkit",
    )  # fmt: skip
    parser.add_argument("what", metavar="RESULTS", help=RESULTS)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="output file (default: named after the results); .csv for a table of figures",
    )
    parser.add_argument(
        "--small", action="store_true", help="make a smaller file, slower to write and to open"
    )
    add_import(inner)


def _list(args: argparse.Namespace) -> None:
    from labkit.pages import tables
    from labkit.pages.terminal import paragraph
    from labkit.runs.index import open_store

    with busy("reading what is new"):
        rows_found = open_store(*args.folders).query(LISTING, [args.study.replace("-", "_")])
    if args.json:
        print_json(rows_found)
        return
    rows = [
        (r["study"] or "?", r["lab"] or "?", f"{r['finished']:.0f} of {r['runs']}",
         (r["started"] or "")[:10],
         _short(r) + (f"  DAMAGED: {r['damaged']}" if r["damaged"] else _count_rest(r)))
        for r in rows_found
    ]  # fmt: skip
    head = ("study", "lab", "finished", "started", "where")
    of = f" of {args.study}" if args.study else ""
    print(tables.Table(head, tuple(rows)).text() if rows else f"There are no results{of} here.")
    if any(_short(r) == f"STUDY/{Path(r['path']).name}" for r in rows_found):
        print(paragraph("STUDY stands for the first column: labkit results show STUDY/..."))


# What lies where results usually lie goes by its study and its name, as `results show` takes it.
def _short(row: dict[str, Any]) -> str:
    from labkit.machine.places import HOME, out

    path = Path(row["path"])
    if path.parent == HOME / "data" / "recorded":
        return "comes with labkit"
    return f"STUDY/{path.name}" if path.parent.parent == out() / "results" else str(path)


def _count_rest(row: dict[str, Any]) -> str:
    kinds = {"failed or not used": row["not_used"], "damaged": row["broken"]}
    texts = [f"{count:.0f} {kind}" for kind, count in kinds.items() if count]
    return f"  ({', '.join(texts)})" if texts else ""


def _show(args: argparse.Namespace) -> None:
    from labkit.pages import tables

    results, run = _open(args.what)
    if args.json:
        print_json(_describe_run(run) if run else _describe(results))
        return
    if run:
        rows_of_run = [_mark(row) for row in run.rows]
        print(
            tables.table(
                _pairs({**_describe_run(run), "rows": rows_of_run}), ("what", "value")
            ).text()
        )
        if "~" in str(rows_of_run):
            print("~ marks a percentile with too few samples beyond it")
        return
    runs, faults = results.readable()
    facts = {k: v for k, v in results.asked.items() if k != "format"}
    print(tables.table(_pairs(facts), ("what", "value")).text(), end="\n\n")
    rows = [(r.path.name, r.state, _figures(r), r.why) for r in runs]
    rows += [(name, "damaged", "", fault) for name, fault in faults.items()]
    print(tables.Table(("run", "state", "found", "why"), tuple(rows)).text())


def _mark(row: Mapping[str, Any]) -> dict[str, Any]:
    lacking = {name for name in row if _lacks(name, row.get("n"))}
    return {name: f"~{value}" if name in lacking else value for name, value in row.items()}


def _lacks(name: str, samples: Any) -> bool:
    from labkit.statistics.pooled import BEYOND, beyond

    figure = re.fullmatch(r"p(\d\d?(?:\.\d+)?)", name)
    if not figure or not isinstance(samples, int) or samples < 1:
        return False
    return beyond(float(figure[1]), samples) < BEYOND


def _figures(run: Run) -> str:
    first = [
        f"{row.get('metric')}: {row.get('p50')} {shown(str(row.get('unit')))}".rstrip()
        for row in run.rows[:2]
    ]
    return ", ".join(first) + (f", and {len(run.rows) - 2} more" if len(run.rows) > 2 else "")


def _describe(results: Results) -> dict[str, Any]:
    runs, faults = results.readable()
    return {"path": str(results.path), "asked": dict(results.asked),
            "runs": [_describe_run(run) for run in runs], "damaged": faults}  # fmt: skip


def _describe_run(run: Run) -> dict[str, Any]:
    return {**asdict(run), "path": str(run.path)}


def _pairs(tree: Any, above: str = "") -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            rows += _pairs(value, f"{above}{key}: ")
        elif value not in ("", {}, (), []):
            rows.append({"what": f"{above}{key}", "value": _plain(value)})
    return rows


# Words one after another, without Python's brackets.
def _plain(value: Any) -> object:
    if isinstance(value, dict):
        return " ".join(f"{key}={_plain(part)}" for key, part in value.items())
    return (
        ", ".join(str(_plain(part)) for part in value) if isinstance(value, list | tuple) else value
    )


def _verify(args: argparse.Namespace) -> int:
    from labkit.runs.index import found, places

    wrong: list[str] = []
    paths = [_open(name)[0].path for name in args.what] or list(found(places()))
    for path in paths:
        with busy(f"checking {path}"):
            wrong += _wrong(path)
    if args.json:
        print_json({"looked_at": [str(path) for path in paths], "wrong": wrong})
    else:
        count = f"{len(paths)} set{'s' * (len(paths) != 1)} of results"
        text = f"whole, every file as it was measured: {count}"
        print(readable("\n".join(wrong or [text])))
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


def _diff(args: argparse.Namespace) -> None:
    from labkit.pages.old_and_new import old_and_new

    (old, old_run), (new, new_run) = _open(args.old), _open(args.new)
    if (old_run is None) != (new_run is None):
        raise BadInput("one is a run and the other is not", hint="name two runs, or none")
    sides = old_and_new(old, new, (old_run, new_run) if old_run and new_run else None)
    if args.json:
        print_json(sides.told())
        return
    print(sides.text(), end="\n\n")
    facts = sides.difference.facts
    print(_side_by_side(facts) if facts else "No known difference between them.")


# Two columns where there is room for them, else one below the other.
def _side_by_side(facts: Sequence[Fact]) -> str:
    from labkit.pages import tables, terminal

    widest = max(len(f.what) for f in facts) + max(len(f.old) for f in facts)
    if widest < shutil.get_terminal_size().columns - 28:
        return tables.table([asdict(f) for f in facts], ("what", "old", "new")).text()
    lines = [line for f in facts for line in (f.what, f"    old: {f.old}", f"    new: {f.new}")]
    return "\n".join(terminal.paragraph(readable(line)) for line in lines)


def _export(args: argparse.Namespace) -> None:
    from labkit.runs import bundle

    results = _open(args.what)[0]
    file = args.output or Path(f"{results.study}-{results.path.name}{bundle.SUFFIX}")
    if file.suffix == ".csv":
        _csv(results.frame(), file, args.json)
        return
    with busy(f"checking and writing {results.path}"):
        export = bundle.export(results, file, args.small, _document(results))
    if args.json:
        print_json({**asdict(export), "path": str(file)})
    else:
        print(f"{file}: {len(export.files)} files, sha256 {export.digest}")


def _document(results: Results) -> dict[str, str]:
    from labkit.claims import published

    if results.judged_as not in published.names():
        return {}
    paper = published.published(results.judged_as)
    return {"name": paper.document, "url": paper.url}


def _csv(frame: pl.DataFrame, file: Path, as_json: bool) -> None:
    from labkit.charts.export import save_csv

    save_csv(frame, file)
    row = {"path": str(file), "rows": frame.height, "columns": frame.columns}
    print_json(row) if as_json else print(f"{file}: {frame.height} rows")


def _query(args: argparse.Namespace) -> None:
    from labkit.pages import tables
    from labkit.runs.index import open_store

    with busy("reading what is new"):
        store = open_store(*args.folders)
        rows = store.query(args.sql)
    if args.csv:
        _csv(store.frame(args.sql), args.csv, args.json)
    elif args.json:
        print_json(rows)
    else:
        print(tables.table(rows).text() if rows else "no rows")


def _open(name: str) -> tuple[Results, Run | None]:
    from labkit.results import Run
    from labkit.running.open_lab import named_results

    results, path = named_results(name), Path(os.path.expanduser(name)).resolve()
    is_run = path.parent.name == "runs" and (path / "run.json").is_file()
    return results, Run.read(path) if is_run else None
