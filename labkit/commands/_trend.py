"""`labkit results trend`: where the figures of a study have changed from session to session."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labkit.commands._verb import busy, print_json, verb


def add_trend(inner: Any) -> None:
    """Add it below `labkit results`."""
    one = verb(
        inner, "trend", _trend, "find changes between sessions; exit code 1 if there are any",
        "lat_ping --since 2026-01-01 | all sessions since that day",
        "lat_ping /mnt/ci --since monday | since the session of this label",
    )  # fmt: skip
    one.add_argument("study", metavar="STUDY", help="a name that `labkit studies` lists")
    one.add_argument(
        "folders", nargs="*", type=Path, metavar="FOLDER",
        help="folders to search instead of this machine's results",
    )  # fmt: skip
    one.add_argument(
        "--since", default="", metavar="WHEN", help="a day, a time, or the label of a session"
    )
    one.add_argument(
        "--lab", default="", metavar="NAME", help="only this lab (default: that of the newest)"
    )


def _trend(asked: argparse.Namespace) -> int:
    from labkit.errors import readable
    from labkit.pages import tables
    from labkit.running.trend import trend

    with busy("judging all sessions"):
        found = trend(
            asked.study.replace("-", "_"), asked.folders, since=asked.since, lab=asked.lab
        )
    if asked.json:
        print_json(asdict(found))
        return int(bool(found.changes))
    first, last = found.sessions[0], found.sessions[-1]
    print(readable(
        f"{len(found.sessions)} sessions of {found.study} on {found.lab}, {first.started[:10]} to "
        f"{last.started[:10]}, {len(found.series)} series"
    ))  # fmt: skip
    rows = tuple(
        (change.series, f"drift since {change.session}" if change.drift else change.session,
         change.started[:16], f"{change.before:.4g}", f"{change.after:.4g}", f"{change.p:.2g}")
        for change in found.changes
    )  # fmt: skip
    head = ("what", "changed with", "at", "before", "after", "p")
    risk = f"All {len(found.series)} series share one risk of 5 % (Holm)."
    print(tables.Table(head, rows, risk).text() if rows else f"Nothing has changed. {risk}")
    print(readable("\n".join(f"left out: {why}" for why in found.left_out)), end="")
    return int(bool(found.changes))
