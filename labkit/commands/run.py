"""`labkit run`: a study measured and judged."""

import argparse
from typing import Any

from labkit.commands._verb import (
    given_in,
    json_flag,
    label_flag,
    now,
    parameters_flag,
    show_answer,
    verb,
)

TEXT = """\
Run a study: verdicts, notebook, report. Runs that a gate finds spoiled are measured again, up to
three times in all. The exit code is 1 if more than half of the runs have no valid repetition.
"""


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "run", _run, "run a study: verdicts, notebook, report",
        "lat_ping --quick | a few short runs in the lab in a box",
        "lat_ping --where recorded | a recorded run, judged again",
        "lat_ping --where lab.toml -p repeats=10 | on your own hosts, ten blocks",
        "my_study --where local | on this machine alone",
    )  # fmt: skip
    parser.description = TEXT
    parser.add_argument("study", metavar="STUDY", help="a name that `labkit studies` lists")
    parser.add_argument("--quick", action="store_true", help="a few short runs, to try it")
    parser.add_argument(
        "--where", "--lab", default="box", metavar="PLACE",
        help="box (default), local, recorded, the lab.toml of your own hosts, or a results folder",
    )  # fmt: skip
    parameters_flag(parser)
    label_flag(parser)
    json_flag(parser)


def _run(args: argparse.Namespace) -> None:
    from labkit import studies

    study = studies.find(args.study)
    parameters = given_in(args.parameter)
    for name, value in {"where": args.where, "label": args.label or now()}.items():
        parameters.setdefault(name, value)
    if args.quick:
        parameters["quick"] = "true"
    result = show_answer(study, parameters, args)
    if parameters["where"] == "box" and not args.json:
        text = f" --name {study.topology}" if study.topology else ""
        print(f"box       stays up for the next run; `labkit box down{text}` ends it")
    result.insist()
