"""`labkit results trend`: where the figures of a study have changed from session to session."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labkit.commands._verb import busy, print_json, verb


def add_trend(inner: Any) -> None:
    """Add it below `labkit results`."""
    parser = verb(
        inner, "trend", _trend, "find changes between sessions; exit code 1 if there are any",
        "lat_ping --since 2026-01-01 | all sessions since that day",
        "lat_ping /mnt/ci --since monday | since the session of this label",
        "lat_ping --chart trend.svg | dates, noise and changes as a picture",
    )  # fmt: skip
    parser.add_argument("study", metavar="STUDY", help="a name that `labkit studies` lists")
    parser.add_argument(
        "folders", nargs="*", type=Path, metavar="FOLDER",
        help="folders to search instead of this machine's results",
    )  # fmt: skip
    parser.add_argument(
        "--since", default="", metavar="WHEN", help="a day, a time, or the label of a session"
    )
    parser.add_argument(
        "--lab", default="", metavar="NAME", help="only this lab (default: that of the newest)"
    )
    parser.add_argument(
        "--chart", type=Path, metavar="FILE", help="draw it too: .svg, .png, .html or .csv"
    )


def _trend(args: argparse.Namespace) -> int:
    from labkit.errors import readable
    from labkit.pages import tables
    from labkit.running.trend import trend

    with busy("judging all sessions"):
        trail = trend(args.study.replace("-", "_"), args.folders, since=args.since, lab=args.lab)
    if args.chart:
        from labkit.charts import save
        from labkit.charts.sessions import over_sessions

        save(over_sessions(trail), args.chart)
    if args.json:
        print_json(asdict(trail))
        return int(bool(trail.changes))
    first, last = trail.sessions[0], trail.sessions[-1]
    print(readable(
        f"{len(trail.sessions)} sessions of {trail.study} on {trail.lab}, {first.started[:10]} to "
        f"{last.started[:10]}, {len(trail.series)} series"
    ))  # fmt: skip
    rows = tuple(
        (change.series, f"drift since {change.session}" if change.drift else change.session,
         change.started[:16], f"{change.before:.4g}", f"{change.after:.4g}", f"{change.p:.2g}")
        for change in trail.changes
    )  # fmt: skip
    head = ("what", "changed with", "at", "before", "after", "p")
    risk = f"All {len(trail.series)} series share one risk of 5 % (Holm)."
    print(tables.Table(head, rows, risk).text() if rows else f"Nothing has changed. {risk}")
    print(readable("\n".join(f"left out: {reason}" for reason in trail.left_out)), end="")
    return int(bool(trail.changes))
