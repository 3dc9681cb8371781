"""`labkit noise`: what a lab's differences are worth."""

import argparse
from typing import Any

from labkit.commands._lab import WHERE, lab_measured
from labkit.commands._verb import JSON, LABEL, arg, at_least_one, flag, now, tell, verb
from labkit.pages.terminal import table

POWER = "5 / 10 / 20 blocks find"


@verb(
    "--quick | a quick, rough answer from the lab in a box",
    "lat_ping --condition VM-Default | with a guest, which adds noise",
    "lat_netperf --where lab.toml | your own hosts, with the workload of lat_netperf",
    arg("study", "STUDY", "the study to take the load of (default: lat_ping)", nargs="?",
        default="lat_ping"),
    WHERE, arg("--condition", "NAME", "a condition of the study (default: its first)"),
    arg("--repeats", "N", "blocks of two runs each (default: 6)", type=at_least_one, default=6),
    flag("--quick", "a few short runs, to try it"), LABEL, JSON,
)  # fmt: skip
def _noise(args: argparse.Namespace) -> None:
    """Measure a study against itself, to find the noise of this lab."""
    from labkit import noise_floor, studies
    from labkit.results import check_label
    from labkit.running import noise, sizes
    from labkit.running.open_lab import with_load

    study = studies.find(args.study)
    if args.condition:
        study.condition(args.condition)
    label = check_label(args.label or now())
    repeats = noise_floor.QUICK_BLOCKS if args.quick else args.repeats
    if args.quick:
        shorter: dict[str, Any] = {k: v for k, v in study.quick.items() if k != "repeats"}
        study = with_load(study, **shorter)
    with lab_measured(args.where, study.topology, "noise is measured") as (lab, line):
        study = sizes.grown(study, lab)
        seconds = 2 * repeats * sum(load.seconds for load in study.loads)
        line.say(f"{2 * repeats} runs, at least {seconds:.0f} s of measuring")
        outcome = noise.measure(
            study, lab, place=args.where, label=label,
            condition=args.condition, repeats=repeats, tell=line.tell,
        )  # fmt: skip
    equal = f"{outcome.condition} against itself on {outcome.lab}"
    parts = (
        f"{outcome.metric} of {outcome.study}, {equal}",
        table(noise.rows(outcome), ["percentile", "noise", POWER, "what it means"]),
        "80 of 100 studies with this number of blocks find such a difference.",
        f"kept in {outcome.results}; verdicts on this lab are held against it",
    )
    tell(args, noise.told(outcome), lambda: "\n\n".join(parts))
