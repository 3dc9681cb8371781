"""`labkit restore`: put back whatever is not put back on hosts, no matter who changed it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labkit.commands._lab import chosen, lab, looked_at
from labkit.commands._verb import JSON, arg, busy, flag, tell, verb
from labkit.errors import LabkitError, Unreachable

if TYPE_CHECKING:
    from labkit.host import Host


@verb(
    "--all | every host of the boxes that are up",
    "server --lab lab.toml | one host of your own",
    arg("hosts", "HOST", "roles of the lab: [hosts.ROLE]", nargs="*"),
    flag("--all", "all hosts of the lab, or of the boxes that are up"),
    flag("--break", "restore even if somebody is at work; their further writes are refused",
         dest="breaking"),
    flag("--forget", "close the journal even if something cannot be put back"),
    lab(), JSON,
)  # fmt: skip
def _restore(args: argparse.Namespace) -> int:
    """Put back labkit's changes on hosts, also after a crash; changes by others stay."""
    hosts = chosen(args, args.hosts, all_hosts=args.all)
    outcomes: dict[str, Any] = {}
    # A guest cannot be reached while its host has it stopped: it has its turn again after the rest.
    for second_turn in (False, True):
        outcomes |= _restore_all(
            {n: h for n, h in hosts.items() if not second_turn or outcomes[n].get("again")}, args
        )
    lines = [
        f"{name}: {line}" for name, outcome in outcomes.items()
        for line in outcome["lines"] or ["nothing to put back"]
    ]  # fmt: skip
    tell(args, outcomes, lambda: "\n".join(lines))
    if args.all:
        print(looked_at(args, hosts), file=sys.stderr)
    return 0 if all(outcome["ok"] for outcome in outcomes.values()) else 1


def _restore_all(hosts: Mapping[str, Host], args: argparse.Namespace) -> dict[str, Any]:
    from labkit.changes.restore import restore

    outcomes: dict[str, Any] = {}
    for name, host in hosts.items():
        try:
            with busy(f"putting back {name}"):
                report = restore(host, breaking=args.breaking, forgetting=args.forget)
        except LabkitError as error:
            is_silent = isinstance(error, Unreachable)
            outcomes[name] = {"ok": False, "again": is_silent, "lines": [str(error)], "things": []}
        else:
            names = ("set", "thing", "outcome", "now", "original")
            things = [dict(zip(names, answer.fields, strict=False)) for answer in report.answers]
            outcomes[name] = {"ok": report.ok, "lines": report.lines, "things": things}
    return outcomes
