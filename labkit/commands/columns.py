"""`labkit columns`: what a file of esxtop or perfmon counts, as a list, a table and a picture."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._verb import busy, json_flag, print_json, verb
from labkit.errors import BadInput, readable
from labkit.machine.units import figure

if TYPE_CHECKING:
    from labkit.telemetry.counters import Columns


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "columns", _columns, "list and draw the counters of an esxtop file",
        "esxtop.csv | every counter, one line each",
        "esxtop.csv '% Ready' | mean and range of these counters",
        "esxtop.csv 'Group Cpu*web*% Ready' --chart ready.html | draw them over time",
        "esxtop.csv '% Ready' --csv ready.csv | time and these counters as a table",
    )  # fmt: skip
    text = "the CSV of `esxtop -b`, perfmon or typeperf"
    parser.add_argument("file", type=Path, metavar="FILE", help=text)
    parser.add_argument(
        "patterns", nargs="*", metavar="PATTERN",
        help="part of a counter's name; * and ? stand for any text and any letter",
    )  # fmt: skip
    text = "draw the counters over time: .html, .svg or .png"
    parser.add_argument("--chart", type=Path, metavar="FILE", help=text)
    text = "write time and counters to a CSV file"
    parser.add_argument("--csv", type=Path, metavar="FILE", help=text)
    json_flag(parser)


def _columns(args: argparse.Namespace) -> None:
    from labkit.telemetry.counters import counters, read
    from labkit.telemetry.matching import matching

    names = counters(args.file)
    if not args.patterns:
        if args.chart or args.csv:
            raise BadInput("which counters?", hint=f"name one, such as {_last(names[0])!r}")
        print_json(list(names)) if args.json else print(*map(readable, names), sep="\n")
        return
    matches = matching(names, args.patterns)
    alone = [name for name in matches if names.count(name) == 1]
    if not alone:
        raise BadInput(f"{args.file}: several counters have the name {matches[0]!r}")
    with busy(f"reading {args.file}"):
        columns = read(args.file, alone)
    files = _write(args, columns)
    _print(args, columns, files, len(matches) - len(alone))


def _write(args: argparse.Namespace, columns: Columns) -> list[Path]:
    from labkit.charts.counters import counters_over_time
    from labkit.charts.export import save, save_csv

    files = []
    if args.chart:
        files.append(save(counters_over_time(columns, title=args.file.name), args.chart))
    if args.csv:
        files.append(save_csv(columns.frame(), args.csv))
    return files


def _print(args: argparse.Namespace, part: Columns, files: list[Path], number: int) -> None:
    from labkit.pages import tables

    rows = [_summary(name, part[name]) for name in part.names]
    times = [str(part.times[n].astype("datetime64[s]")).replace("T", " ") for n in (0, -1)]
    if args.json:
        print_json({"from": times[0], "to": times[1], "moments": part.times.size, "counters": rows,
                    "left_out": part.cut, "files": [str(file) for file in files]})  # fmt: skip
        return
    table = [{k: figure(v) if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    print(tables.table(table, ("counter", "mean", "least", "most", "values")).text())
    print(f"{part.times.size} moments, from {times[0]} to {times[1]}")
    if number:
        print(f"left out: {number} counters that share their name with another")
    if part.cut:
        print(readable(f"left out: {part.cut}"))
    print(*(f"wrote {file}" for file in files), sep="\n", end="\n" if files else "")


def _summary(name: str, values: Any) -> dict[str, Any]:
    import numpy as np

    finite = values[np.isfinite(values)]
    if not finite.size:
        return {"counter": name, "mean": None, "least": None, "most": None, "values": 0}
    row = {"mean": finite.mean(), "least": finite.min(), "most": finite.max()}
    plain = {key: float(value) for key, value in row.items()}
    return {"counter": name, **plain, "values": int(finite.size)}


def _last(name: str) -> str:
    return name.rpartition("\\")[2]
