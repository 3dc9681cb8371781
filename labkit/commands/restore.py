"""`labkit restore`: put back whatever is not put back on hosts, no matter who changed it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labkit.commands._lab import chosen, lab_flag, looked_at
from labkit.commands._verb import busy, json_flag, print_json, verb
from labkit.errors import LabkitError, Unreachable

if TYPE_CHECKING:
    from labkit.host import Host


def add(verbs: Any) -> None:
    """Add the verb."""
    text = "put back labkit's changes on hosts, also after a crash; changes by others stay"
    parser = verb(
        verbs, "restore", _restore, text,
        "--all | every host of the boxes that are up",
        "server --lab lab.toml | one host of your own",
    )  # fmt: skip
    parser.add_argument("hosts", metavar="HOST", nargs="*", help="roles of the lab: [hosts.ROLE]")
    parser.add_argument(
        "--all",
        action="store_true",
        help="all hosts of the lab, or of the boxes that are up",
    )
    parser.add_argument(
        "--break", dest="breaking", action="store_true",
        help="restore even if somebody is at work; their further writes are refused",
    )  # fmt: skip
    parser.add_argument(
        "--forget",
        action="store_true",
        help="close the journal even if something cannot be put back",
    )
    lab_flag(parser)
    json_flag(parser)


def _restore(args: argparse.Namespace) -> int:
    hosts = chosen(args, args.hosts, all_hosts=args.all)
    outcomes: dict[str, Any] = {}
    # A guest cannot be reached while its host has it stopped: it has its turn again after the rest.
    for second_turn in (False, True):
        outcomes |= _restore_all(
            {n: h for n, h in hosts.items() if not second_turn or outcomes[n].get("again")}, args
        )
    if args.json:
        print_json(outcomes)
    else:
        for name, outcome in outcomes.items():
            print(
                "\n".join(f"{name}: {line}" for line in outcome["lines"] or ["nothing to put back"])
            )
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
