"""`labkit apply`: bring the settings of one condition into force, and leave them so."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from labkit.changes.plan import WAITS
from labkit.commands._lab import lab_flag, open_lab
from labkit.commands._verb import busy, json_flag, print_json, verb
from labkit.errors import BadInput, ResultsError
from labkit.machine import records


def add(verbs: Any) -> None:
    """Add the verb."""
    text = "apply a condition's settings and keep them; `labkit restore` puts them back"
    parser = verb(
        verbs, "apply", _apply, text,
        "lat_ping --condition VM-SRIOV --lab lab.toml | keep the settings until `labkit restore`",
        "plan.json | a saved plan, if the hosts are unchanged",
    )  # fmt: skip
    parser.add_argument("plan", metavar="PLAN|STUDY", help="a study, or a saved plan")
    parser.add_argument(
        "--condition", metavar="NAME", help="the condition to apply; a plan may name it"
    )
    lab_flag(parser, made=True)
    json_flag(parser)


def _apply(asked: argparse.Namespace) -> None:
    from labkit import studies
    from labkit.changes.in_force import InForce
    from labkit.changes.lease import Owner
    from labkit.running import possible

    earlier = _earlier(asked)
    study = studies.find(earlier.get("study", asked.plan))
    condition = study.condition(asked.condition or earlier.get("condition"))
    asked.lab = earlier.get("lab", asked.lab)
    lab = open_lab(asked, study.topology)
    changes = InForce(lab.hosts, Owner.me(f"{study.name} {condition.name}"))
    with busy(f"asking {', '.join(lab.hosts)}"):
        found = changes.learn(possible.settings(study, lab, condition.name))
    if earlier:
        found.check_fresh(
            {(one["host"], one["thing"]): one["text"] for one in earlier["steps"]},
            earlier["digest"],
        )
    try:
        wanted = [one for one in condition.asked(lab) if _required(changes, condition, one)]
        with busy(f"changing {len(wanted)} settings"):
            changes.move_to(wanted)
        waiting = changes.waiting()
        made = [
            (one.role, thing, one.wanted, WAITS if one in waiting else "in force")
            for thing, one in changes.changed.items()
        ]
        before = changes.before
        changes.leave()
    except BaseException:
        changes.put_back()
        raise
    _tell(asked, made, before)
    if made and not asked.json:
        first, *others = dict.fromkeys(host for host, *_ in made)
        print(f"It stays so until: {lab.host(first).verb('restore', *others)}")


# What is optional is made where the host can take it; what is required is tried, and says why not.
def _required(changes: Any, condition: Any, setting: Any) -> bool:
    return setting in condition.settings or not changes.steps[setting].why


def _tell(
    asked: argparse.Namespace, made: list[tuple[str, str, str, str]], before: dict[str, str]
) -> None:
    if asked.json:
        print_json(
            [
                {"host": host, "thing": thing, "before": before[thing], "now": now, "state": state}
                for host, thing, now, state in made
            ]
        )
        return
    for host, thing, now, state in made:
        print(f"{host}: {thing}: {before[thing]} -> {now}{f' ({state})' * (state == WAITS)}")
    if not made:
        print("Nothing was changed: all is as asked for.")


def _earlier(asked: argparse.Namespace) -> dict[str, Any]:
    path = Path(asked.plan)
    hint = "labkit plan STUDY --json > plan.json writes one"
    if not path.is_file():
        if path.suffix or len(path.parts) > 1:  # no study is called so
            raise BadInput(f"no plan {path}", hint=hint)
        return {}
    try:
        plan = records.read_json(path)
        if _is_plan(plan):
            return plan
    except ResultsError as odd:
        said = odd.said
    else:
        said = ""
    raise BadInput(f"{path} is not a plan", said=said, hint=hint)


def _is_plan(plan: dict[str, Any]) -> bool:
    steps = plan.get("steps")
    return (
        all(isinstance(plan.get(key), str) for key in ("study", "digest", "lab"))
        and isinstance(plan.get("condition", ""), str | None)
        and isinstance(steps, list)
        and all(
            isinstance(step, dict)
            and all(isinstance(step.get(key), str) for key in ("host", "thing", "text"))
            for step in steps
        )
    )
