"""`labkit journal`: what labkit has changed on a host, as the host itself has written it down."""

import argparse

from labkit.commands._lab import lab, one_there
from labkit.commands._verb import JSON, arg, at_least_one, busy, tell, verb


@verb(
    "server --lab lab.toml | the last five change sets of [hosts.server]",
    arg("host", "HOST", "a role of the lab: [hosts.ROLE]"),
    arg("--sets", "N", "number of change sets (default: 5)", type=at_least_one, default=5),
    lab(), JSON,
)  # fmt: skip
def _journal(args: argparse.Namespace) -> None:
    """List changes on a host, who made them, and whether they are put back."""
    from labkit.changes.journal import history, lines_of

    host = one_there(args, args.host)
    with busy(f"asking {host.name}"):
        chapters = history(host, args.sets)
    document = [
        {"set": chapter.name, "damage": chapter.damage,
         "frames": [[frame.kind, *frame.fields] for frame in chapter.frames]}
        for chapter in chapters
    ]  # fmt: skip
    lines = [line for chapter in chapters for line in lines_of(chapter)]
    nothing = f"{host.name}: labkit has changed nothing here"
    tell(args, document, lambda: "\n".join(lines) or nothing)
