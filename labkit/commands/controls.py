"""`labkit controls`: whether a lab finds what is there, and nothing where nothing is."""

import argparse
from typing import Any

from labkit.commands._verb import at_least_one, json_flag, label_flag, now, print_json, verb
from labkit.errors import BadInput


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "controls", _controls,
        "check a lab: add a known delay and measure it; compare two equal runs",
        " | the lab in a box, about half a minute",
        "hadoop_v6 | the box that this study runs in, before it is recorded",
        "--where lab.toml --repeats 10 | your own hosts, with narrower intervals",
    )  # fmt: skip
    parser.add_argument("study", nargs="?", default="", metavar="STUDY",
                        help="in the box of this study (without it, the usual box)")  # fmt: skip
    parser.add_argument("--where", "--lab", default="box", metavar="PLACE",
                        help="box (default), or the lab.toml of your own hosts")  # fmt: skip
    parser.add_argument(
        "--repeats", type=at_least_one, default=4, metavar="N",
        help="blocks, each with four runs of a second (without it, 4; at least 3)",
    )  # fmt: skip
    label_flag(parser)
    json_flag(parser)


def _controls(args: argparse.Namespace) -> int:
    from labkit import studies
    from labkit.controls import FEWEST_BLOCKS, NotMade
    from labkit.pages.terminal import paragraph, progress_line
    from labkit.running import control_runs
    from labkit.running.open_lab import check_place, is_stored, open_lab

    if args.repeats < FEWEST_BLOCKS:
        raise BadInput(f"controls take {FEWEST_BLOCKS} blocks or more, not {args.repeats}")
    if is_stored(args.where):
        raise BadInput(
            f"controls are run on a lab, and {args.where!r} is stored results",
            hint="name a lab.toml, or the box; `labkit report` shows those that results keep",
        )
    check_place(args.where)
    topology = studies.find(args.study).topology if args.study else ""
    with progress_line() as line:
        line.say(f"opening {args.where}")
        lab = open_lab(args.where, topology)
        assert lab is not None  # stored results were refused
        try:
            label = args.label or now()
            outcome = control_runs.measure(lab, label=label, blocks=args.repeats, say=line.say)
        finally:
            lab.close()
    if isinstance(outcome, NotMade):
        raise BadInput(outcome.lines()[0], hint="name a lab with both roles")
    if args.json:
        print_json({**outcome.kept_as(), "passed": outcome.passed, "said": outcome.lines()})
    else:
        print("\n".join([f"{outcome.lab}, client to server\n", *map(paragraph, outcome.lines())]))
        print(f"\nkept in {outcome.results}; reports of this lab show it")
    return int(outcome.failed)
