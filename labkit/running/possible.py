"""Conditions of a study that a lab can do, and what they would change there."""

import shlex
from collections.abc import Mapping
from dataclasses import replace

from labkit.changes.plan import Plan
from labkit.changes.plan import plan as make_plan
from labkit.condition import Condition
from labkit.errors import BadInput
from labkit.lab import Lab
from labkit.programs.packages import installable, package_of
from labkit.running import ways
from labkit.setting import Setting
from labkit.study import Study
from labkit.workloads import _pairs as pairs


def settings(study: Study, lab: Lab, condition: str | None = None) -> list[Setting]:
    """List the settings of all conditions, or of one, for which this lab has the hosts."""
    conditions = [study.condition(condition)] if condition else study.conditions
    settings_of = [setting for condition in conditions for setting in condition.asked(lab)]
    return [setting for setting in dict.fromkeys(settings_of) if setting.role in lab.hosts]


def plan(study: Study, lab: Lab, condition: str | None = None) -> Plan:
    """Plan the changes of all conditions, or of one, on this lab; nothing is touched."""
    return make_plan(settings(study, lab, condition), lab.hosts)


def refusals(study: Study, lab: Lab, plan_made: Plan | None = None) -> dict[str, str]:
    """Name the conditions that this lab cannot do, each with the reason."""
    plan_made = plan_made or plan(study, lab)
    loads = [(c, load) for c in study.conditions for load in study.loads]
    with_hosts = [(c, load) for c, load in loads if not c.lacks_host(lab, load)]
    absent = pairs.absent((c.load(load), c.pairs(lab, load)) for c, load in with_hosts)
    prepare, traffic = prepare_command(study, lab), ways.Ways(lab)
    # An event whose driver does not tell the metric of the study would be of no use to it.
    reasons = {name: f"{study.metric} is not seen here: {whys[study.metric]}"
               for name, whys in _unseen(study, lab).items() if study.metric in whys}  # fmt: skip
    for c, load in loads:
        reason = reasons.get(c.name, "") or c.refusal(lab, load, plan_made, absent, prepare)
        reasons[c.name] = reason or traffic.refusal(c.load(load), c.pairs(lab, load).values())
    return {name: reason for name, reason in reasons.items() if reason}


def with_free_tools(study: Study, lab: Lab) -> Study:
    """The study with free tools alone, if one of its hosts lacks a tool that is not free.

    All conditions get the same ones. A load beside the study's own goes if it would only ask the
    same tool once more.
    """
    loads = [load for load in study.loads if load.freed() != load]
    work = [(c, load) for c in study.conditions for load in loads if not c.lacks_host(lab, load)]
    absent = pairs.absent((c.load(load), c.pairs(lab, load)) for c, load in work)
    words = {word for host in absent.values() for word in host if installable(word)}
    if not any(package_of(word).source for word in words):
        return study
    first, others = study.workload.freed(), [load.freed() for load in study.also]
    also = [load for load in others if not load.tools or load.tools.keys() - first.tools.keys()]
    return replace(study, workload=first, also=tuple(also))


# The metrics that events of each condition do not give on this lab; each says why.
def _unseen(study: Study, lab: Lab) -> dict[str, dict[str, str]]:
    kind = "box" if lab.emulated else "ESXi" if "vcenter" in lab.hosts else "KVM"
    return {
        c.name: {metric: why for event in c.events for metric, why in event.unseen(kind).items()}
        for c in study.conditions
    }


def unseen(study: Study, lab: Lab) -> dict[str, str]:
    """The metrics of events that this lab does not give, as claims call them; each says why."""
    return {metric.replace(" ", "_"): why
            for whys in _unseen(study, lab).values() for metric, why in whys.items()}  # fmt: skip


def prepare_command(study: Study, lab: Lab) -> str:
    """The command that brings what the study calls to the hosts of this lab."""
    flags = () if lab.emulated or not lab.path.name else ("--lab", str(lab.path))
    return shlex.join(["labkit", "prepare", study.name, *flags])


def able(study: Study, lab: Lab, refusals_of: Mapping[str, str]) -> list[Condition]:
    """List the other conditions; fail with all reasons if there are none."""
    conditions = [condition for condition in study.conditions if condition.name not in refusals_of]
    if not conditions:
        reasons = "".join(f"\n  {name}: {reason}" for name, reason in refusals_of.items())
        hint = 'a run of another lab: --where recorded; in a notebook where = "recorded"'
        raise BadInput(f"{lab.name} can do no condition of {study.name}{reasons}", hint=hint)
    return conditions
