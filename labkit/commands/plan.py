"""`labkit plan`: what a study, or typed settings, would change on hosts. Nothing is touched."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labkit.commands._lab import lab_flag, on_flag, open_lab, settings_of
from labkit.commands._setting import looks_like_setting
from labkit.commands._verb import (
    at_least_one,
    busy,
    given_in,
    json_flag,
    parameters_flag,
    print_json,
    verb,
)
from labkit.errors import BadInput

if TYPE_CHECKING:
    from labkit.changes.plan import Plan
    from labkit.running.sizes import Demand
    from labkit.runs.capacity import Capacity
    from labkit.study import Study

FIT = "fit"
FEW = 5
"""Blocks, for a study whose notebook does not say."""


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = verb(
        verbs, "plan", _plan, "show what a study or settings would change; touch nothing",
        "lat_ping --lab lab.toml | all changes of lat_ping on your hosts",
        "lat_ping --condition VM-SRIOV --json | a plan for `labkit apply`",
        "redis_scaleout -p scale=document | what the document's own sizes take",
        '"Mtu(9000)" --on server | what one setting would change',
    )  # fmt: skip
    parser.add_argument(
        "what", metavar="STUDY|SETTING", nargs="+",
        help='a name that `labkit studies` lists, or settings such as "Mtu(9000)"',
    )  # fmt: skip
    parser.add_argument("--condition", metavar="NAME", help="show only this condition's changes")
    parser.add_argument(
        "--repeats", type=at_least_one, metavar="N",
        help="number of blocks to estimate cost and precision for (default: its notebook's)",
    )  # fmt: skip
    parameters_flag(parser)
    on_flag(parser)
    lab_flag(parser, made=True)
    json_flag(parser)


def _plan(args: argparse.Namespace) -> None:
    if looks_like_setting(args.what[0]):
        _plan_settings(args)
    elif len(args.what) > 1:
        raise BadInput("one study at a time; only settings can be several")
    elif args.on:
        raise BadInput("--on is for settings; a study names its own hosts")
    else:
        _plan_study(args)


def _plan_settings(args: argparse.Namespace) -> None:
    from labkit.changes.plan import plan

    if args.condition or args.repeats or args.parameter:
        raise BadInput("--condition, --repeats and -p are for a study, not for settings")
    settings = settings_of(args.what, args.on)
    lab = open_lab(args)
    hosts = {setting.role: lab.host(setting.role) for setting in settings}
    with busy(f"asking {', '.join(hosts)}"):
        changes = plan(settings, hosts)
    if args.json:
        print_json({"lab": args.lab, **changes.told()})
    else:
        print(rendered(" and ".join(args.what), changes))


def _plan_study(args: argparse.Namespace) -> None:
    from labkit import studies
    from labkit.running import possible, sizes

    study = _with_parameters(studies.find(args.what[0]), given_in(args.parameter))
    if args.condition:
        study.condition(args.condition)
    if study.scale != FIT and args.lab == "box" and not _at_scale(args, study):
        return
    lab = open_lab(args, study.topology)
    study = sizes.grown(study, lab)
    repeats = args.repeats or usual_repeats(study)
    with busy(f"asking {', '.join(lab.hosts)}"):
        planned = possible.plan(study, lab, args.condition)
        demand, capacities = sizes.foretold(study, lab, planned, repeats, args.condition)
    scale = _scale(study, capacities)
    if args.json:
        print_json(
            {
                "study": study.name,
                "condition": args.condition,
                "lab": args.lab,
                **({"scale": scale} if scale else {}),
                **planned.told(),
                "foreseen": foreseen(study, lab.name, repeats),
                "demand": demand.told(),
                "free": {
                    name: {
                        "memory_kib": capacity.free,
                        "disk_kib": capacity.disk,
                        "cpus": capacity.cpus,
                    }
                    for name, capacity in capacities.items()
                },
            }
        )
    else:
        print(*([_told(scale), ""] if scale else []), rendered(study.title, planned), sep="\n")
        print(f"\n{demanded(demand, capacities)}")
        print(f"\n{foreseen(study, lab.name, repeats)}")


def _with_parameters(study: Study, given: Mapping[str, str]) -> Study:
    from labkit.running import notebook
    from labkit.running.open_lab import knobs_among, with_load

    if not given:
        return study
    values = notebook.read_parameters(notebook.notebook(study.name), given)
    knobs = knobs_among(study, values)
    if odd := sorted(values.keys() - knobs.keys()):
        raise BadInput(
            f"{odd[0]} changes no plan of {study.name}", hint="-p is for sizes and loads"
        )
    return with_load(study, **knobs)


# Whether a box here can carry it: it is made only if so.
def _at_scale(args: argparse.Namespace, study: Study) -> bool:
    from labkit.box.machine import Machine
    from labkit.running import lacking

    scale = {"takes": lacking.takes(study), "lacks": lacking.of_box(study, Machine.read())}
    if scale["lacks"] and args.json:
        print_json({"study": study.name, "lab": args.lab, "scale": scale})
    elif scale["lacks"]:
        print(study.title, _told(scale), sep="\n\n")
    return not scale["lacks"]


def _scale(study: Study, capacities: Mapping[str, Capacity]) -> dict[str, list[str]]:
    from labkit.running import lacking

    if study.scale == FIT:
        return {}
    return {"takes": lacking.takes(study), "lacks": lacking.of_hosts(study, capacities)}


def _told(scale: Mapping[str, list[str]]) -> str:
    lines = ["The document's scale takes:", *(f"  {line}" for line in scale["takes"])]
    if scale["lacks"]:
        lines += ["This lab lacks, so that nothing would be measured:"]
    return "\n".join([*lines, *(f"  {line}" for line in scale["lacks"])])


def usual_repeats(study: Study) -> int:
    """The number of blocks that the study's notebook asks for; 5 if it does not say."""
    from labkit.running import notebook

    try:
        default = notebook.parameters(notebook.notebook(study.name))["repeats"]["default"]
        return int(default)
    except (LookupError, ValueError, BadInput):
        return FEW


def demanded(demand: Demand, capacities: Mapping[str, Capacity]) -> str:
    """Sizes, memory, disk and time of all runs, and which host has too little of it."""
    text = f"To measure: {demand}."
    short = [
        line for name, capacity in capacities.items() for line in _short(demand, name, capacity)
    ]
    return "\n".join([text, *short])


def _short(demand: Demand, name: str, capacity: Capacity) -> Iterator[str]:
    for kind, wanted, free in (
        ("memory", demand.memory, capacity.free), ("disk", demand.disk, capacity.disk)
    ):  # fmt: skip
        if wanted > free:
            yield (
                f"{name} has {free >> 10:,} MiB of {kind} free: conditions that need more there "
                "are left out"
            )


def foreseen(study: Study, lab: str, blocks: int) -> str:
    """The smallest difference that this number of blocks would find there, in a sentence."""
    from labkit import noise_floor

    noise = noise_floor.kept(study, lab)
    among = max(sum(len(claim.comparisons()) for claim in study.claims), 1)
    levels = [level.percentile for level in noise.levels] if noise and blocks > 1 else []
    finds = {q: noise.finds(q, blocks, among) for q in levels} if noise else {}
    texts = [f"{noise_floor.percent(x)} at p{q:g}" for q, x in finds.items() if x is not None]
    if blocks == 1:
        return "One block finds no difference for sure; choose more with --repeats."
    if not texts:
        return f"What {blocks} blocks would find there is not known: labkit noise {study.name}"
    return (
        f"{blocks} blocks find differences of {', '.join(texts)} in 80 of 100 studies, "
        f"among the {among} comparisons of {study.name}."
    )


def rendered(title: str, plan: Plan) -> str:
    """A plan for a person to read."""
    from labkit.pages.tables import plan_table

    changes = replace(plan, steps=tuple(step for step in plan.steps if not step.why))
    parts = [title, plan_table(changes).text() if changes.steps else "Nothing would be changed."]
    if lacking := _lacking(plan):
        parts.append(f"Not possible there; conditions that need it are left out:\n{lacking}")
    end = (
        f"About {plan.seconds:.0f} s to make it all once; plan {plan.digest}; nothing was touched."
    )
    return "\n\n".join([*parts, end])


# A lab without guests lacks the same thing dozens of times.
def _lacking(plan: Plan) -> str:
    whys: dict[str, list[str]] = {}
    for step in plan.steps:
        if step.why:
            whys.setdefault(step.why, []).append(type(step.setting).__name__)
    return "\n".join(f"  {', '.join(dict.fromkeys(names))}: {why}" for why, names in whys.items())
