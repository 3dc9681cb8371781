"""`labkit run`: a study measured and judged."""

import argparse

from labkit.commands._verb import (
    JSON,
    LABEL,
    PARAMETERS,
    arg,
    flag,
    given_in,
    now,
    show_answer,
    verb,
)


@verb(
    "lat_ping --quick | a few short runs in the lab in a box",
    "lat_ping --where recorded | a recorded run, judged again",
    "lat_ping --where lab.toml -p repeats=10 | on your own hosts, ten blocks",
    "my_study --where local | on this machine alone",
    arg("study", "STUDY", "a name that `labkit studies` lists"),
    flag("--quick", "a few short runs, to try it"),
    arg("--where --lab", "PLACE", default="box",
        text="box (default), local, recorded, the lab.toml of your own hosts, or a results folder"),
    PARAMETERS, LABEL, JSON,
)  # fmt: skip
def _run(args: argparse.Namespace) -> None:
    """Run a study: verdicts, notebook, report.

    Runs that a gate finds spoiled are measured again, up to three times in all. The exit code is 1
    if more than half of the runs have no valid repetition.
    """
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
