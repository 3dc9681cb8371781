"""`labkit tune`: what does a named set of settings do for a command?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.commands._lab import lab_for_now, open_lab
from labkit.commands._profile import Profile, find_profile, profiles, read_profile
from labkit.commands._verb import busy, json_flag, label_flag, print_json, verb
from labkit.commands.compare import load_of, measure_and_show, measuring_flags, words_of
from labkit.errors import BadInput

if TYPE_CHECKING:
    from labkit.running.comparing import Side

TEXT = """\
Run a command as the host is and under a profile, in shuffled blocks, until it is decided which
takes less time. A profile is a named set of settings; what a host cannot take is left out and
named. All settings are journaled, and put back at the end.

Without a command, show what the profile would change. Without a profile, list them.
"""


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "tune", _tune, "decide what a profile of settings does for a command",
        " | list the profiles",
        "latency | show what this one would change here",
        "steady -- make test | without it and under it",
        "--once latency -- ./server | run it once under the profile",
        "--lab lab.toml ./mine.toml -- fio job.fio | a profile and a host of your own",
    )  # fmt: skip
    parser.description = TEXT
    parser.add_argument("profile", nargs="?", default="", metavar="PROFILE",
                        help="a name, or a file that ends in .toml")  # fmt: skip
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="-- and a command")
    parser.add_argument("--lab", default="local", metavar="FILE",
                        help="a lab.toml, box, or local: this machine (default)")  # fmt: skip
    parser.add_argument("--on", default="server", metavar="ROLE",
                        help="the host of command and settings (default: server)")  # fmt: skip
    parser.add_argument("--once", action="store_true",
                        help="run it once, under the profile; measure nothing")  # fmt: skip
    measuring_flags(parser)
    label_flag(parser)
    json_flag(parser)


def _tune(args: argparse.Namespace) -> int:
    if not args.profile:
        _list(args.json)
        return 0
    profile = find_profile(args.profile)
    if not args.words:
        _show(args, profile)
    elif args.once:
        return _run_once(args, _side_of(args, profile))
    else:
        _compare(args, profile)
    return 0


def _list(as_json: bool) -> None:
    from labkit.pages.terminal import table

    rows = [_row(file) for file in profiles()]
    if as_json:
        print_json(rows)
    else:
        print(table([(row["name"], row["what"]) for row in rows], ["profile", "what it is for"]))


# One that cannot be read keeps nobody from the others.
def _row(file: Path) -> dict[str, str]:
    try:
        return {"name": file.stem, "what": read_profile(file).what}
    except BadInput as error:
        return {"name": file.stem, "what": str(error)}


def _show(args: argparse.Namespace, profile: Profile) -> None:
    from labkit.changes.plan import plan
    from labkit.commands.plan import rendered

    side = _side_of(args, profile)
    with lab_for_now(args) as lab, busy(f"asking {args.on}"):
        steps = plan([*side.settings, *side.optional], {args.on: lab.host(args.on)})
    print_json(steps.told()) if args.json else print(rendered(profile.what, steps))


def _side_of(args: argparse.Namespace, profile: Profile) -> Side:
    from labkit.running.comparing import Side

    return Side(
        words_of(args.words) if args.words else (), args.on,
        profile.settings("settings", args.on), profile.settings("optional", args.on),
        f"profile {profile.name}",
    )  # fmt: skip


def _compare(args: argparse.Namespace, profile: Profile) -> None:
    from labkit.running.comparing import A, B, Comparing, Side

    side = _side_of(args, profile)
    sides = {A: Side(side.words, side.role), B: side}
    measure_and_show(args, Comparing(sides, load_of(args), args.margin))


# What it prints is shown as it comes, and its exit code is ours.
def _run_once(args: argparse.Namespace, side_asked: Side) -> int:
    from labkit.changes.in_force import applied
    from labkit.running.comparing import fitted

    lab = open_lab(args)
    side = fitted(side_asked, lab)
    streams = {"stdout": sys.stdout, "stderr": sys.stderr}
    print(
        "\n".join([side.shown, *(f"not set: {reason}" for reason in side.lacks)]), file=sys.stderr
    )
    with (
        applied([*side.optional, *side.settings], lab.hosts),
        lab.host(args.on).stream(*side.words, seconds=60 * args.minutes) as lines,
    ):
        for line in lines:
            print(line.text, file=streams[line.stream], flush=True)
        return lines.done.code
