"""`labkit settings`: what can be changed, and on a host: what it supports, and its values now."""

from __future__ import annotations

import argparse
import inspect
import sys
from typing import TYPE_CHECKING, Any

from labkit.commands._lab import lab, one_there
from labkit.commands._verb import JSON, arg, busy, tell, verb
from labkit.errors import BadInput
from labkit.pages.terminal import table

if TYPE_CHECKING:
    from labkit.host import Host


@verb(
    " | all settings", "server | settings and values of the box's server",
    "server --lab lab.toml | the same for your own host",
    arg("host", "HOST", "a role of the lab: [hosts.ROLE]", nargs="?"), lab(), JSON,
)  # fmt: skip
def _settings(args: argparse.Namespace) -> int:
    """List settings; with a host, list those it supports."""
    from labkit.settings import errors, kinds_of_setting

    if not args.host and args.lab != "box":
        problem = f"no host of {args.lab} is named"
        raise BadInput(problem, hint="name one of its roles: labkit settings server --lab FILE")
    if not args.host:
        rows = [
            {"name": kind.__name__, "what": (inspect.getdoc(kind) or "").split("\n")[0]}
            for kind in kinds_of_setting()
        ]
    else:
        host = one_there(args, args.host)
        with busy(f"asking {args.host}"):
            rows = _on(host)
    head = ["setting", "now, and what it can be" if args.host else "what it is"]
    tell(args, rows, lambda: table([line for row in rows for line in _lines(row)], head))
    for odd in (faults := errors()):
        print(f"labkit: {odd}", file=sys.stderr)
    return int(bool(faults))


def _on(host: Host) -> list[dict[str, Any]]:
    from labkit.changes.plan import plan
    from labkit.settings import kinds_of_setting, needs_words

    rows: list[dict[str, Any]] = []
    for kind in kinds_of_setting():
        if words := needs_words(kind):
            step = {"why": f"asks for {', '.join(words)}", "state": "not asked"}
        else:
            setting = kind()
            (step,) = plan([setting], {setting.role: host}).told()["steps"]
        facts = ("current", "why", "legal", "state", "kind")
        rows.append({"name": kind.__name__, **{key: step.get(key, "") for key in facts}})
    return rows


# One fact a line, so that the widest of them wraps.
def _lines(row: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [str(row[key]) for key in ("what", "current", "why") if row.get(key)]
    facts += [f"legal: {row['legal']}"] if row.get("legal") else []
    return [(row["name"] if not n else "", fact) for n, fact in enumerate(facts or [""])]
