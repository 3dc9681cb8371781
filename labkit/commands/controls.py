"""`labkit controls`: whether a lab finds what is there, and nothing where nothing is."""

import argparse

from labkit.commands._lab import WHERE, lab_measured
from labkit.commands._verb import JSON, LABEL, arg, at_least_one, now, tell, verb
from labkit.errors import BadInput
from labkit.pages.terminal import paragraph


@verb(
    " | the lab in a box, about half a minute",
    "hadoop_v6 | the box that this study runs in, before it is recorded",
    "--where lab.toml --repeats 10 | your own hosts, with narrower intervals",
    arg("study", "STUDY", "in the box of this study (without it, the usual box)", nargs="?"),
    WHERE,
    arg("--repeats", "N", "blocks, each with four runs of a second (without it, 4; at least 3)",
        type=at_least_one, default=4),
    LABEL, JSON,
)  # fmt: skip
def _controls(args: argparse.Namespace) -> int:
    """Check a lab: add a known delay and measure it; compare two equal runs."""
    from labkit import studies
    from labkit.controls import FEWEST_BLOCKS, NotMade
    from labkit.running import control_runs

    if args.repeats < FEWEST_BLOCKS:
        raise BadInput(f"controls take {FEWEST_BLOCKS} blocks or more, not {args.repeats}")
    topology = studies.find(args.study).topology if args.study else ""
    remark = "; `labkit report` shows those that results keep"
    with lab_measured(args.where, topology, "controls are run", remark) as (lab, line):
        label = args.label or now()
        outcome = control_runs.measure(lab, label=label, blocks=args.repeats, say=line.say)
    if isinstance(outcome, NotMade):
        raise BadInput(outcome.lines()[0], hint="name a lab with both roles")
    document = {**outcome.kept_as(), "passed": outcome.passed, "said": outcome.lines()}
    lines = "\n".join(map(paragraph, outcome.lines()))
    end = f"kept in {outcome.results}; reports of this lab show it"
    tell(args, document, lambda: f"{outcome.lab}, client to server\n\n{lines}\n\n{end}")
    return int(outcome.failed)
