"""`labkit compare`: is A faster than B, on these hosts?"""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from labkit.commands._lab import open_lab, settings_of
from labkit.commands._verb import JSON, LABEL, arg, at_least_one, now, tell, verb
from labkit.errors import BadInput
from labkit.pages.terminal import ProgressLine

if TYPE_CHECKING:
    from labkit.running.comparing import Comparing, Outcome, Side

SHELL = set("|&;<>()$`*?[]{}~#\n")
PARTS = ("a", "b", "on_a", "on_b")


MEASURING = (
    arg("--metric", "REGEX", "compare the numbers that this finds in the output"),
    arg("--unit", "UNIT", "their unit"),
    arg("--prepare", "LINE", "a line of shell before each time, not measured"),
    arg("--minutes", "N", "the budget to decide it in (default: 10)", type=float, default=10.0),
    arg("--blocks", "N", "make just this number of blocks", type=at_least_one),
    arg("--margin", "SHARE", "what is too close to matter (default: 0.05, 5 %%)", type=float),
)
"""Arguments that say what of a command is measured, and for how long."""
LAB = arg("--lab", "FILE", "a lab.toml, box, or local: this machine (default)", default="local")


@verb(
    "'gzip -1 -k f' 'gzip -9 -k f' | two commands on this machine",
    '--b "Mtu(9000)" --lab lab.toml -- scp big client: | before and after a setting',
    "--lab lab.toml --on-a vm1 --on-b vm2 -- make -j8 | two hosts",
    r"--metric 'qps: ([\d.]+)' --unit 1/s 'bench old' 'bench new' | a figure it prints",
    arg("words", "COMMAND", "two lines in quotes, or -- and one command", nargs="*"),
    *(arg(f"--{side}", "SETTING", action="append",
          text=f'a setting of {side.upper()}, such as "Mtu(9000)"; repeatable (default: none)')
      for side in "ab"),
    LAB, arg("--on", "ROLE", "the host of the command (default: server)", default="server"),
    *(arg(f"--on-{side}", "ROLE", f"the host of {side.upper()} (default: that of --on)")
      for side in "ab"),
    *MEASURING, LABEL, JSON,
)  # fmt: skip
def _compare(args: argparse.Namespace) -> None:
    """Decide which of two commands, settings or hosts is faster.

    Run a command under A and under B in shuffled blocks, until it is decided which takes less time.
    Settings are journaled, and put back at the end. Without settings, two commands are compared.

    A line in quotes that a shell has to read is run by `sh -c`. With --metric, the numbers that a
    pattern finds in the output are compared in place of the time.
    """
    from labkit.running.comparing import A, B, Comparing

    first, second = _commands(args)
    sides = {A: _side(first, args.a, args.on_a or args.on),
             B: _side(second, args.b, args.on_b or args.on)}  # fmt: skip
    measure_and_show(args, Comparing(sides, load_of(args), args.margin))


def load_of(args: argparse.Namespace) -> Any:
    """The load that these flags describe, without its words."""
    from labkit.workloads.command import SECONDS, TIME, Command

    if args.unit and not args.metric:
        raise BadInput("--unit is of a --metric; the time taken is in s")
    knobs = {"metric": "metric", "unit": args.unit} if args.metric else {}
    return Command(
        pattern=args.metric, prepare=args.prepare,
        **{"metric": TIME, "unit": SECONDS, **knobs},
    )  # fmt: skip


def measure_and_show(args: argparse.Namespace, comparing: Comparing) -> None:
    """Measure both sides, write the page, and say what came out."""
    from labkit.running.comparing import compare_sides

    lab = open_lab(args)
    repeats = args.blocks or f"until decided in {args.minutes:g} minutes"
    with ProgressLine() as line:
        line.say("trying each command once")
        outcome = compare_sides(
            comparing, lab, label=args.label or now(), repeats=repeats, tell=line.tell
        )
    show(args, outcome)


def show(args: argparse.Namespace, outcome: Outcome) -> None:
    """Write the page of an outcome, and say what came out."""
    from labkit.pages import a_and_b

    file = a_and_b.write(outcome)
    tell(args, a_and_b.told(outcome, file), lambda: a_and_b.rendered(outcome, file))


# Two lines are two commands, where nothing else sets A apart from B.
def _commands(args: argparse.Namespace) -> tuple[tuple[str, ...], tuple[str, ...]]:
    words, apart = args.words, [name for name in PARTS if any(getattr(args, name))]
    if not words:
        raise BadInput("which command?", hint="labkit compare 'gzip -1 -k f' 'gzip -9 -k f'")
    if len(words) == 2 and not apart:
        return words_of(words[:1]), words_of(words[1:])
    if not apart:
        problem = f"A and B are the same: {shlex.join(words)}"
        raise BadInput(problem, hint="two commands, each in quotes; or --b SETTING, or --on-b ROLE")
    return words_of(words), words_of(words)


def words_of(words: list[str]) -> tuple[str, ...]:
    """The command that was typed: its words, or one line of them, by a shell if it needs one."""
    if len(words) != 1:
        return tuple(words)
    try:
        parts = tuple(shlex.split(words[0]))
    except ValueError as error:
        raise BadInput(f"{words[0]!r} is no command: {error}") from None
    if not parts:
        raise BadInput("a command is empty")
    return ("sh", "-c", words[0]) if SHELL & {*words[0]} or "=" in parts[0] else parts


def _side(words: tuple[str, ...], texts: list[str], role: str) -> Side:
    from labkit.running.comparing import PLAIN, Side, in_words

    settings = settings_of([text for text in texts if text], [role])
    return Side(words, role, tuple(settings), shown=in_words(settings) or PLAIN)
