"""`labkit columns`: what a file of esxtop or perfmon counts, as a list, a table and a picture."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._verb import JSON, arg, busy, print_json, tell, verb
from labkit.errors import BadInput, readable
from labkit.machine.units import figure

if TYPE_CHECKING:
    from labkit.telemetry.counters import Columns


@verb(
    "esxtop.csv | every counter, one line each",
    "esxtop.csv '% Ready' | mean and range of these counters",
    "esxtop.csv 'Group Cpu*web*% Ready' --chart ready.html | draw them over time",
    "esxtop.csv '% Ready' --csv ready.csv | time and these counters as a table",
    arg("file", "FILE", "the CSV of `esxtop -b`, perfmon or typeperf", type=Path),
    arg("patterns", "PATTERN", nargs="*",
        text="part of a counter's name; * and ? stand for any text and any letter"),
    arg("--chart", "FILE", "draw the counters over time: .html, .svg or .png", type=Path),
    arg("--csv", "FILE", "write time and counters to a CSV file", type=Path), JSON,
)  # fmt: skip
def _columns(args: argparse.Namespace) -> None:
    """List and draw the counters of an esxtop file."""
    from labkit.telemetry.counters import counters, read
    from labkit.telemetry.matching import matching

    names = counters(args.file)
    if not args.patterns:
        if args.chart or args.csv:
            one = names[0].rpartition("\\")[2]
            raise BadInput("which counters?", hint=f"name one, such as {one!r}")
        tell(args, list(names), lambda: "\n".join(map(readable, names)))
        return
    matches = matching(names, args.patterns)
    alone = [name for name in matches if names.count(name) == 1]
    if not alone:
        raise BadInput(f"{args.file}: several counters have the name {matches[0]!r}")
    from labkit.charts.export import save, save_csv
    from labkit.charts.over_time import counters_over_time

    with busy(f"reading {args.file}"):
        columns = read(args.file, alone)
    files = []
    if args.chart:
        files.append(save(counters_over_time(columns, title=args.file.name), args.chart))
    if args.csv:
        files.append(save_csv(columns.frame(), args.csv))
    _print(args, columns, files, len(matches) - len(alone))


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
