"""Can a study run here? On a lab as the doctor finds it, without one as this machine can."""

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from labkit import studies
from labkit.box.this_machine import Report
from labkit.check import OK, Finding, Subject
from labkit.checks.conditions import conditions
from labkit.lab import Lab
from labkit.programs.packages import absent, installable, package_of
from labkit.running.preparing import THIS_MACHINE, needed
from labkit.study import Study

YES, PARTLY, NO, NOT_CLEAR = "yes", "in part", "no", "not known"
IN_A_BOX = ("root", "rootless")
"""Tiers that have a box."""
QUIET = 0.3
"""Runnable tasks for each CPU, up to which a machine is quiet."""
SIGN = {True: "✔", False: "✘"}
NEEDS_HOSTS = "needs hosts of your own; recorded runs open here"


@dataclass(frozen=True)
class Readiness:
    """Whether a study can run, in words, and what to do where it cannot."""

    state: str
    words: str
    fix: str = ""


def quiet_now() -> tuple[bool, str]:
    """Whether this machine is quiet enough to measure, and that in words."""
    load, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
    quiet = load <= QUIET * cpus
    words = "is quiet" if quiet else "is busy: figures measured now are noisy"
    return quiet, f"{SIGN[quiet]} This machine {words} (load {load:.1f} on {cpus} CPUs)."


def on_this_machine(study: Study, machine: Report) -> Readiness:
    """The readiness if no lab is open: whether this machine can make the lab in a box needed."""
    if machine.tier in IN_A_BOX:
        if packages := _lacks(study):
            words = f"runs here in the lab in a box, in part: it lacks {', '.join(packages)}"
            return Readiness(PARTLY, words, shlex.join(["labkit", "prepare", study.name]))
        up = shlex.join(["labkit", "box", "up", *([study.topology] if study.topology else [])])
        return Readiness(YES, "can run here in the lab in a box", up)
    return Readiness(NO, NEEDS_HOSTS, machine.next)


# Where a tool is not free, a free one takes its place.
def _lacks(study: Study) -> list[str]:
    programs = filter(installable, absent(needed([study], None)[THIS_MACHINE]))
    packages = (package_of(program) for program in programs)
    return list(dict.fromkeys(package.name for package in packages if not package.source))


def on_lab(lab: Lab, answering: Iterable[str]) -> tuple[dict[str, Readiness], str]:
    """Ask a lab which conditions it can measure, or why it could not be asked.

    Only hosts that answer are asked.
    """
    roles = tuple(answering)
    if not roles:
        return {}, f"no host of {lab.name} answers"
    by_name: dict[str, list[Finding]] = {}
    for finding in conditions.made(Subject(lab, roles)):
        by_name.setdefault(finding.where.partition(": ")[0], []).append(finding)
    odd = next((group[0].found for place, group in by_name.items() if place not in studies.names()),
               "")  # fmt: skip
    return {name: _of(findings, lab.name) for name, findings in by_name.items()}, odd


def _of(findings: list[Finding], lab: str) -> Readiness:
    obstacles = [finding for finding in findings if finding.state != OK]
    if not obstacles:
        return Readiness(YES, f"runs on {lab}: all {len(findings)} conditions")
    first, able = obstacles[0], len(findings) - len(obstacles)
    reason = first.found.removeprefix("cannot be measured: ")
    number = sum(obstacle.found != first.found for obstacle in obstacles)
    text = f"{reason}; {number} more for other reasons" if number else reason
    if able:
        words = f"{able} of {len(findings)} conditions run on {lab}; the others not: {text}"
        return Readiness(PARTLY, words, first.fix)
    return Readiness(NO, f"does not run on {lab}: {text}", first.fix)


def of_all(
    studies_shown: Iterable[Study], machine: Report, lab: Lab | None, answering: Iterable[str]
) -> Mapping[str, Readiness]:
    """Say of every study whether it can run here now."""
    if lab is None:
        return {study.name: on_this_machine(study, machine) for study in studies_shown}
    readiness_of, odd = on_lab(lab, answering)
    silent = Readiness(NOT_CLEAR, odd, shlex.join(["labkit", "doctor", "--lab", str(lab.path)]))
    return {study.name: readiness_of.get(study.name, silent) for study in studies_shown}
