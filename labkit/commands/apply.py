"""`labkit apply`: bring the settings of one condition into force, and leave them so."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from labkit import studies
from labkit.commands._lab import lab_flag, open_lab
from labkit.commands._verb import json_flag, print_json, verb
from labkit.errors import BadInput
from labkit.plan import WAITS


def add(verbs: Any) -> None:
    """Add the verb."""
    text = "bring a condition's settings into force and leave them so; `labkit restore` puts back"
    parser = verb(verbs, "apply", _apply, text)
    parser.add_argument("plan", metavar="PLAN|STUDY", help="a study, or what plan --json printed")
    parser.add_argument("--condition", metavar="NAME", help="whose settings; a plan may name it")
    lab_flag(parser)
    json_flag(parser)


def _apply(asked: argparse.Namespace) -> None:
    from labkit.change import InForce
    from labkit.lease import Owner

    earlier = _earlier(asked)
    study = studies.find(earlier.get("study", asked.plan))
    condition = study.condition(asked.condition or earlier.get("condition"))
    asked.lab = earlier.get("lab", asked.lab)
    lab = open_lab(asked)
    changes = InForce(lab.hosts, Owner.me(f"{study.name} {condition.name}"))
    found = changes.learn(study.settings(lab, condition.name))
    if earlier:
        found.check_fresh(
            {(one["host"], one["thing"]): one["text"] for one in earlier["steps"]},
            earlier["digest"],
        )
    try:
        changes.move_to([one for one in condition.asked(lab) if _required(changes, condition, one)])
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
    hosts = dict.fromkeys(host for host, *_ in made)
    print(f"It stays so until: labkit restore {' '.join(hosts)}")


def _earlier(asked: argparse.Namespace) -> dict[str, Any]:
    path = Path(asked.plan)
    if not path.is_file():
        return {}
    try:
        plan = json.loads(path.read_text("utf-8"))
        if {"study", "digest", "steps", "lab"} <= plan.keys():
            return dict(plan)
    except (ValueError, AttributeError):
        pass
    raise BadInput(f"{path} is no plan", hint="labkit plan STUDY --json > plan.json writes one")
