"""Places for a study to run: the box, a lab file, or results that are already there."""

import hashlib
import json
import math
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from labkit import box, controls, imports, kernels, studies
from labkit.box.containers.container import ENGINES
from labkit.changes.plan import AT_ONCE
from labkit.errors import BadInput, ResultsError, Unknown
from labkit.host import NOTHING, Host
from labkit.kernels import Note
from labkit.lab import LOCAL, LOCAL_LAB, Lab
from labkit.machine.places import out
from labkit.machine.stopping import together
from labkit.machine.units import capital
from labkit.results import IMPORTS, Results, check_label, stored
from labkit.running import possible, sizes
from labkit.running.loop import check_repeats
from labkit.runs import bundle, integrity
from labkit.runs.bundle import recorded
from labkit.runs.facts import READ, of_run, parse
from labkit.runs.progress import step_to_file
from labkit.study import DOCUMENT, FIT, SCALES, Study, insist_study

T = TypeVar("T")
# As many CPUs as it may use, where `facts` asks how many there are, and which they are.
CPUS_ALLOWED = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status 2>/dev/null"
FACTS = f"{READ}f cpus $(nproc); f allowed $({CPUS_ALLOWED})"
SCALE = "scale"
"""The parameter that says which sizes a study has."""
BUNDLE = f"a bundle{bundle.SUFFIX}"
FACT_NAMES = ("kernel", "cpus", "allowed", "cpu", "clock")


def open_lab(place: str | Path, made_for: Study | str = "") -> Lab | None:
    """The lab that `place` names: `box`, `local` or a lab.toml; None for stored results.

    A box is made for a study, or of a topology. It is named after its topology, unless that is the
    usual one.
    """
    place = str(place)
    if is_stored(place):
        return None
    topology = made_for if isinstance(made_for, str) else made_for.topology
    if place == "box":
        if isinstance(made_for, Study):
            sizes.check_box(made_for)
        return Lab.read(box.up(topology or "lab", step_to_file, made_of=topology))
    return Lab.read(file_of(place))


def check_place(place: str) -> None:
    """Refuse a place that makes no sense, before anything is started."""
    if not is_stored(place) and place != "box":
        Lab.read(file_of(place))


def file_of(place: str) -> Path:
    """The lab file that `local` or a path names."""
    return LOCAL_LAB if place == LOCAL else Path(os.path.expanduser(place))


def is_stored(place: str) -> bool:
    """Whether `place` names results rather than a lab: `recorded`, a folder or a bundle of them."""
    if place not in ("box", LOCAL) and not place.endswith(".toml") and not _results(place):
        kinds = ("box", LOCAL, "recorded", "FILE.toml", "a results folder", BUNDLE)
        raise Unknown("place to run", place, kinds)
    return _results(place)


def stored_results(study: str, place: str) -> Results:
    """The results that `place` names: those recorded for the study, a folder, or a bundle."""
    if place == "recorded":
        return Results.open(recorded(study))
    if place.endswith(bundle.SUFFIX):
        return Results.open(bundle.open_bundle(Path(os.path.expanduser(place))))
    return Results.open(Path(os.path.expanduser(place)))


def study_results(
    study: Study, lab: Lab | None, place: str, *, label: str = "notebook", seed: int = 1,
    extras: Mapping[str, Any] = NOTHING,
) -> Results:  # fmt: skip
    """The results to read or to go on with; new ones when there are none for this question.

    What is in `extras` besides stands in study.json.
    """
    insist_study(study)
    if lab is None:
        return of_one_scale(study, stored_results(study.name, place))
    question = study.asked(place, seed)
    digest = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:8]
    path = out() / "results" / study.name / f"{check_label(label)}-{digest}"
    possible.check_links(study, lab)
    plan = possible.plan(study, lab)
    with sizes.all_on(lab, plan):
        if study.scale == DOCUMENT:
            sizes.refuse(study, lab.name, sizes.lacks_of_hosts(study, sizes.found(study, lab)))
        refusals = possible.refusals(study, lab, plan)
        if not (path / "study.json").exists():
            possible.able(study, lab, refusals)
        on = {c.name: kernels.label(lab, c.in_guest) for c in study.conditions}
        content = {
            **question, "label": label, "lab": facts(lab), "refused": refusals,
            "here": {c.name: c.shown(lab, plan) for c in study.conditions},
            **_known({
                "kernels": _known(on), "unseen": possible.unseen(study, lab),
                "scaled": sizes.scaled(study), "substitutes": sizes.substitutes(study),
            }),
            **_controls(lab, path), **extras,
        }  # fmt: skip
        facts_of_run = of_run(lab.hosts, lab.links_now(), _programs(study, lab))
        return replace(Results.begin(path, content), facts=facts_of_run)


def _known(fields: Mapping[str, T]) -> dict[str, T]:
    return {name: value for name, value in fields.items() if value}


def of_one_scale(study: Study, results: Results) -> Results:
    """The results, if they are of the study's scale; those of older labkits fit their lab."""
    scale = str(results.asked.get(SCALE, FIT))
    if scale not in SCALES:
        problem = f"{results.path}: its scale {scale[:40]!r} is one that a newer labkit may know"
        raise ResultsError(problem, hint="open it with the labkit that wrote it")
    if scale != study.scale:
        problem = f"{results.path} holds results of scale {scale}, and {study.scale} is asked for"
        raise BadInput(problem, hint=f"-p scale={scale}, or a place where it can be measured")
    return results


# Results that are gone on with keep those that they were begun with.
def _controls(lab: Lab, path: Path) -> dict[str, Any]:
    if (path / "study.json").exists():
        before = Results.open(path).asked
        return {name: before[name] for name in (controls.STUDY,) if name in before}
    controls_kept = controls.kept(lab.name)
    return {controls.STUDY: controls_kept.kept_as()} if controls_kept else {}


# What makes the load, and what runs guests and containers.
def _programs(study: Study, lab: Lab) -> list[str]:
    programs = dict.fromkeys(program for load in study.loads for program in load.programs)
    emulator = ["qemu-system-x86_64"] if lab.accelerator in ("kvm", "tcg") else []
    engines = [word for word in re.findall(r"[a-z]+", lab.containers) if word in ENGINES]
    return [*programs, *emulator, *engines]


def named_results(name: str) -> Results:
    """The results that a command names: a folder, one of its runs, a bundle, or a study.

    Of a study the newest that were measured here, else imported, else those that come with labkit.
    """
    path = Path(os.path.expanduser(name)).resolve()
    if "/" in name and not path.exists():
        path = out() / "results" / name
    if path.suffix == bundle.SUFFIX:
        return Results.open(bundle.open_bundle(path))
    # A run that is not there is not answered with the results that it would be one of.
    for folder in (path, *path.parents[:2]) if path.exists() else ():
        if (folder / "study.json").is_file():
            return Results.open(folder)
    study = name.replace("-", "_")
    if paths := stored(study) or imports.imported_as(study):
        return Results.open(paths[-1])
    if study in studies.names():
        return Results.open(recorded(study))
    raise ResultsError(f"no results at {name}", hint="`labkit results list` lists all results")


def check_parameters(study: Study, values: Mapping[str, Any]) -> None:
    """Refuse a value that the study cannot be run with, before anything is started."""
    check_place(str(values["where"]))
    check_label(str(values["label"]))
    check_repeats(values.get("repeats", 1))
    check_quick(study, values)
    knobs = knobs_among(study, values)
    try:
        study_asked = with_load(study, **knobs)
        for condition in study_asked.conditions:
            for load in study_asked.loads:
                condition.load(load)
        if values["where"] == "box":
            sizes.check_box(study_asked)
    except BadInput as error:
        text = f"the study's own: `labkit run {study.name}` without -p {' or '.join(knobs)}"
        raise BadInput(error.what, said=error.said, hint=error.hint or text) from None


def check_quick(study: Study, values: Mapping[str, Any]) -> None:
    """Refuse values of parameters that a short run sets itself."""
    if values.get("quick") and (names := sorted(study.quick.keys() & values)):
        sets = ", ".join(f"{name} = {study.quick[name]}" for name in names)
        problem = f"a quick run of {study.name} sets {sets} itself"
        raise BadInput(problem, hint="choose one: quick, or the value")


def knobs_among(study: Study, values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a notebook that are knobs of the study's workload, or sizes."""
    names = {*vars(study.workload), *study.sizes, SCALE}
    return {name: value for name, value in values.items() if name in names}


def with_load(study: Study, scale: str = FIT, **knobs_given: float | str) -> Study:
    """The study with other knobs of its workload, and other sizes, each checked by name.

    A size that grows with the lab, and is 0, is left open. What runs beside it takes no longer than
    it does.
    """
    study = study.at_scale(scale)
    knobs = study.left_open({n: v for n, v in knobs_given.items() if v or n not in study.grows})
    sizes: dict[str, Any] = {name: knobs.pop(name) for name in study.sizes if name in knobs}
    study = study.sized(**sizes).fixed(sizes)
    knobs_of = vars(study.workload)
    for knob in knobs:
        if knob not in knobs_of:
            kind = f"knob of {type(study.workload).__name__}"
            raise Unknown(kind, knob, [*knobs_of, *study.sizes])
    workload = replace(study.workload, **knobs)  # refuses what is no number
    limit: dict[str, Any] = {"duration": knobs.get("duration", math.inf)}
    also = (replace(load, **limit) if vars(load).get("duration", 0) > limit["duration"] else load
            for load in study.also)  # fmt: skip
    return replace(study, workload=workload, also=tuple(also))


def with_parameters(
    study: Study, repeats: int | str, quick: bool, **knobs: Any
) -> tuple[Study, int | str]:
    """The study and the repeats that a notebook's parameters ask for; `quick` sets some itself."""
    short = study.quick if quick else {}
    knobs_chosen = {name: short.get(name, value) for name, value in knobs.items()}
    return with_load(study, **knobs_chosen), short.get("repeats", repeats)


def shortened(study: Study, place: str) -> Study:
    """The study with the conditions of a short run alone; of stored results, as it is."""
    return _select(study, place, study.few)


def usual(study: Study, place: str) -> Study:
    """The study without its extra conditions; of stored results, as it is."""
    names = [condition.name for condition in study.conditions if condition.name not in study.extra]
    return _select(study, place, names)


def _select(study: Study, place: str, names: Collection[str]) -> Study:
    conditions = tuple(c for c in study.conditions if c.name in names)
    if is_stored(place) or not conditions:
        return study
    absent = tuple(c.name for c in study.conditions if c.name not in names)
    return replace(study, conditions=conditions, absent=absent)


def facts(lab: Lab) -> dict[str, Any]:
    """The make-up of a lab, as its hosts describe it."""
    own_hosts = {} if lab.emulated else lab.hosts
    optional: dict[str, Any] = {
        "containers": lab.containers, "wakeups": lab.wakeups, "disks": lab.disks,
        "links": lab.links_now(), "tolerates": [*lab.tolerates],
        "interfaces": _known({role: host.interface for role, host in own_hosts.items()}),
        "elsewhere": possible.elsewhere(lab),
    }  # fmt: skip

    def facts_of(host: Host) -> dict[str, str]:
        values = parse(host.check("sh", "-c", FACTS))
        return {name: values.get(name, "") for name in FACT_NAMES}

    of_hosts = together(facts_of, lab.hosts.values(), AT_ONCE)
    return {
        "name": lab.name, "tier": lab.tier, "accelerator": lab.accelerator, **_known(optional),
        "hosts": dict(zip(lab.hosts, of_hosts, strict=True)),
    }  # fmt: skip


def note(results: Results) -> Note:
    """The label that every figure carries: what is emulated, scaled, or done by another tool.

    Where conditions differ in it, it says which ran on the machine's own kernel.
    """
    odd = f"Emulated or not: {integrity.EDIT_REMARK}" if integrity.edited(results) else ""
    text, brief = _describe(results)
    here = {"Sizes here": "scaled", "Tools here": "substitutes"}
    differs = [f"{title}: {words}" for title, name in here.items()
               if (words := results.asked.get(name))]  # fmt: skip
    return Note(
        ". ".join(filter(None, [odd, text, *differs])), "edited by hand" if odd else brief,
        kernels.beside_real(results.asked.get("kernels", {})),
    )  # fmt: skip


# In words, and in a word or two.
def _describe(results: Results) -> tuple[str, str]:
    lab: Mapping[str, Any] = results.asked["lab"]
    if lab["tier"] == IMPORTS:
        return f"Imported: {lab['name']}, measured elsewhere", "measured elsewhere"
    if lab["tier"] == "hosts":
        return "", ""
    guests = f"guests by {lab['accelerator'].upper()}" if lab["accelerator"] else ""
    # What an emulated guest takes says nothing of the CPU.
    if lab["accelerator"] == "kvm":
        cpus: list[str] = [host.get("cpu", "") for host in lab["hosts"].values()]
        guests += f" on {next(filter(None, cpus), 'a CPU of no name')}"
    if guests and "lossy" in lab.get("wakeups", ""):
        guests += " that lose wake-ups"
    containers = f"containers by {lab['containers']}" if lab.get("containers") else ""
    rootless = "made without root" if lab["tier"] == "rootless" else ""
    parts = ", ".join(filter(None, (guests, containers, rootless)))
    if on := results.asked.get("kernels"):
        told = ". ".join(filter(None, ("One machine", kernels.told(on), capital(parts))))
        return told, kernels.brief(on)
    machine = "One machine" if lab["accelerator"] == "kvm" else "Emulated: one machine"
    return ", ".join(filter(None, (machine, parts))), "emulated"


def _results(place: str) -> bool:
    path = Path(os.path.expanduser(place))
    is_bundle = place.endswith(bundle.SUFFIX) and path.is_file()
    return place == "recorded" or is_bundle or (path / "study.json").is_file()
