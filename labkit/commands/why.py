"""`labkit why`: what kernels do while the slowest requests are slow."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from labkit.commands._lab import lab, open_lab
from labkit.commands._verb import JSON, arg, at_least_one, busy, tell, verb
from labkit.machine.units import figure, shown
from labkit.pages.terminal import table

if TYPE_CHECKING:
    from labkit.running.why import SlowRequests


@verb(
    "--lab lab.toml | ping for five seconds, and print a table",
    "--lab lab.toml --chart why.html | also draw one time line",
    arg("--count", "N", "number of requests (5000)", type=at_least_one, default=5000),
    arg("--chart", "FILE", "draw into .html, .svg, .png or .json"),
    lab("the lab in a box, started if needed"), JSON,
)  # fmt: skip
def _why(args: argparse.Namespace) -> None:
    """Show what kernels do while the slowest requests are slow.

    Ping the server of a lab each millisecond, and note every 10 ms what the kernels of client and
    server do: CPU time, soft interrupts, stolen time, interrupts, switches, tasks that run or wait.
    Each figure is shown while the slowest 1 % were under way, and for all other time. What is
    larger then may be the cause; only a change of it can prove that.
    """
    from labkit.running import why
    from labkit.workloads.ping import Ping

    lab, load = open_lab(args), Ping(count=args.count)
    with busy(f"pinging {lab.host('server').name} for {load.seconds:.0f} s"):
        requests = why.SlowRequests.of(*why.watch(lab, load))
    if args.chart:
        from labkit.charts.export import save
        from labkit.charts.why import time_line

        save(time_line(requests, note=lab.name), args.chart)
    text = rendered(requests) + (f"\n\nwrote {args.chart}" if args.chart else "")
    tell(args, {"limit_us": requests.limit, "rows": requests.rows()}, lambda: text)


def rendered(requests: SlowRequests) -> str:
    """The table, under a line that says which requests are slow."""
    rows = [
        (row["hosts"], row["figure"], figure(row["slow"]), figure(row["otherwise"]),
         shown(row["unit"]) if row["unit"] != "1" else "")
        for row in requests.rows()
    ]  # fmt: skip
    slow = int((requests.took > requests.limit).sum())
    head = f"{slow} of {len(requests.took)} requests took more than {figure(requests.limit)} µs.\n"
    return f"{head}\n{table(rows, ('host', 'figure', 'while slow', 'otherwise', 'unit'))}"
