"""`labkit tune`: what does a named set of settings do for a command?

A profile is such a set, in a file `profiles/NAME.toml`:

    what = "the same again: one clock, no boost"
    settings = ["Mtu(9000)"]        made, or the profile is refused
    optional = ["Turbo(False)"]     made where the host can take them

Those that come with labkit lie in `data/profiles`; a workspace has more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.commands._lab import lab_for_now, open_lab, settings_of
from labkit.commands._verb import JSON, LABEL, arg, busy, flag, tell, verb
from labkit.commands.compare import LAB, MEASURING, load_of, measure_and_show, words_of
from labkit.errors import BadInput, Unknown
from labkit.machine import workspace
from labkit.machine.places import HOME, first_file
from labkit.machine.written import Written
from labkit.pages.terminal import table

if TYPE_CHECKING:
    from labkit.running.comparing import Side
    from labkit.setting import Setting


LISTS = ("settings", "optional")
HINT = "`labkit tune` lists the profiles; a path ends in .toml"


@dataclass(frozen=True)
class Profile:
    """A set of settings, and what it is for."""

    name: str
    what: str
    texts: dict[str, list[str]]
    written: Written

    def settings(self, kind: str, role: str) -> tuple[Setting, ...]:
        """The settings of one of its lists, for the host with this role."""
        with self.written.locating(kind):
            return tuple(settings_of(self.texts[kind], [role]))


def profiles() -> list[Path]:
    """The files of all profiles, by name; those of workspaces replace others of their name."""
    folders = [HOME / "data/profiles", *workspace.folders("profiles")]
    files = {file.stem: file for folder in folders for file in sorted(folder.glob("*.toml"))}
    return [files[name] for name in sorted(files)]


def find_profile(name: str) -> Profile:
    """The profile of that name, or of that file; what is wrong in it is refused with its line."""
    if name.endswith(".toml"):
        return read_profile(Path(name).expanduser())
    file = first_file(file for file in profiles() if file.stem == name)
    if file is None:
        raise Unknown("profile", name, [file.stem for file in profiles()])
    return read_profile(file)


def read_profile(file: Path) -> Profile:
    """Read one file."""
    toml = Written.read(file, "profile", HINT)
    tables = toml.tables()
    toml.insist_known(tables, {"what", *LISTS})
    texts = {kind: tables.get(kind, []) for kind in LISTS}
    for kind, those in texts.items():
        if not isinstance(those, list) or not all(isinstance(text, str) for text in those):
            hint = f'such as: {kind} = ["Mtu(9000)"]'
            raise toml.wrong("must be a list of texts", kind, hint=hint)
    if not any(texts.values()):
        raise toml.wrong("has no settings", hint='such as: settings = ["Mtu(9000)"]')
    return Profile(file.stem, str(tables.get("what", "")), texts, toml)


@verb(
    " | list the profiles", "latency | show what this one would change here",
    "steady -- make test | without it and under it",
    "--once latency -- ./server | run it once under the profile",
    "--lab lab.toml ./mine.toml -- fio job.fio | a profile and a host of your own",
    arg("profile", "PROFILE", "a name, or a file that ends in .toml", nargs="?"),
    arg("words", "COMMAND", "-- and a command", nargs="*"),
    LAB,
    arg("--on", "ROLE", "the host of command and settings (default: server)", default="server"),
    flag("--once", "run it once, under the profile; measure nothing"), *MEASURING, LABEL, JSON,
)  # fmt: skip
def _tune(args: argparse.Namespace) -> int:
    """Decide what a profile of settings does for a command.

    Run a command as the host is and under a profile, in shuffled blocks, until it is decided which
    takes less time. A profile is a named set of settings; what a host cannot take is left out and
    named. All settings are journaled, and put back at the end.

    Without a command, show what the profile would change. Without a profile, list them.
    """
    if not args.profile:
        rows = [_row(file) for file in profiles()]
        cells = [(row["name"], row["what"]) for row in rows]
        tell(args, rows, lambda: table(cells, ["profile", "what it is for"]))
        return 0
    from labkit.running.comparing import A, B, Comparing, Side

    profile = find_profile(args.profile)
    words = words_of(args.words) if args.words else ()
    settings, optional = (profile.settings(kind, args.on) for kind in LISTS)
    side = Side(words, args.on, settings, optional, f"profile {profile.name}")
    if not words:
        _show(args, profile, [*settings, *optional])
    elif args.once:
        return _run_once(args, side)
    else:
        sides = {A: Side(words, args.on), B: side}
        measure_and_show(args, Comparing(sides, load_of(args), args.margin))
    return 0


# One that cannot be read keeps nobody from the others.
def _row(file: Path) -> dict[str, str]:
    try:
        return {"name": file.stem, "what": read_profile(file).what}
    except BadInput as error:
        return {"name": file.stem, "what": str(error)}


def _show(args: argparse.Namespace, profile: Profile, settings: Sequence[Setting]) -> None:
    from labkit.changes.plan import plan
    from labkit.commands.plan import rendered

    with lab_for_now(args) as lab, busy(f"asking {args.on}"):
        steps = plan(settings, {args.on: lab.host(args.on)})
    tell(args, steps.told(), lambda: rendered(profile.what, steps))


# What it prints is shown as it comes, and its exit code is ours.
def _run_once(args: argparse.Namespace, side_asked: Side) -> int:
    from labkit.changes.in_force import applied
    from labkit.running.comparing import fitted

    lab = open_lab(args)
    side = fitted(side_asked, lab)
    streams = {"stdout": sys.stdout, "stderr": sys.stderr}
    remarks = [side.shown, *(f"not set: {reason}" for reason in side.lacks)]
    print("\n".join(remarks), file=sys.stderr)
    with (
        applied([*side.optional, *side.settings], lab.hosts),
        lab.host(args.on).stream(*side.words, seconds=60 * args.minutes) as lines,
    ):
        for line in lines:
            print(line.text, file=streams[line.stream], flush=True)
        return lines.done.code
