"""`labkit settings`: what can be changed, and on a host: what it supports, and its values now."""

from __future__ import annotations

import argparse
import inspect
import sys
from typing import TYPE_CHECKING, Any

from labkit.commands._lab import lab_flag, one_there
from labkit.commands._verb import busy, json_flag, print_json, verb

if TYPE_CHECKING:
    from labkit.host import Host
    from labkit.setting import Setting


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "settings", _settings, "list settings; with a host, list those it supports",
        " | all settings",
        "server | settings and values of the box's server",
        "server --lab lab.toml | the same for your own host",
    )  # fmt: skip
    parser.add_argument("host", metavar="HOST", nargs="?", help="a role of the lab: [hosts.ROLE]")
    lab_flag(parser)
    json_flag(parser)


def _settings(args: argparse.Namespace) -> int:
    from labkit.pages.terminal import table
    from labkit.settings import errors, kinds_of_setting

    if not args.host:
        rows = [{"name": kind.__name__, "what": _first_line(kind)} for kind in kinds_of_setting()]
    else:
        host = one_there(args, args.host)
        with busy(f"asking {args.host}"):
            rows = _on(host)
    if args.json:
        print_json(rows)
    else:
        head = ["setting", "now, and what it can be" if args.host else "what it is"]
        print(table([line for row in rows for line in _lines(row)], head))
    for odd in (faults := errors()):
        print(f"labkit: {odd}", file=sys.stderr)
    return int(bool(faults))


def _on(host: Host) -> list[dict[str, Any]]:
    from labkit.changes.plan import plan
    from labkit.settings import kinds_of_setting, needs_words

    rows: list[dict[str, Any]] = []
    for kind in kinds_of_setting():
        if words := needs_words(kind):
            rows.append(_row(kind, {"why": f"asks for {', '.join(words)}", "state": "not asked"}))
            continue
        setting = kind()
        (step,) = plan([setting], {setting.role: host}).told()["steps"]
        rows.append(_row(kind, step))
    return rows


def _row(kind: type[Setting], step: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": kind.__name__, "current": step.get("current", ""), "why": step["why"],
        "legal": step.get("legal", ""), "state": step["state"], "kind": step.get("kind", ""),
    }  # fmt: skip


# One fact a line, so that the widest of them wraps.
def _lines(row: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [str(row[key]) for key in ("what", "current", "why") if row.get(key)]
    facts += [f"legal: {row['legal']}"] if row.get("legal") else []
    return [(row["name"] if not n else "", fact) for n, fact in enumerate(facts or [""])]


def _first_line(kind: type[Setting]) -> str:
    return (inspect.getdoc(kind) or "").split("\n")[0]
