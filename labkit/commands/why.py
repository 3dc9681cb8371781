"""`labkit why`: what kernels do while the slowest requests are slow."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from labkit.commands._lab import lab_flag, open_lab
from labkit.commands._verb import at_least_one, busy, json_flag, print_json, verb

if TYPE_CHECKING:
    from labkit.running.why import SlowRequests

TEXT = """\
Ping the server of a lab each millisecond, and note every 10 ms what the kernels of client and
server do: CPU time, soft interrupts, stolen time, interrupts, switches, tasks that run or wait.
Each figure is shown while the slowest 1 % were under way, and for all other time. What is larger
then may be the cause; only a change of it can prove that.
"""


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "why", _explain, "show what kernels do while the slowest requests are slow",
        "--lab lab.toml | ping for five seconds, and print a table",
        "--lab lab.toml --chart why.html | also draw one time line",
    )  # fmt: skip
    parser.description = TEXT
    parser.add_argument(
        "--count", type=at_least_one, default=5000, metavar="N", help="number of requests (5000)"
    )
    parser.add_argument(
        "--chart", default="", metavar="FILE", help="draw into .html, .svg, .png or .json"
    )
    lab_flag(parser, box="the lab in a box, started if needed")
    json_flag(parser)


def _explain(args: argparse.Namespace) -> None:
    from labkit.running import why
    from labkit.workloads.ping import Ping

    lab, load = open_lab(args), Ping(count=args.count)
    with busy(f"pinging {lab.host('server').name} for {load.seconds:.0f} s"):
        requests = why.SlowRequests.of(*why.watch(lab, load))
    if args.chart:
        from labkit.charts.export import save
        from labkit.charts.why import time_line

        save(time_line(requests, note=lab.name), args.chart)
    if args.json:
        print_json({"limit_us": requests.limit, "rows": requests.rows()})
    else:
        print(rendered(requests))
        print(*([f"\nwrote {args.chart}"] if args.chart else []), sep="")


def rendered(requests: SlowRequests) -> str:
    """The table, under a line that says which requests are slow."""
    from labkit.machine.units import figure, shown
    from labkit.pages.terminal import table

    rows = [
        (row["hosts"], row["figure"], figure(row["slow"]), figure(row["otherwise"]),
         shown(row["unit"]) if row["unit"] != "1" else "")
        for row in requests.rows()
    ]  # fmt: skip
    slow = int((requests.took > requests.limit).sum())
    head = f"{slow} of {len(requests.took)} requests took more than {figure(requests.limit)} µs.\n"
    return f"{head}\n{table(rows, ('host', 'figure', 'while slow', 'otherwise', 'unit'))}"
