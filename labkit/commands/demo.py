"""`labkit demo`: it all once, from the box to the report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.commands._verb import now, show_answer, verb
from labkit.errors import BoxError
from labkit.pages.terminal import ProgressLine, paragraph

if TYPE_CHECKING:
    from labkit.pages.answer import Answer
    from labkit.study import Study

BOX, STUDY = "demo", "lat_cpu_exclusive"
"""The benefit and cost of a CPU of one's own are the same in a box as on any machine."""
LOAD = {"duration": "3", "repeats": "4"}
CONTROL_BLOCKS = 3
NEXT = """\
Three things to try next:
  {lab}
      JupyterLab, open at a page of studies, labs and results
  {labkit} scorecard
      every claim of every document, on all runs that come with labkit
  {labkit} doctor
      what this machine can do, and what it lacks"""


@verb("")
def _demo(args: argparse.Namespace) -> None:
    """See it all once: a box, its controls, a study, its report."""
    from labkit import box, studies

    study = studies.find(STUDY)
    was_up = box.status(BOX).state == "up"
    lab = _demo_box_up(study.topology)
    place = str(lab) if lab else "recorded"
    args.json, parameters = False, {"where": place, "label": now(), **(LOAD if lab else {})}
    try:
        if lab:
            _controls(lab)
        answer = show_answer(study, parameters, args)
    finally:
        if lab and not was_up:
            box.down(BOX)
    if lab:
        print("box       left up, as it was" if was_up else "box       down again, nothing left")
    _end(study, answer)


def _end(study: Study, answer: Answer) -> None:
    from labkit.box.needs import CHECKOUT
    from labkit.pages.report_head import finding

    text = f"Found: {finding(answer.verdicts)}"
    conditions = [f"{c.name} here: {c.here}" for c in study.conditions if c.name in text]
    print("", *map(paragraph, [text, *conditions]), sep="\n")
    # An installed labkit is on the PATH.
    lab, labkit = ("make lab", ".venv/bin/labkit") if CHECKOUT else ("labkit lab", "labkit")
    print(f"The chart is in the report: {answer.report}\n")
    print(NEXT.format(lab=lab, labkit=labkit))


# The study finds them when it begins, and shows them above all that it measured.
def _controls(lab: Path) -> None:
    from labkit.lab import opened
    from labkit.running import control_runs

    with ProgressLine() as line, opened(lab) as opened_lab:
        control_runs.measure(opened_lab, label=now(), blocks=CONTROL_BLOCKS, say=line.say)


# Before the notebook runs: here sudo can ask for a password, and everyone sees what comes up.
def _demo_box_up(topology: str) -> Path | None:
    from labkit import box

    try:
        with ProgressLine() as line:
            return box.up(BOX, line.say, made_of=topology)
    except BoxError as error:
        print(f"{error}\n\nSo you see a recorded run; `labkit doctor` says more.\n")
        return None
