"""`labkit plan`: what a study, or typed settings, would change on hosts. Nothing is touched."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from labkit.changes.plan import WAITS
from labkit.commands._lab import ON, lab, lab_for_now, settings_of
from labkit.commands._setting import looks_like_setting
from labkit.commands._verb import (
    JSON,
    PARAMETERS,
    arg,
    at_least_one,
    busy,
    flag,
    given_in,
    tell,
    verb,
)
from labkit.errors import BadInput
from labkit.pages.terminal import paragraph

if TYPE_CHECKING:
    from labkit.changes.plan import Plan, Step
    from labkit.running.sizes import Demand
    from labkit.runs.capacity import Capacity
    from labkit.setting import Setting
    from labkit.study import Study

FIT = "fit"
SHORT = 2
"""Things that are changed alike are named up to this number."""


@verb(
    "lat_ping --lab lab.toml | all changes of lat_ping on your hosts",
    "lat_ping --condition VM-SRIOV --json | a plan for `labkit apply`",
    "redis_scaleout -p scale=document | what the document's own sizes take",
    '"Mtu(9000)" --on server | what one setting would change',
    arg("what", "STUDY|SETTING", nargs="+",
        text='a name that `labkit studies` lists, or settings such as "Mtu(9000)"'),
    arg("--condition", "NAME", "show only this condition's changes", default=None),
    arg("--repeats", "N", type=at_least_one,
        text="number of blocks to estimate cost and precision for (default: its notebook's)"),
    flag("--quick", "plan the short run of `run --quick`"),
    PARAMETERS, ON, lab("the lab in a box; if it is down, it comes up for the plan only"), JSON,
)  # fmt: skip
def _plan(args: argparse.Namespace) -> None:
    """Show what a study or settings would change; touch nothing."""
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

    if args.condition or args.repeats or args.parameter or args.quick:
        raise BadInput("--condition, --repeats, --quick and -p are for a study, not for settings")
    settings = settings_of(args.what, args.on)
    with lab_for_now(args) as lab:
        hosts = {setting.role: lab.host(setting.role) for setting in settings}
        with busy(f"asking {', '.join(hosts)}"):
            changes = plan(settings, hosts)
    document = {"lab": args.lab, **changes.told()}
    tell(args, document, lambda: rendered(" and ".join(args.what), changes))


def _plan_study(args: argparse.Namespace) -> None:
    from labkit.box.machine import Machine
    from labkit.running import possible, sizes

    study, repeats = _run_of(args)
    is_large = study.scale != FIT
    if is_large and args.lab == "box":  # it is made only if it can carry the study
        scale = {"takes": sizes.takes(study), "lacks": sizes.lacks_of_box(study, Machine.read())}
        if scale["lacks"]:
            document = {"study": study.name, "lab": args.lab, "scale": scale}
            tell(args, document, lambda: f"{study.title}\n\n{_describe(scale)}")
            return
    with lab_for_now(args, study.topology) as lab:
        study = sizes.grown(study, lab)
        with busy(f"asking {', '.join(lab.hosts)}"):
            plan = possible.plan(study, lab, args.condition)
            forecast = sizes.foretold(study, lab, plan, repeats, args.condition)
    demand, capacities, refusals = forecast
    scale = {"takes": sizes.takes(study), "lacks": sizes.lacks_of_hosts(study, capacities)}
    free = {
        name: {"memory_kib": capacity.free, "disk_kib": capacity.disk, "cpus": capacity.cpus}
        for name, capacity in capacities.items()
    }
    finds = foreseen(study, lab.name, repeats, args.lab)
    document = {
        "study": study.name, "condition": args.condition, "lab": args.lab,
        **({"scale": scale} if is_large else {}), **plan.told(), "refused": refusals,
        "foreseen": finds, "demand": demand.told(), "free": free,
    }  # fmt: skip
    parts = [_describe(scale)] if is_large else []
    able = (c for c in study.conditions if c.name not in refusals)
    used = None if args.condition else {s for c in able for s in c.asked(lab)}
    parts += [rendered(study.title, plan, refusals, used), demanded(demand, capacities)]
    parts += [paragraph(finds)] if demand.runs else []
    tell(args, document, lambda: "\n\n".join(parts))


def _run_of(args: argparse.Namespace) -> tuple[Study, int]:
    from labkit import studies
    from labkit.running import notebook, open_lab

    study = studies.find(args.what[0])
    if args.condition:
        study.condition(args.condition)
    values = notebook.read_parameters(notebook.notebook(study.name), given_in(args.parameter))
    values |= {"quick": True} if args.quick else {}
    takes = [*notebook.CHOOSES, *open_lab.knobs_among(study, notebook.usual_values(study))]
    if odd := sorted(values.keys() - {*takes}):
        problem = f"`labkit plan` does not take {odd[0]}: only a run of {study.name} does"
        raise BadInput(problem, hint=f"-p takes {', '.join(takes)}")
    open_lab.check_quick(study, values)
    values |= {"every": True} if args.condition in study.extra else {}
    study, blocks = notebook.as_run(study, values, args.lab)
    if args.condition:
        study.condition(args.condition)
    if isinstance(repeats := args.repeats or blocks, str):
        raise BadInput(f"a plan is of a number of blocks, not {repeats!r}", hint="--repeats 10")
    return study, repeats


def _describe(scale: Mapping[str, list[str]]) -> str:
    lines = ["The document's scale takes:", *(f"  {line}" for line in scale["takes"])]
    if scale["lacks"]:
        lines += ["This lab lacks, so that nothing would be measured:"]
    return "\n".join([*lines, *(f"  {line}" for line in scale["lacks"])])


def demanded(demand: Demand, capacities: Mapping[str, Capacity]) -> str:
    """Sizes, memory, disk and time of all runs, and which host has too little of it."""
    rest = "conditions that need more there are left out"
    short = [
        f"{name} has {free >> 10:,} MiB of {kind} free: {rest}"
        for name, capacity in capacities.items()
        for kind, need, free in (
            ("memory", demand.memory, capacity.free), ("disk", demand.disk, capacity.disk)
        )
        if need > free
    ]  # fmt: skip
    return "\n".join(map(paragraph, [f"To measure: {demand}.", *short]))


def foreseen(study: Study, lab: str, blocks: int, place: str) -> str:
    """The smallest difference that this number of blocks would find there, in a sentence."""
    from labkit import noise_floor
    from labkit.statistics.interval import percent

    noise = noise_floor.kept(study, lab)
    among = max(sum(len(claim.comparisons()) for claim in study.claims), 1)
    levels = [level.percentile for level in noise.levels] if noise and blocks > 1 else []
    finds = {q: noise.finds(q, blocks, among) for q in levels} if noise else {}
    texts = [f"{percent(x)} at p{q:g}" for q, x in finds.items() if x is not None]
    if blocks == 1:
        return "One block finds no difference for sure; choose more with --repeats."
    if not texts:
        where = "" if place == "box" else f" --lab {shlex.quote(place)}"
        question = f"What {blocks} blocks would find there is not known"
        return f"{question}: labkit noise {study.name}{where}"
    return (
        f"{blocks} blocks find differences of {', '.join(texts)} in 80 of 100 studies, "
        f"among the {among} comparisons of {study.name}."
    )


def rendered(
    title: str, plan: Plan, refusals: Mapping[str, Sequence[str]] | None = None,
    used: Collection[Setting] | None = None,
) -> str:  # fmt: skip
    """A plan for a person to read.

    `refusals` are a study's conditions left out, and why; `used` the settings of the others.
    """
    steps = [step for step in plan.steps if used is None or step.setting in used]
    seconds = sum(step.told()["seconds"] for step in steps)
    parts = [*map(paragraph, (title, *plan.warnings)), _describe_changes(steps)]
    left_out = [(name, why) for name, reasons in (refusals or {}).items() for why in reasons]
    parts += _list_lines("Left out there:", left_out)
    reasons = {"", *(why for _, why in left_out)}
    able = {step.setting for step in steps if not step.why}
    lacking = (s for s in steps if s.why not in reasons and s.setting.instead_of not in able)
    not_possible = [(type(s.setting).__name__, s.why) for s in lacking]
    addition = "" if refusals is None else "; no condition is left out for it"
    parts += _list_lines(f"Not possible there{addition}:", not_possible)
    end = f"About {seconds:.0f} s to make all of it once; plan {plan.digest}."
    return "\n\n".join([*parts, f"{end}\nNo setting was touched."])


# Guests of one host are changed alike.
def _describe_changes(steps: Sequence[Step]) -> str:
    things: dict[str, list[str]] = {}
    for step in (step for step in steps if step.changes):
        fields = step.told()
        needs = [f"needs {', '.join(fields['needs'])}"] if fields["needs"] else []
        notes = [*needs, *(["may cut the way to the host"] * fields["cuts_management"])]
        notes += [f"{fields['stands_for']} in its place"] if fields["stands_for"] else []
        addition = f" ({', '.join(notes)})" if notes else ""
        change = f"{fields['current']} -> {fields['wanted']}{addition}"
        key = f"{type(step.setting).__name__} {change}"
        things.setdefault(key, [change]).append(fields["thing"])
    lines = []
    for change, *names in things.values():
        first, *others = dict.fromkeys(names)
        is_short = len(others) < SHORT
        alike = ", ".join([first, *others]) if is_short else f"{first} and {len(others)} alike"
        lines.append(paragraph(f"  {alike}: {change}"))
    number_as_wanted = sum(not step.changes and not step.why for step in steps)
    waits = sum(step.waits for step in steps)
    texts = [f"As wanted already: {number_as_wanted}." if number_as_wanted else ""]
    texts += [f"Of these {waits} {WAITS}." if waits else ""]
    return "\n".join(["What would change:" if lines else "Nothing would be changed.",
                      *lines, *filter(None, texts)])  # fmt: skip


# A lab without guests lacks the same thing dozens of times.
def _list_lines(head: str, names_and_whys: Sequence[tuple[str, str]]) -> list[str]:
    names_of: dict[str, list[str]] = {}
    for name, reason in names_and_whys:
        names_of.setdefault(reason, []).append(name)
    lines = [
        paragraph(f"  {'; '.join(dict.fromkeys(names))}: {reason}")
        for reason, names in names_of.items()
    ]
    return ["\n".join([head, *lines])] if lines else []
