"""`labkit journal`: what labkit has changed on a host, as the host itself has written it down."""

import argparse
from typing import Any

from labkit.commands._lab import lab_flag, one_there
from labkit.commands._verb import at_least_one, busy, json_flag, print_json, verb


def add(verbs: Any) -> None:
    """Add the verb."""
    text = "list changes on a host, who made them, and whether they are put back"
    parser = verb(
        verbs, "journal", _journal, text,
        "server --lab lab.toml | the last five change sets of [hosts.server]",
    )  # fmt: skip
    parser.add_argument("host", metavar="HOST", help="a role of the lab: [hosts.ROLE]")
    parser.add_argument(
        "--sets",
        type=at_least_one,
        default=5,
        metavar="N",
        help="number of change sets (default: 5)",
    )
    lab_flag(parser)
    json_flag(parser)


def _journal(args: argparse.Namespace) -> None:
    from labkit.changes.journal import history, lines_of

    host = one_there(args, args.host)
    with busy(f"asking {host.name}"):
        chapters = history(host, args.sets)
    if args.json:
        content = [(chapter, [[f.kind, *f.fields] for f in chapter.frames]) for chapter in chapters]
        print_json([{"set": o.name, "damage": o.damage, "frames": f} for o, f in content])
        return
    for chapter in chapters:
        print("\n".join(lines_of(chapter)))
    if not chapters:
        print(f"{host.name}: labkit has changed nothing here")
