"""`labkit apply`: bring settings, or those of one condition, into force, and leave them so."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.changes.plan import WAITS
from labkit.commands._lab import ON, lab, open_lab, settings_of
from labkit.commands._setting import looks_like_setting
from labkit.commands._verb import JSON, arg, busy, tell, verb
from labkit.errors import BadInput, ResultsError
from labkit.machine import records

if TYPE_CHECKING:
    from labkit.changes.in_force import InForce
    from labkit.lab import Lab
    from labkit.setting import Setting


@dataclass(frozen=True)
class _Request:
    """Settings for a lab; those that are not `required` are made where the host can take them."""

    purpose: str
    lab: Lab
    settings: Sequence[Setting]
    required: Sequence[Setting]
    plan: dict[str, Any]
    """The saved plan that it comes from; empty if none."""


@verb(
    '"Mtu(9000)" --lab lab.toml --on server --on client | one setting, two hosts',
    "lat_ping --condition VM-SRIOV --lab lab.toml | all settings of a condition",
    "plan.json | a saved plan, if the hosts are unchanged",
    arg("what", "SETTING|STUDY|PLAN", 'settings such as "Mtu(9000)", or a study, or a saved plan',
        nargs="+"),
    arg("--condition", "NAME", "the study's condition to apply; a plan may name it", default=None),
    ON, lab("the lab in a box, started if needed"), JSON,
)  # fmt: skip
def _apply(args: argparse.Namespace) -> None:
    """Apply settings and keep them; `labkit restore` puts them back."""
    from labkit.changes.in_force import InForce
    from labkit.changes.lease import Owner

    request = _parse(args) if looks_like_setting(args.what[0]) else _of_study(args)
    changes = InForce(request.lab.hosts, Owner.me(request.purpose))
    with busy(f"asking {', '.join(request.lab.hosts)}"):
        plan = changes.learn(request.settings)
    if request.plan:
        steps = request.plan["steps"]
        texts = {(step["host"], step["thing"]): step["text"] for step in steps}
        plan.check_fresh(texts, request.plan["digest"])
    _make(args, request, changes)


def _make(args: argparse.Namespace, request: _Request, changes: InForce) -> None:
    try:
        settings = [
            setting for setting in request.settings
            if setting in request.required or not changes.steps[setting].why
        ]  # fmt: skip
        with busy(f"changing {len(settings)} settings"):
            changes.move_to(settings)
        waiting = changes.waiting()
        rows = [
            {"host": setting.role, "thing": thing, "before": changes.before[thing],
             "now": setting.wanted, "state": WAITS if setting in waiting else "in force"}
            for thing, setting in changes.changed.items()
        ]  # fmt: skip
        changes.leave()
    except BaseException:
        changes.put_back()
        raise
    tell(args, rows, lambda: _describe(rows, request.lab))


def _describe(rows: Sequence[dict[str, str]], lab: Lab) -> str:
    if not rows:
        return "Nothing was changed: all is as asked for."
    lines = []
    for row in rows:
        note = f" ({WAITS})" if row["state"] == WAITS else ""
        lines.append("{host}: {thing}: {before} -> {now}".format(**row) + note)
    first, *names = dict.fromkeys(row["host"] for row in rows)
    return "\n".join([*lines, f"It stays so until: {lab.host(first).verb('restore', *names)}"])


def _parse(args: argparse.Namespace) -> _Request:
    if args.condition:
        raise BadInput("--condition is for a study, not for settings")
    settings = settings_of(args.what, args.on)
    lab = open_lab(args)
    for setting in settings:
        lab.host(setting.role)
    return _Request(" ".join(args.what), lab, settings, settings, {})


def _of_study(args: argparse.Namespace) -> _Request:
    from labkit import studies
    from labkit.running import possible, sizes

    if len(args.what) > 1:
        problem = "only settings can be several; a study or a plan stands alone"
        raise BadInput(problem, hint='a setting is typed as "Mtu(9000)"')
    if args.on:
        raise BadInput("--on is for settings; a study names its own hosts")
    plan = _saved_plan(args.what[0])
    study = studies.find(plan.get("study", args.what[0]))
    condition = study.condition(args.condition or plan.get("condition"))
    args.lab = plan.get("lab", args.lab)
    lab = open_lab(args, study.topology)
    study = sizes.grown(study, lab)
    condition = study.condition(condition.name)
    settings = possible.settings(study, lab, condition.name)
    return _Request(f"{study.name} {condition.name}", lab, settings, condition.settings, plan)


def _saved_plan(name: str) -> dict[str, Any]:
    path = Path(name)
    hint = "labkit plan STUDY --json > plan.json writes one"
    if not path.is_file():
        if path.suffix or len(path.parts) > 1:  # no study is called so
            raise BadInput(f"no plan {path}", hint=hint)
        return {}
    try:
        plan = records.read_json(path)
        condition = plan.get("condition")
        texts = [plan["study"], plan["digest"], plan["lab"], "" if condition is None else condition]
        for step in plan["steps"]:
            texts += [step["host"], step["thing"], step["text"]]
        if all(isinstance(text, str) for text in texts):
            return plan
        said = ""
    except (ResultsError, LookupError, TypeError) as error:
        said = getattr(error, "said", "")
    raise BadInput(f"{path} is not a plan", said=said, hint=hint)
