"""`labkit noise`: what a lab's differences are worth."""

import argparse
from typing import Any

from labkit.commands._verb import at_least_one, json_flag, label_flag, now, print_json, verb
from labkit.errors import BadInput

POWER = "5 / 10 / 20 blocks find"


def add(verbs: Any) -> None:
    """Add the verb."""
    text = "measure a study against itself, to find the noise of this lab"
    parser = verb(
        verbs, "noise", _noise, text,
        "--quick | a quick, rough answer from the lab in a box",
        "lat_ping --condition VM-Default | with a guest, which adds noise",
        "lat_netperf --where lab.toml | your own hosts, with the workload of lat_netperf",
    )  # fmt: skip
    parser.add_argument("study", metavar="STUDY", nargs="?", default="lat_ping",
                        help="the study to take the load of (default: lat_ping)")  # fmt: skip
    parser.add_argument("--where", "--lab", default="box", metavar="PLACE",
                        help="box (default), or the lab.toml of your own hosts")  # fmt: skip
    parser.add_argument(
        "--condition",
        default="",
        metavar="NAME",
        help="a condition of the study (default: its first)",
    )
    parser.add_argument(
        "--repeats", type=at_least_one, default=6, metavar="N",
        help="blocks of two runs each (default: 6)",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a few short runs, to try it")
    label_flag(parser)
    json_flag(parser)


def _noise(args: argparse.Namespace) -> None:
    from labkit import noise_floor, studies
    from labkit.pages.terminal import progress_line, table
    from labkit.results import check_label
    from labkit.running import noise, sizes
    from labkit.running.open_lab import check_place, is_stored, open_lab, with_load

    study = studies.find(args.study)
    if is_stored(args.where):
        raise BadInput(
            f"noise is measured on a lab, and {args.where!r} is stored results",
            hint="name a lab.toml, or the box",
        )
    check_place(args.where)
    noise.check_condition(study, args.condition)
    label = check_label(args.label or now())
    repeats = noise_floor.QUICK_BLOCKS if args.quick else args.repeats
    if args.quick:
        shorter: dict[str, Any] = {k: v for k, v in study.quick.items() if k != "repeats"}
        study = with_load(study, **shorter)
    with progress_line() as line:
        line.say(f"opening {args.where}")
        lab = open_lab(args.where, study.topology)
        assert lab is not None  # stored results were refused
        study = sizes.grown(study, lab)
        try:
            seconds = 2 * repeats * sum(load.seconds for load in study.loads)
            line.say(f"{2 * repeats} runs, at least {seconds:.0f} s of measuring")
            outcome = noise.measure(
                study, lab, place=args.where, label=label,
                condition=args.condition, repeats=repeats, tell=line.tell,
            )  # fmt: skip
        finally:
            lab.close()
    if args.json:
        print_json(noise.told(outcome))
        return
    equal = f"{outcome.condition} against itself on {outcome.lab}"
    print(f"{outcome.metric} of {outcome.study}, {equal}\n")
    print(table(noise.rows(outcome), ["percentile", "noise", POWER, "what it means"]))
    print("\n80 of 100 studies with this number of blocks find such a difference.")
    print(f"\nkept in {outcome.results}; verdicts on this lab are held against it")
